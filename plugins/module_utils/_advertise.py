# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node advertises: a pure function of the GPUs it has and the rules it was given.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from . import _resources
from ._errors import GpuSwarmError

DEFAULT_KIND = "NVIDIA-GPU"
DEFAULT_RULES = ({"as": "gpu", "kind": DEFAULT_KIND},)

# What each form takes besides ``as`` and ``select``.
FORMS = {"gpu": ("kind",), "none": ()}

# The toolkit takes nothing less (a prefix fails from 1.18 on, and two GPUs of one board may share one).
_HEX = "[0-9A-Fa-f]"
FULL_UUID = re.compile(f"GPU-{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}")
_PCI = re.compile(f"(?:({_HEX}{{4,8}}):)?({_HEX}{{2}}:{_HEX}{{2}}\\.[0-7])")

# Printable ASCII without what separates or quotes in daemon.json, config.toml and docker's command line.
_KIND = re.compile(r"""[^\x00-\x20\x7f-\U0010ffff=,"'\\]+""")


class PolicyError(GpuSwarmError):
    """The user's rules cannot be followed; nothing was changed."""


# --- the rules ------------------------------------------------------------------------------------------------------


def check_rules(rules):
    """Raise PolicyError, with the place in the list, for the first thing that cannot be meant."""
    if not isinstance(rules, (list, tuple)):
        raise PolicyError(f"advertise: {_resources.shorten(rules)} is not a list of rules. {_example()}")
    for number, rule in enumerate(rules):
        _check_rule(rule, f"advertise[{number}]")
    _check_clash(rules)


def _check_rule(rule, where):
    if not isinstance(rule, dict):
        raise PolicyError(f"{where}: {_resources.shorten(rule)} is not a rule. {_example()}")
    form = rule.get("as")
    if form not in FORMS:
        raise PolicyError(f"{where}.as: {_resources.shorten(form)} is not known; use one of: {', '.join(FORMS)}.")
    known = ("as", "select") + FORMS[form]
    unknown = sorted(str(key) for key in rule if key not in known)
    if unknown:
        raise PolicyError(
            f"{where}: a rule with as={form} does not know {', '.join(unknown)}; it takes: {', '.join(known)}."
        )
    if "kind" in rule:
        _check_kind(rule["kind"], where + ".kind")
    _check_select(rule.get("select"), where + ".select")


def _check_kind(kind, where):
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise PolicyError(
            f"{where}: {_resources.shorten(kind)} cannot be the name of a kind; use printable ASCII characters"
            " without blanks, '=', ',' and quotes, such as NVIDIA-GPU."
        )


def _check_clash(rules):
    seen = {}
    for kind in owned_kinds(rules):
        other = seen.setdefault(kind.upper(), kind)
        if other != kind:
            raise PolicyError(
                f"advertise: the kinds {other!r} and {kind!r} are two kinds to the swarm, but tasks find both in the"
                f" one variable {_resources.env_name(kind)}; write them alike or rename one."
            )


def _check_select(select, where):
    if select is None:
        return
    if not isinstance(select, dict):
        raise PolicyError(f"{where}: {_resources.shorten(select)} is not a mapping; it takes: {', '.join(_SELECTORS)}.")
    for key, wanted in select.items():
        if key not in _SELECTORS:
            raise PolicyError(f"{where}: {_resources.shorten(key)} is not known; it takes: {', '.join(_SELECTORS)}.")
        check, remedy = _SELECTORS[key][:2]
        values = _listed(wanted)
        bad = [value for value in values if not check(value)] if values else [wanted]
        if bad or (key == "min_memory_mib" and len(values) != 1):
            raise PolicyError(f"{where}.{key}: {_resources.shorten((bad or [wanted])[0])} is not {remedy}.")


def _example():
    return "A rule looks like {as: gpu, kind: NVIDIA-GPU}."


def _listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _is_whole_number(value):
    # Templates make text of numbers.
    return not isinstance(value, bool) and str(value).isascii() and str(value).isdecimal()


def _is_text(value):
    return isinstance(value, str) and value != ""


def _pci(value):
    """One spelling for ``0000:c1:00.0`` (lspci), ``00000000:C1:00.0`` (NVML) and ``c1:00.0``; None if it is neither."""
    found = _PCI.fullmatch(value) if isinstance(value, str) else None
    return f"{int(found.group(1) or '0', 16):08X}:{found.group(2).upper()}" if found else None


# key -> (what may be written, the same in words, does a GPU match one wanted value)
_SELECTORS = {
    "uuid": (
        lambda value: isinstance(value, str) and bool(FULL_UUID.fullmatch(value)),
        "a full GPU UUID (GPU- and 36 characters, as nvidia-smi -L shows it)",
        lambda gpu, value: (gpu.get("uuid") or "").lower() == value.lower(),
    ),
    "pci_bus_id": (
        lambda value: _pci(value) is not None,
        "a PCI address such as 00000000:C1:00.0 (quote it in YAML)",
        lambda gpu, value: _pci(gpu.get("pci_bus_id")) == _pci(value),
    ),
    "index": (_is_whole_number, "a number from 0", lambda gpu, value: gpu["index"] == int(value)),
    "model": (
        _is_text,
        "a model or a pattern such as *H100*",
        lambda gpu, value: any(fnmatchcase(gpu.get(key) or "", value) for key in ("name", "model")),
    ),
    "min_memory_mib": (
        _is_whole_number,
        "a number of MiB",
        lambda gpu, value: gpu.get("memory_mib") is not None and gpu["memory_mib"] >= int(value),
    ),
}


def _selects(rule, gpu):
    return all(
        any(_SELECTORS[key][2](gpu, value) for value in _listed(wanted))
        for key, wanted in (rule.get("select") or {}).items()
    )


def owned_kinds(rules):
    """Every kind that the rules may make, in their order: what stands under one of these is ours."""
    kinds = [rule.get("kind", DEFAULT_KIND) for rule in rules if rule["as"] == "gpu"]
    return list(dict.fromkeys(kinds))


# --- the decision ---------------------------------------------------------------------------------------------------


def decide(gpus, rules=DEFAULT_RULES):
    """Gpu records and rules -> Advertisement, a plain dict. The first rule that selects a GPU owns it."""
    check_rules(rules)
    resources, left_out, unselected, taken = [], [], [], set()
    for gpu in sorted(gpus, key=lambda one: one["index"]):
        rule = next((rule for rule in rules if _selects(rule, gpu)), None)
        if rule is None or rule["as"] == "none":
            unselected.append(_named(gpu, "left to the host by a rule" if rule else "no rule selects it"))
            continue
        reason = _unfit(gpu, taken)
        if reason:
            left_out.append(_named(gpu, reason))
            continue
        taken.add(gpu["uuid"])
        resources.append((rule.get("kind", DEFAULT_KIND), gpu["uuid"]))
    kinds = list(dict.fromkeys(kind for kind, _uuid in resources))
    return {
        "resources": [f"{kind}={uuid}" for kind, uuid in resources],
        "kinds": kinds,
        "owned_kinds": owned_kinds(rules),
        "swarm_resource": ",".join(_resources.env_name(kind) for kind in kinds),
        "left_out": left_out,
        "unselected": unselected,
    }


def _named(gpu, reason):
    return {"index": gpu["index"], "uuid": gpu.get("uuid"), "name": gpu.get("name"), "reason": reason}


def _unfit(gpu, taken):
    """Why this GPU cannot be handed out whole, or None."""
    uuid, health = gpu.get("uuid"), gpu.get("health") or {}
    if health.get("state") == "failed":
        return "; ".join(health.get("reasons") or []) or "it failed"
    if not uuid:
        return "its UUID could not be read"
    if not FULL_UUID.fullmatch(uuid):
        return f"{_resources.shorten(uuid)} is not a full GPU UUID, the toolkit would refuse it"
    if (gpu.get("mig") or {}).get("mode") == "enabled":
        return "it is in MIG mode, where a card cannot be handed out whole"
    if uuid in taken:
        return "another GPU of this node has the same UUID"
    return None


# --- the comparison -------------------------------------------------------------------------------------------------


def drift(advertisement, generic_resources, listed=None):
    """Sentences on how the running daemon (``GenericResources`` of its /info) differs from what was decided.

    ``listed`` is what ``node-generic-resources`` of daemon.json says, or will say: with it the kinds of others are
    compared too, and kinds that were ours under earlier rules.
    """
    decided = _resources.parse(advertisement["resources"])
    owned = {kind.upper() for kind in advertisement["owned_kinds"]}
    running = _resources.from_info(generic_resources)
    ours = {kind: value for kind, value in running.items() if kind.upper() in owned}
    reasons = {gpu["uuid"]: gpu["reason"] for gpu in advertisement["left_out"] + advertisement["unselected"]}
    reasons.update({uuid: f"it is decided to be {kind}" for kind, uuids in decided.items() for uuid in uuids})
    told = []
    for kind in dict.fromkeys(list(decided) + sorted(ours)):
        told.extend(_drift_of_kind(kind, decided.get(kind, []), ours.get(kind, []), reasons))
    if listed is not None:
        told.extend(_drift_of_others(_resources.parse(listed), running, owned))
    return told


def _drift_of_kind(kind, decided, running, reasons):
    if not isinstance(running, list):
        yield f"{kind} is the number {running}, it must be a list of GPUs"
        running = []
    missing = [uuid for uuid in decided if uuid not in running]
    for value in dict.fromkeys(running):
        if value not in decided:
            yield _why_not(kind, value, decided, reasons)
        elif running.count(value) > 1:
            yield f"{value} is advertised {running.count(value)} times as {kind}"
    if missing:
        count = "1 GPU" if len(missing) == 1 else f"{len(missing)} GPUs"
        yield f"{count} not advertised as {kind}: {', '.join(missing)}"


def _why_not(kind, value, decided, reasons):
    full = [uuid for uuid in decided if uuid.startswith(value)]
    if full:
        return f"{value} is advertised as {kind}, a shortened UUID of {' and '.join(full)}"
    if value in reasons:
        return f"{value} is advertised as {kind} but should not be: {reasons[value]}"
    return f"{value} is gone, but advertised as {kind}"


def _drift_of_others(listed, running, owned):
    for kind in dict.fromkeys(list(listed) + list(running)):
        here, there = (_comparable(resources.get(kind)) for resources in (listed, running))
        if kind.upper() not in owned and here != there:
            yield f"{kind} is {there} in the running daemon, {here} in its configuration"


def _comparable(value):
    return "absent" if value is None else ", ".join(sorted(value)) if isinstance(value, list) else str(value)


def swarm_resource_drift(advertisement, line):
    """The same for ``swarm-resource`` of config.toml (None: no active line)."""
    if (line or "") == advertisement["swarm_resource"]:
        return []
    kinds = ", ".join(advertisement["kinds"]) or "none"
    return [
        f"swarm-resource lists {line}, kinds are {kinds}" if line else f"swarm-resource is not set, kinds are {kinds}"
    ]
