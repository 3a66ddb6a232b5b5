# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The user's rules: are they meant well, which GPUs do they select, which kinds are theirs (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from . import _resources
from ._errors import GpuSwarmError

DEFAULT_KINDS = {"gpu": "NVIDIA-GPU", "vram": "VRAM", "mig": "MIG"}
DEFAULT_RULES = ({"as": "gpu", "kind": DEFAULT_KINDS["gpu"]},)

# What each form takes besides ``as`` and ``select``.
FORMS = {
    "gpu": ("kind",),
    "model": ("kinds",),
    "vram": ("kind", "reserve_mib", "sum", "system_memory"),
    "mig": ("kind",),
    "none": (),
}

# The toolkit takes nothing less (a prefix fails from 1.18 on, and two GPUs of one board may share one).
_HEX = "[0-9A-Fa-f]"
_UUID = f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
FULL_UUID = re.compile("GPU-" + _UUID)
# The second form is that of drivers before 470.
MIG_UUID = re.compile(f"MIG-{_UUID}|MIG-GPU-{_UUID}/[0-9]+/[0-9]+")
PCI = re.compile(f"(?:({_HEX}{{4,8}}):)?({_HEX}{{2}}):({_HEX}{{2}})\\.([0-7])")

# Printable ASCII without what separates or quotes in daemon.json, config.toml and docker's command line.
_KIND = re.compile(r"""[^\x00-\x20\x7f-\U0010ffff=,"'\\]+""")


class PolicyError(GpuSwarmError):
    """The user's rules cannot be followed; nothing was changed."""


def kind_of(rule):
    """The rule's kind, or what its kinds begin with; None for a form that has none of its own."""
    return rule.get("kind", DEFAULT_KINDS.get(rule["as"]))


# --- checking -------------------------------------------------------------------------------------------------------


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
    for key, value in rule.items():
        if key in _OPTIONS:
            _OPTIONS[key](value, f"{where}.{key}")
    _check_select(rule.get("select"), where + ".select")


def check_kind(kind, where):
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise PolicyError(
            f"{where}: {_resources.shorten(kind)} cannot be the name of a kind; use printable ASCII characters"
            " without blanks, '=', ',' and quotes, such as NVIDIA-GPU."
        )


def _check_kinds(kinds, where):
    if not isinstance(kinds, dict):
        raise PolicyError(f'{where}: {_resources.shorten(kinds)} is not a mapping such as {{"*H100*": NVIDIA-H100}}.')
    for pattern, kind in kinds.items():
        if not _is_text(pattern):
            raise PolicyError(f"{where}: {_resources.shorten(pattern)} is not a model or a pattern such as *H100*.")
        check_kind(kind, f"{where}[{pattern}]")


def _check_mib(value, where):
    if not _is_whole_number(value):
        raise PolicyError(f"{where}: {_resources.shorten(value)} is not a number of MiB.")


def _check_yes_or_no(value, where):
    if not isinstance(value, bool):
        raise PolicyError(f"{where}: {_resources.shorten(value)} is neither true nor false.")


_OPTIONS = {
    "kind": check_kind,
    "kinds": _check_kinds,
    "reserve_mib": _check_mib,
    "sum": _check_yes_or_no,
    "system_memory": _check_yes_or_no,
}


def _check_clash(rules):
    check_alike(owned_kinds(rules))
    amounts = {kind_of(rule) for rule in rules if rule["as"] == "vram"}
    for kind in owned_kinds([rule for rule in rules if rule["as"] != "vram"]):
        if kind in amounts:
            raise PolicyError(
                f"advertise: the kind {kind} is a list of GPUs in one rule and an amount of memory in another; a kind is"
                " one of the two. Rename one."
            )


def check_alike(kinds, where="advertise"):
    """Kinds that differ only in case are two kinds to the swarm, and one to a task."""
    seen = {}
    for kind in kinds:
        other = seen.setdefault(kind.upper(), kind)
        if other != kind:
            raise PolicyError(
                f"{where}: the kinds {other!r} and {kind!r} are two kinds to the swarm, but tasks find both in the"
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


# --- the user's own resources ---------------------------------------------------------------------------------------


def check_extra(extra, owned):
    """Raise PolicyError for an entry of ``extra_resources`` that dockerd would refuse or that is not the user's.

    ``owned`` are the kinds that the rules decide.
    """
    where = "extra_resources"
    entries = extra if isinstance(extra, (list, tuple)) else None
    if entries is None or not all(isinstance(entry, str) for entry in entries):
        raise PolicyError(f'{where}: {_resources.shorten(extra)} is not a list such as ["SSD=1", "FPGA=card-a"].')
    try:
        parsed = _resources.parse(entries)
    except _resources.ResourceError as error:
        raise PolicyError(f"{where}: {error} Correct it.") from error
    ours = {kind.upper(): kind for kind in owned}
    check_alike(parsed, where)
    for kind, values in parsed.items():
        check_kind(kind, where)
        if kind.upper() in ours:
            raise PolicyError(f"{where}: {ours[kind.upper()]} is a kind that 'advertise' decides. Rename {kind} or take it out.")
        for value in values if isinstance(values, list) else []:
            _check_extra_value(kind, value, values)


def _check_extra_value(kind, value, values):
    if not value:
        raise PolicyError(f"extra_resources: {kind}= has no value. Write {kind}=1 for an amount or {kind}=name for a thing.")
    if values.count(value) > 1:
        raise PolicyError(f"extra_resources: {kind}={value} stands twice, and swarm would count it twice. Take one out.")
    if value.upper().startswith(("GPU-", "MIG-")):
        raise PolicyError(
            f"extra_resources: {kind}={value} names a GPU. A GPU in a second kind would be given to two tasks; use a rule of"
            " 'advertise' for it."
        )


# --- selecting ------------------------------------------------------------------------------------------------------


def pci_address(value):
    """(domain, bus, device, function), whether ``0000:c1:00.0`` (lspci), ``00000000:C1:00.0`` (NVML) or ``c1:00.0``."""
    found = PCI.fullmatch(value) if isinstance(value, str) else None
    return tuple(int(part or "0", 16) for part in found.groups()) if found else None


def matches_model(gpu, pattern):
    return any(fnmatchcase(gpu.get(key) or "", pattern) for key in ("name", "model"))


def in_mig_mode(gpu):
    return (gpu.get("mig") or {}).get("mode") == "enabled"


# key -> (what may be written, the same in words, does a GPU match one wanted value)
_SELECTORS = {
    "uuid": (
        lambda value: isinstance(value, str) and bool(FULL_UUID.fullmatch(value)),
        "a full GPU UUID (GPU- and 36 characters, as nvidia-smi -L shows it)",
        lambda gpu, value: (gpu.get("uuid") or "").lower() == value.lower(),
    ),
    "pci_bus_id": (
        lambda value: pci_address(value) is not None,
        "a PCI address such as 00000000:C1:00.0 (quote it in YAML)",
        lambda gpu, value: pci_address(gpu.get("pci_bus_id")) == pci_address(value),
    ),
    "index": (_is_whole_number, "a number from 0", lambda gpu, value: gpu["index"] == int(value)),
    "model": (_is_text, "a model or a pattern such as *H100*", matches_model),
    "min_memory_mib": (
        _is_whole_number,
        "a number of MiB",
        lambda gpu, value: gpu.get("memory_mib") is not None and gpu["memory_mib"] >= int(value),
    ),
}


def selects(rule, gpu):
    """A rule for MIG devices is for cards that are in MIG mode; every other card goes on to the next rule."""
    if rule["as"] == "mig" and not in_mig_mode(gpu):
        return False
    return all(
        any(_SELECTORS[key][2](gpu, value) for value in _listed(wanted))
        for key, wanted in (rule.get("select") or {}).items()
    )


def in_words(rule, number):
    """The rule as a person finds it: ``advertise[0] (as gpu, select model *H200*)``."""
    wanted = ["%s %s" % (key, ", ".join(str(value) for value in _listed(values))) for key, values in (rule.get("select") or {}).items()]
    return "advertise[%d] (as %s%s)" % (number, rule["as"], ", select " + " and ".join(wanted) if wanted else "")


# --- whose kinds ----------------------------------------------------------------------------------------------------


def owned_kinds(rules):
    """The kinds that the rules name, in their order: what stands under one of these is ours."""
    kinds = []
    for rule in rules:
        if rule["as"] in ("gpu", "vram"):
            kinds.append(kind_of(rule))
        kinds.extend((rule.get("kinds") or {}).values())
    return list(dict.fromkeys(kinds))


def in_family(kind, rules):
    """Is this a name that a rule makes on its own, whatever GPUs are there now: VRAM-C1, MIG-1g.10gb?"""
    for rule in rules:
        base = re.escape(kind_of(rule) or "")
        if rule["as"] == "vram" and re.fullmatch(base + _PLACE, kind, re.IGNORECASE):
            return True
        if rule["as"] == "mig" and re.fullmatch(base + r"-(?:\d+c\.)?\d+g\.\d+gb[A-Za-z0-9._-]*", kind, re.IGNORECASE):
            return True
    return False


_PLACE = f"(?:-{_HEX}{{4,8}})?-{_HEX}{{2}}(?:-{_HEX}{{2}})?(?:\\.[0-7])?"


def place_name(gpu):
    """The GPU's PCI address as short as it can be while no other address has the same: C1, 00-1E, 0001-C1; None if unknown.

    It depends on nothing but the card's own slot, so that it stays when another card dies.
    """
    address = pci_address(gpu.get("pci_bus_id"))
    if address is None:
        return None
    domain, bus, device, function = address
    name = (f"{domain:04X}-" if domain else "") + f"{bus:02X}"
    return name + (f"-{device:02X}" if device else "") + (f".{function}" if function else "")
