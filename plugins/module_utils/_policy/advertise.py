# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides what a node advertises, from its GPUs and the user's rules (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Container, Iterable, Iterator, List, Mapping, Sequence, Tuple

from .._gpu.record import Gpu, devices_of, is_slot
from . import generic_resources, inventories
from .allocation import Shares
from .forms import DEFAULT_RULES, advertise
from .rules import check_case, check_extra, check_rules, describe_rule, in_family, owned_kinds, selects
from .selection import FULL_UUID, PolicyError, Rule

__all__ = ["DEFAULT_RULES", "FULL_UUID", "PolicyError", "check_rules", "decide", "find_drift", "owned_kinds", "swarm_resource_drift"]


# GPUs that are intentionally not advertised, with the reason.
Unselected = List[Tuple[Gpu, str]]

NO_RULE = "no rule selects it"


# --- the decision ---------------------------------------------------------------------------------------------------


def decide(
    gpus: Sequence[Gpu],
    rules: Sequence[Rule] = DEFAULT_RULES,
    extra: Sequence[str] = (),
    present: Mapping[str, Any] | None = None,
    system_memory_mib: int | None = None,
) -> dict[str, Any]:
    """Return the advertisement as a plain dict. The first rule that selects a GPU owns this GPU.

    ``extra`` are the user's own resources, as entries. ``present`` are the resources in the node's file or daemon. If a kind contains GPUs
    that the rules advertise, the rules take over this kind, whatever its name is.
    """
    check_rules(rules)
    shares = Shares(system_memory_mib, present)
    forgotten: list[Gpu] = []
    owned: list[list[Gpu]] = [[] for _rule in rules]
    for gpu in sorted(gpus, key=lambda item: item["index"]):
        rule_gpus = next((rule_gpus for rule, rule_gpus in zip(rules, owned) if selects(rule, gpu)), forgotten)
        rule_gpus.append(gpu)
    for rule, rule_gpus in zip(rules, owned):
        if rule_gpus:
            advertise(rule, rule_gpus, shares)
    unselected = [(gpu, NO_RULE) for gpu in forgotten] + [(gpu, "left to the host by a rule") for gpu in shares.to_host]
    unselected.sort(key=lambda item: item[0]["index"])
    idle = [describe_rule(rule, number) for number, rule in enumerate(rules) if not owned[number]]
    return dict(_advertisement(rules, shares, unselected, extra, present or {}), rules=len(rules), idle_rules=idle)


def _advertisement(rules: Sequence[Rule], shares: Shares, unselected: Unselected, extra: Sequence[str], present: Mapping[str, Any]) -> dict[str, Any]:
    pairs = shares.resources()
    kinds = list(dict.fromkeys(kind for kind, _value in pairs))
    owned = list(dict.fromkeys(owned_kinds(rules) + kinds + _replaced_kinds(present, rules, shares, unselected)))
    check_case(owned_kinds(rules) + kinds)
    check_extra(extra, owned)
    extra = list(extra)
    _check_one_form(kinds, pairs, shares)
    gpu_kinds = [kind for kind in kinds if kind not in shares.amounts]
    return {
        "resources": [f"{kind}={value}" for kind, value in pairs] + extra,
        "kinds": kinds + list(generic_resources.parse(extra)),
        "gpu_kinds": gpu_kinds,
        "owned_kinds": owned + list(generic_resources.parse(extra)),
        "swarm_resource": ",".join(generic_resources.variable_name(kind) for kind in gpu_kinds),
        "advertised": [dict(_identity(gpu), devices=shares.advertised_mig_devices(gpu)) for gpu in shares.gpus()],
        "left_out": sorted(shares.left_out, key=lambda excluded: excluded["index"]),
        "unselected": [dict(_identity(gpu), reason=reason) for gpu, reason in unselected],
        "not_wanted": [uuid for gpu, reason in unselected if reason != NO_RULE for uuid in _all_uuids(gpu)],
        "forgotten": [dict(_identity(gpu), uuids=_all_uuids(gpu)) for gpu, reason in unselected if reason == NO_RULE],
        "memory_kinds": [kind for kind in owned if kind in shares.amounts],
        "memory_mib": shares.memory_mib,
        "map": shares.map,
        "card_mib": shares.card_mib,
        "warnings": shares.warnings + _double_counting_warnings(pairs, dict(present, **generic_resources.parse(extra)), owned),
    }


def _double_counting_warnings(pairs: Sequence[tuple[str, Any]], others: Mapping[str, Any], owned: Sequence[str]) -> list[str]:
    decided = generic_resources.parse(f"{kind}={value}" for kind, value in pairs)
    kept_resources = {kind: value for kind, value in others.items() if kind not in owned}
    return [
        f"{kind}={generic_resources.shorten(value)} counts GPUs that are advertised as {' and '.join(decided)} already: swarm can give one of them to"
        f" two tasks. If services reserve {kind}, have a rule advertise it: {{as: gpu, kind: {kind}}}. Else remove it from node-generic-resources or"
        " extra_resources."
        for kind, value in kept_resources.items()
        if inventories.double_counting_kinds({**decided, kind: value}, list(decided))
    ]


def _identity(gpu: Gpu) -> dict[str, Any]:
    return {"index": gpu["index"], "uuid": gpu.get("uuid"), "name": gpu.get("name")}


def _all_uuids(gpu: Gpu) -> list[str]:
    """Return the UUIDs of the card and of its MIG devices."""
    return [device["uuid"] for device in [gpu, *(gpu.get("mig_devices") or [])] if device.get("uuid")]


def _check_one_form(kinds: Sequence[str], pairs: Sequence[tuple[str, Any]], shares: Shares) -> None:
    """Raise an error unless a kind with an amount is one number. dockerd does not start with two numbers, or with a number and a name."""
    for kind in kinds:
        if kind in shares.amounts and [other for other, _value in pairs].count(kind) > 1:
            raise PolicyError(
                f"advertise: the kind {kind} would be advertised more than once on this node. Give each rule with as=vram a kind that"
                " no other rule has."
            )


def _replaced_kinds(present: Mapping[str, Any], rules: Sequence[Rule], shares: Shares, unselected: Unselected) -> list[str]:
    """Return the node's kinds that the rules replace: kinds that a rule could derive, and kinds that contain GPUs that the rules advertise.

    If a GPU were in two kinds, swarm would allocate the GPU to two tasks at once.
    """
    advertised = [uuid for gpu in shares.gpus() for uuid in _all_uuids(gpu)] + [card["uuid"] for card in shares.left_out if card["uuid"]]
    unselected_uuids = [uuid for gpu, _reason in unselected for uuid in _all_uuids(gpu)]
    replaced = []
    for kind, values in present.items():
        devices = [device.lower() for value in values for device in devices_of(value)] if isinstance(values, list) else []
        about_gpus = bool(devices) and all(value.startswith(("gpu-", "mig-")) and len(value) > len("gpu-") for value in devices)
        if in_family(kind, rules) or (about_gpus and _name_any(devices, advertised) and not _name_any(devices, unselected_uuids)):
            replaced.append(kind)
    return replaced


def _name_any(values: Iterable[str], uuids: Sequence[str]) -> bool:
    # Many guides on the web use shortened UUIDs.
    return any(uuid.lower().startswith(value) for value in values for uuid in uuids)


# --- the comparison -------------------------------------------------------------------------------------------------


def find_drift(advertisement: Mapping[str, Any], shown: Sequence[Any] | None, listed: Sequence[str] | None = None) -> list[str]:
    """Return a sentence for each difference between the running daemon and the decision. ``shown`` are the GenericResources in the daemon's /info.

    ``listed`` is the present or future ``node-generic-resources`` of daemon.json. With ``listed``, also compare the user's own kinds and the kinds of
    earlier rules.
    """
    decided = generic_resources.parse(advertisement["resources"])
    owned = {kind.upper() for kind in advertisement["owned_kinds"]}
    running = generic_resources.from_info(shown)
    running_owned = {kind: value for kind, value in running.items() if kind.upper() in owned}
    reasons = {gpu["uuid"]: gpu["reason"] for gpu in advertisement["left_out"] + advertisement["unselected"]}
    lists = {kind: values for kind, values in decided.items() if isinstance(values, list)}
    for kind, values in lists.items():
        reasons.update({name: f"the rules advertise it as {kind}" for value in values for name in [*devices_of(value), value]})
    differences: list[str] = []
    for kind in dict.fromkeys(list(decided) + sorted(running_owned)):
        compare = _drift_of_amount if isinstance(decided.get(kind), int) else _drift_of_kind
        differences.extend(compare(kind, decided.get(kind, []), running_owned.get(kind, []), reasons))
    if listed is not None:
        differences.extend(_drift_of_others(generic_resources.parse(listed), running, owned))
    return differences


def _drift_of_amount(kind: str, decided: Any, running: Any, _reasons: Mapping[str, str]) -> Iterator[str]:
    if running == []:
        yield f"{kind}={decided} is not advertised"
    elif running != decided:
        yield f"{kind} is {_as_text(running)}, not {decided}"


def _drift_of_kind(kind: str, decided: Any, running: Any, reasons: Mapping[str, str]) -> Iterator[str]:
    if not isinstance(running, list):
        reason = "but must be a list of GPUs" if decided else "but the rules advertise nothing as that kind"
        yield f"{kind} is the number {running}, {reason}"
        running = []
    missing = [uuid for uuid in decided if uuid not in running]
    for value in dict.fromkeys(running):
        if value not in decided:
            yield _explain_wrong_value(kind, value, decided, reasons)
        elif running.count(value) > 1:
            yield f"{value} is advertised {running.count(value)} times as {kind}"
    if missing:
        yield f"{_count_text(missing)} not advertised as {kind}: {', '.join(missing)}"


def _count_text(values: Sequence[str]) -> str:
    noun = "GPU" if values[0].startswith("GPU-") else "MIG device" if values[0].startswith("MIG-") else "value"
    noun = "slot" if is_slot(values[0]) else noun if devices_of(values[0]) == values[:1] else "group"
    return f"{len(values)} {noun}{'' if len(values) == 1 else 's'}"


def _explain_wrong_value(kind: str, value: str, decided: Iterable[str], reasons: Mapping[str, str]) -> str:
    full = [uuid for uuid in decided if uuid.startswith(value)]
    if any(is_slot(name) and devices_of(name) == [value] for name in full):
        return f"{value} is advertised as {kind} but should not be: its slots are"
    if any(value in devices_of(name) for name in decided):
        return f"{value} is advertised as {kind} but should not be: its group is"
    if full:
        return f"{value} is advertised as {kind}, a shortened UUID of {' and '.join(full)}"
    cards = devices_of(value)
    if is_slot(value) and any(devices_of(name) == cards for name in decided):
        return f"{value} is advertised as {kind} but should not be: its card has fewer slots"
    if len(cards) > 1 and any(set(cards).intersection(devices_of(name)) for name in decided):
        return f"{value} is advertised as {kind} but should not be: its cards are in other groups"
    reason = next(filter(None, map(reasons.get, [value, *cards])), None)
    if reason:
        return f"{value} is advertised as {kind} but should not be: {reason}"
    return f"{value} is gone, but advertised as {kind}"


def _drift_of_others(listed: Mapping[str, Any], running: Mapping[str, Any], owned: Container[str]) -> Iterator[str]:
    for kind in dict.fromkeys(list(listed) + list(running)):
        in_file, in_daemon = (_as_text(resources.get(kind)) for resources in (listed, running))
        if kind.upper() not in owned and in_file != in_daemon:
            yield f"{kind} is {in_daemon} in the running daemon, {in_file} in its configuration"


def _as_text(value: Any) -> str:
    return "absent" if value is None else ", ".join(sorted(value)) if isinstance(value, list) else str(value)


def swarm_resource_drift(advertisement: Mapping[str, Any], line: str | None) -> list[str]:
    """Return a sentence if ``swarm-resource`` of config.toml differs from the decision. ``line`` is None if the file has no active line."""
    if (line or "") == advertisement["swarm_resource"]:
        return []
    kinds = ", ".join(advertisement["gpu_kinds"]) or "none"
    return [
        f"swarm-resource lists {line}, kinds are {kinds}" if line else f"swarm-resource is not set, kinds are {kinds}"
    ]
