# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuses to advertise less than before unless the user consents (pure).

A node advertises less if a card has fallen off the bus, if a reboot has lost the MIG layout, or if no rule selects a card. If a rule leaves a card to
the host, no consent is needed, because the user wrote this rule.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from .._gpu.cards import describe_gpu, describe_place, find_card, model_of
from .._gpu.record import devices_of
from . import generic_resources

# The name of this refusal in results and in the table of known issues.
ID = "shrink"
BRING_BACK = "Bring back what is missing"


class Before(NamedTuple):
    """What a node has advertised so far."""

    values: list[str]  # UUIDs of GPUs and MIG devices, full or shortened
    memory_mib: int  # the sum of the amounts of the rules' kinds; used if the node's cards are not recorded


def advertised_before(running: Sequence[Any] | None, record: Mapping[str, Any], owned_kinds: Iterable[str]) -> Before:
    """Return what the node has advertised so far, from its daemon (``GenericResources``) and from this collection's record."""
    owned = {kind.upper() for kind in owned_kinds}
    resources = {kind: value for kind, value in generic_resources.from_info(running).items() if kind.upper() in owned}
    values = [name for value in resources.values() if isinstance(value, list) for name in value]
    values += [generic_resources.split_entry(entry)[1] for entry in record.get("resources", ())]
    values = [device for name in values if name.startswith(("GPU-", "MIG-")) for device in devices_of(name)] + record.get("gpus", [])
    amounts = [] if "gpus" in record else [value for value in resources.values() if isinstance(value, int)]
    return Before(list(dict.fromkeys(values)), sum(amounts))


def shrink_refusal(
    advertisement: Mapping[str, Any], earlier: Before, expect: int | str | None = None, allow: bool | None = False, may_lose: bool = False
) -> str | None:
    """Return why this decision needs consent, and how to consent; None if no consent is needed. ``may_lose`` consents to the loss of cards."""
    if allow:
        return None
    count = count_devices(advertisement)
    if expect is not None:
        return _describe_too_few(advertisement, count, int(expect)) if count < int(expect) else None
    if may_lose and advertisement["rules"] and not advertisement["forgotten"]:
        return None
    losses = _losses(advertisement, earlier)
    advertises_nothing = advertisement["forgotten"] and not advertisement["advertised"]
    if earlier.memory_mib > advertisement["memory_mib"] and (advertisement["memory_kinds"] or advertises_nothing):
        kinds = ", ".join(advertisement["memory_kinds"]) or "memory"
        losses.append(f"{kinds}: {earlier.memory_mib} MiB so far, and the GPUs of this node have {advertisement['memory_mib']} now")
    if not losses:
        return None
    return f"this node would advertise less than before: {'; '.join(losses)}. {_consent(_remedy(advertisement), count)}"


def _consent(remedy: str, count: int) -> str:
    return (
        f"{remedy}, or consent: 'expect: {count}' (role: gpu_node_expect) accepts {count} and no less, 'allow_shrink: true' (role:"
        " gpu_node_allow_shrink) accepts any number. Then run this again."
    )


def _remedy(advertisement: Mapping[str, Any]) -> str:
    if not advertisement["rules"]:
        return "Give it a rule again (advertise; role: gpu_node_advertise, and the group gpu_nodes), with 'as: none' for what is left to the host"
    if not advertisement["forgotten"]:
        return BRING_BACK
    idle = advertisement["idle_rules"]
    unused_rules = f" ({', '.join(idle)} {'selects nothing' if len(idle) == 1 else 'select nothing'} on this node)" if idle else ""
    return f"Fix the rules{unused_rules}, with 'as: none' for what is left to the host"


def count_devices(advertisement: Mapping[str, Any]) -> int:
    """Return the number of advertised devices: GPUs, whole or by memory, and MIG devices."""
    return sum(len(card["devices"]) or 1 for card in advertisement["advertised"])


def _describe_too_few(advertisement: Mapping[str, Any], count: int, expect: int) -> str:
    reasons = [_explain_unfit(card) for card in advertisement["left_out"]]
    return (
        f"{expect} GPUs are expected on this node and {count} can be advertised{': ' if reasons else ''}{'; '.join(reasons)}."
        f" {_consent(BRING_BACK, count)}"
    )


def _losses(advertisement: Mapping[str, Any], earlier: Before) -> list[str]:
    """Return a text for each device that is missing and not replaced. Cards that a rule leaves to the host are not included."""
    cards = [card["uuid"] for card in advertisement["advertised"]]
    parts = [uuid for card in advertisement["advertised"] for uuid in card["devices"]]
    reasons = []
    for prefix, uuids_now in (("GPU-", cards), ("MIG-", parts)):
        values_before = [value for value in earlier.values if value.startswith(prefix)]
        missing = [value for value in values_before if not _is_any(value, uuids_now + advertisement["not_wanted"])]
        gained = [uuid for uuid in uuids_now if not any(_is_any(value, [uuid]) for value in values_before)]
        if len(missing) > len(gained):
            reasons += [_explain_loss(value, advertisement) for value in missing]
    return reasons


def _is_any(value: str, uuids: Iterable[str | None]) -> bool:
    return any(uuid.lower().startswith(value.lower()) for uuid in uuids if uuid)


def _explain_loss(value: str, advertisement: Mapping[str, Any]) -> str:
    excluded = [card for card in advertisement["left_out"] if _is_any(value, [card["uuid"]])]
    if excluded:
        return _explain_unfit(excluded[0])
    if not advertisement["rules"]:
        return f"no rule is left for {value}"
    forgotten = [card for card in advertisement["forgotten"] if _is_any(value, card["uuids"])]
    if forgotten:
        return f"no rule selects GPU {forgotten[0]['index']} ({model_of(forgotten[0])}, {value})"
    card = find_card(advertisement.get("cards") or (), value)
    description = ", ".join(filter(None, [model_of(card), card["uuid"] if value != card["uuid"] else None, describe_place(card)])) if card else ""
    return f"{value} is gone" + (f" ({description})" if description else "")


def _explain_unfit(excluded: Mapping[str, Any]) -> str:
    return f"GPU {describe_gpu(excluded)} cannot be advertised: {excluded['reason']}"
