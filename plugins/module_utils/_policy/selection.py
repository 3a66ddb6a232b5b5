# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the GPUs that a rule selects, by their records (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any, Collection, Dict, Mapping

from .._errors import GpuSwarmError
from .._gpu.record import Gpu
from . import generic_resources

# One rule of the module's option ``advertise``, without the options that are not set.
Rule = Dict[str, Any]

# The toolkit needs full UUIDs: a prefix fails since 1.18, and two GPUs of one board may have the same prefix.
HEX = "[0-9A-Fa-f]"
_UUID = f"{HEX}{{8}}(?:-{HEX}{{4}}){{3}}-{HEX}{{12}}"
FULL_UUID = re.compile("GPU-" + _UUID)
# Drivers before 470 use the second form.
MIG_UUID = re.compile(f"MIG-{_UUID}|MIG-GPU-{_UUID}/[0-9]+/[0-9]+")
PCI = re.compile(f"(?:({HEX}{{4,8}}):)?({HEX}{{2}}):({HEX}{{2}})\\.([0-7])")


class PolicyError(GpuSwarmError):
    """The user's rules are invalid. Nothing was changed."""


def as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def check_one_of(allowed: Collection[str], value: Any, where: str) -> None:
    if value not in list(allowed):  # a list, because a wrong value may not be hashable
        raise PolicyError(f"{where}: {generic_resources.shorten(value)} is not known; use one of: {', '.join(allowed)}.")


def is_whole_number(value: Any) -> bool:
    # Templates turn numbers into text.
    return not isinstance(value, bool) and str(value).isascii() and str(value).isdecimal()


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def pci_address(value: Any) -> tuple[int, ...] | None:
    """Parse ``0000:c1:00.0`` (lspci), ``00000000:C1:00.0`` (NVML) or ``c1:00.0`` into (domain, bus, device, function)."""
    match = PCI.fullmatch(value) if isinstance(value, str) else None
    return tuple(int(part or "0", 16) for part in match.groups()) if match else None


def matches_model(gpu: Gpu, pattern: str) -> bool:
    return any(fnmatchcase(gpu.get(key) or "", pattern) for key in ("name", "model"))


def in_mig_mode(gpu: Gpu) -> bool:
    return (gpu.get("mig") or {}).get("mode") == "enabled"


# key -> (whether a value is valid, a description of valid values, whether a GPU has this value)
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
        raise PolicyError(f"{where}: {generic_resources.shorten(select)} is not a mapping; use the keys: {', '.join(SELECTORS)}.")
    for key, wanted in select.items():
        if key not in SELECTORS:
            raise PolicyError(f"{where}: {generic_resources.shorten(key)} is not known; use one of: {', '.join(SELECTORS)}.")
        check, expected = SELECTORS[key][:2]
        values = as_list(wanted)
        bad = [value for value in values if not check(value)] if values else [wanted]
        if bad or (key == "min_memory_mib" and len(values) != 1):
            raise PolicyError(f"{where}.{key}: {generic_resources.shorten((bad or [wanted])[0])} is not {expected}.")


def selects(select: Mapping[str, Any] | None, gpu: Gpu) -> bool:
    """Return whether the GPU matches every key of ``select``."""
    return all(any(SELECTORS[key][2](gpu, value) for value in as_list(wanted)) for key, wanted in (select or {}).items())


def place_name(gpu: Gpu) -> str | None:
    """Return the GPU's PCI address in its shortest unique form: C1, 00-1E, 0001-C1. None if the address is unknown.

    The address depends only on the card's own slot, so it does not change when another card fails.
    """
    address = pci_address(gpu.get("pci_bus_id"))
    if address is None:
        return None
    domain, bus, device, function = address
    name = (f"{domain:04X}-" if domain else "") + f"{bus:02X}"
    return name + (f"-{device:02X}" if device else "") + (f".{function}" if function else "")
