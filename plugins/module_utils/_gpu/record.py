# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of one GPU, and conclusions from raw values (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Dict, Iterable

# A record in the form that the module gpu_info returns.
Gpu = Dict[str, Any]

MIXED = "mixed"

# From NVML_ERROR_*: the GPU does not answer until someone resets or replaces it.
GONE = (15, 16)  # GPU_IS_LOST, RESET_REQUIRED
# The limit in NVIDIA's RMA guidance. The board can store 64 entries.
RETIRED_PAGES_LIMIT = 60

TOPOLOGY = {0: "internal", 10: "single", 20: "multiple", 30: "hostbridge", 40: "node", 50: "system"}

# NVML_GPU_RECOVERY_ACTION_*: what the driver requires before the GPU can work again.
RECOVERY_ACTIONS = {
    0: "none",
    1: "gpu_reset",
    2: "node_reboot",
    3: "drain_p2p",
    4: "drain_and_reset",
    5: "recover_imex_domain",
    6: "bus_reset",
    7: "system_reboot",
}

# NVML_DEVICE_ARCH_*
ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}

# For drivers that are too old to report the architecture. The meaning of a compute capability never changes.
_ARCHITECTURES = (
    ((3, 0), "kepler"),
    ((5, 0), "maxwell"),
    ((6, 0), "pascal"),
    ((7, 0), "volta"),
    ((7, 5), "turing"),
    ((8, 0), "ampere"),
    ((8, 9), "ada"),
    ((9, 0), "hopper"),
    ((10, 0), "blackwell"),
    ((13, 0), None),
)
_SLOT, _GROUP = ".slot", "+"
_PROFILE = re.compile(r"\bMIG ((?:\d+c\.)?\d+g\.\d+gb\S*)")


def empty_record(index: int) -> Gpu:
    """Return a record in which only the index is known."""
    return {
        "index": index,
        "uuid": None,
        "name": None,
        "model": None,
        "memory_mib": None,
        "compute_capability": None,
        "architecture": None,
        "pci_bus_id": None,
        "serial": None,
        "minor_number": None,
        "numa_node": None,
        "mig": {"mode": None, "pending": None},
        "mig_devices": [],
        "health": {
            "state": "ok",
            "reasons": [],
            "ecc_mode": None,
            "ecc_errors_uncorrected": None,
            "ecc_errors_corrected": None,
            "remapped_rows": None,
            "retired_pages": None,
            "recovery_action": None,
        },
        "links": {"nvlink_active": None, "nvlink_total": None, "nvlink_peers": {}, "topology": {}},
        "power": {"limit_w": None, "persistence_mode": None},
    }


@functools.lru_cache(maxsize=None)
def label_safe(name: str | None) -> str:
    """Return a name in the spelling for labels: ``NVIDIA H100 80GB HBM3`` -> ``NVIDIA-H100-80GB-HBM3``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")


def slot_name(uuid: str, number: int) -> str:
    """Return the value of a slot, a share of a card. NVIDIA's runtime does not accept this value as a device, so without the guard the task does not
    start."""
    return "%s%s%d" % (uuid, _SLOT, number)


def group_name(uuids: Iterable[str]) -> str:
    """Return the value of a group of cards. It contains the UUIDs of all cards, so no lookup is needed. NVIDIA's runtime does not accept this value
    as a device."""
    return _GROUP.join(uuids)


def devices_of(value: str) -> list[str]:
    """Return the GPUs or MIG devices in a generic resource's value: one for a device or a slot, several for a group."""
    return value.partition(_SLOT)[0].split(_GROUP)


def is_slot(value: str) -> bool:
    return _SLOT in value


def architecture_of(capability: Any) -> str | None:
    """Return the architecture of a compute capability ``(major, minor)``; None if it is newer than this table."""
    architecture = None
    for least, name in _ARCHITECTURES:
        if tuple(capability) >= least:
            architecture = name
    return architecture


def profile_of(name: str | None, slices: int | None, compute_slices: int | None, memory_mib: int | None, total_mib: int | None) -> str | None:
    """Return a MIG device's profile in the form of nvidia-smi: from the device's name, or else computed from its slices.

    The memory in a profile's name is a number of eighths of the card's memory. The card's memory is first rounded up to whole GiB.
    """
    match = _PROFILE.search(name or "")
    if match:
        return match.group(1)
    if not slices or not memory_mib or not total_mib:
        return None
    eighths = -(-memory_mib * 8 // total_mib)
    profile = "%dg.%dgb" % (slices, round(-(-total_mib // 1024) * eighths / 8))
    if compute_slices and compute_slices < slices:
        return "%dc.%s" % (compute_slices, profile)
    return profile


def lowest_numa_node(masks: Iterable[int]) -> int | None:
    """Return the lowest NUMA node in NVML's bit masks of 64 nodes each; None if no bit is set."""
    for index, mask in enumerate(masks):
        if mask:
            return 64 * index + (mask & -mask).bit_length() - 1
    return None


def mark_failed(gpu: Gpu, reason: str) -> None:
    """Mark a GPU that must not be advertised. Each reason is listed once."""
    gpu["health"]["state"] = "failed"
    if reason not in gpu["health"]["reasons"]:
        gpu["health"]["reasons"].append(reason)


def mark_warning(gpu: Gpu, reason: str) -> None:
    """Mark a GPU that works but needs attention."""
    if gpu["health"]["state"] == "ok":
        gpu["health"]["state"] = "warning"
    gpu["health"]["reasons"].append(reason)


def rate_health(gpu: Gpu) -> None:
    """Set the health state from the error counters, by NVIDIA's guidance on memory errors."""
    health = gpu["health"]
    rows, pages = health["remapped_rows"], health["retired_pages"]
    if rows and rows["failure"]:
        mark_failed(gpu, "a memory row could not be remapped: the card must be replaced")
    elif rows and rows["pending"]:
        # Since Ampere, the driver stops using the faulty page at once. So work can continue until the reset.
        mark_warning(gpu, "a memory row is remapped at the next reset of the GPU")
    if pages and pages["pending"] and pages["double_bit"]:
        mark_failed(gpu, "a memory page with uncorrectable errors is in use until the next reboot")
    elif pages and pages["pending"]:
        mark_warning(gpu, "a memory page is retired at the next reboot")
    if pages and pages["single_bit"] + pages["double_bit"] >= RETIRED_PAGES_LIMIT:
        retired = pages["single_bit"] + pages["double_bit"]
        mark_warning(gpu, "%d memory pages are retired: the card is due for replacement" % retired)
    if health["recovery_action"] not in (None, "none"):
        mark_warning(gpu, "the driver requires a recovery action: %s" % health["recovery_action"])
    if health["ecc_errors_uncorrected"]:
        mark_warning(gpu, "%d uncorrected memory errors since the driver was loaded" % health["ecc_errors_uncorrected"])


def common_value(values: Iterable[Any]) -> Any:
    """Return the common value if all values are equal, or else ``mixed``. None without values."""
    distinct = set(values) or {None}
    return distinct.pop() if len(distinct) == 1 else MIXED
