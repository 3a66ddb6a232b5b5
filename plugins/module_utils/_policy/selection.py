# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which GPUs a rule selects, by their records (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any, Collection, Dict, Mapping

from .._errors import GpuSwarmError
from .._gpu.record import Gpu
from . import generic_resources

# One of the list advertise: what the option of the module gpu_node takes, without the options that were left unset.
Rule = Dict[str, Any]

# The toolkit takes nothing less (a prefix fails from 1.18 on, and two GPUs of one board may share one).
HEX = "[0-9A-Fa-f]"
_UUID = f"{HEX}{{8}}(?:-{HEX}{{4}}){{3}}-{HEX}{{12}}"
FULL_UUID = re.compile("GPU-" + _UUID)
# The second form is that of drivers before 470.
MIG_UUID = re.compile(f"MIG-{_UUID}|MIG-GPU-{_UUID}/[0-9]+/[0-9]+")
PCI = re.compile(f"(?:({HEX}{{4,8}}):)?({HEX}{{2}}):({HEX}{{2}})\\.([0-7])")


class PolicyError(GpuSwarmError):
    """The user's rules cannot be followed; nothing was changed."""


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def check_one_of(known: Collection[str], value: Any, where: str) -> None:
    if value not in list(known):  # a value by mistake may be one that no mapping takes for a key
        raise PolicyError(f"{where}: {generic_resources.shorten(value)} is not known; use one of: {', '.join(known)}.")


def is_whole_number(value: Any) -> bool:
    # Templates make text of numbers.
    return not isinstance(value, bool) and str(value).isascii() and str(value).isdecimal()


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def pci_address(value: Any) -> tuple[int, ...] | None:
    """(domain, bus, device, function), whether ``0000:c1:00.0`` (lspci), ``00000000:C1:00.0`` (NVML) or ``c1:00.0``."""
    found = PCI.fullmatch(value) if isinstance(value, str) else None
    return tuple(int(part or "0", 16) for part in found.groups()) if found else None


def matches_model(gpu: Gpu, pattern: str) -> bool:
    return any(fnmatchcase(gpu.get(key) or "", pattern) for key in ("name", "model"))


def in_mig_mode(gpu: Gpu) -> bool:
    return (gpu.get("mig") or {}).get("mode") == "enabled"


# key -> (what may be written, the same in words, does a GPU match one wanted value)
SELECTORS = {
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
    "index": (is_whole_number, "a number from 0", lambda gpu, value: gpu["index"] == int(value)),
    "model": (is_text, "a model or a pattern such as *H100*", matches_model),
    "min_memory_mib": (
        is_whole_number,
        "a number of MiB",
        lambda gpu, value: gpu.get("memory_mib") is not None and gpu["memory_mib"] >= int(value),
    ),
}


def check_select(select: Any, where: str) -> None:
    if select is None:
        return
    if not isinstance(select, dict):
        raise PolicyError(f"{where}: {generic_resources.shorten(select)} is not a mapping; it takes: {', '.join(SELECTORS)}.")
    for key, wanted in select.items():
        if key not in SELECTORS:
            raise PolicyError(f"{where}: {generic_resources.shorten(key)} is not known; it takes: {', '.join(SELECTORS)}.")
        check, remedy = SELECTORS[key][:2]
        values = listed(wanted)
        bad = [value for value in values if not check(value)] if values else [wanted]
        if bad or (key == "min_memory_mib" and len(values) != 1):
            raise PolicyError(f"{where}.{key}: {generic_resources.shorten((bad or [wanted])[0])} is not {remedy}.")


def selects(select: Mapping[str, Any] | None, gpu: Gpu) -> bool:
    """Does the GPU match every key of ``select``?"""
    return all(any(SELECTORS[key][2](gpu, value) for value in listed(wanted)) for key, wanted in (select or {}).items())


def place_name(gpu: Gpu) -> str | None:
    """The GPU's PCI address as short as it can be while no other address has the same: C1, 00-1E, 0001-C1; None if unknown.

    It depends on nothing but the card's own slot, so that it stays when another card fails.
    """
    address = pci_address(gpu.get("pci_bus_id"))
    if address is None:
        return None
    domain, bus, device, function = address
    name = (f"{domain:04X}-" if domain else "") + f"{bus:02X}"
    return name + (f"-{device:02X}" if device else "") + (f".{function}" if function else "")
