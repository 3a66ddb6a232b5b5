# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of one GPU, and what follows from raw values: pure, plain data in and out.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Dict, Iterable

# As module gpu_info returns it.
Gpu = Dict[str, Any]

MIXED = "mixed"

# From NVML_ERROR_*: the GPU answers nothing more until somebody resets or replaces it.
GONE = (15, 16)  # GPU_IS_LOST, RESET_REQUIRED
# NVIDIA's RMA guidance; the board has room for 64 entries.
RETIRED_PAGES_LIMIT = 60

TOPOLOGY = {0: "internal", 10: "single", 20: "multiple", 30: "hostbridge", 40: "node", 50: "system"}

# NVML_GPU_RECOVERY_ACTION_*: what the driver requires to be done to a GPU before it is fit for work again.
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

# Compute capabilities keep their meaning for good; for a driver too old to report the architecture.
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


def blank(index: int) -> Gpu:
    """A record of which nothing is known yet but the place in NVML's count."""
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
    """A name as it may stand in a label: ``NVIDIA H100 80GB HBM3`` -> ``NVIDIA-H100-80GB-HBM3``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")


def slot_name(uuid: str, number: int) -> str:
    """The value of a slot, a share of a card that swarm allocates by itself. NVIDIA's runtime takes it for no device, so that without the guard
    a task with a slot does not start."""
    return "%s%s%d" % (uuid, _SLOT, number)


def group_name(uuids: Iterable[str]) -> str:
    """The value of several cards that are one unit. It names them all, so that whoever reads it needs no map; to NVIDIA's runtime it is no device."""
    return _GROUP.join(uuids)


def devices_of(value: str) -> list[str]:
    """The GPUs or MIG devices that a generic resource's value names: one where it is a device or a slot of it, several where it is a group."""
    return value.partition(_SLOT)[0].split(_GROUP)


def is_slot(value: str) -> bool:
    return _SLOT in value


def architecture_of(capability: Any) -> str | None:
    """The architecture's name for a ``(major, minor)``; None for one that is newer than this table."""
    found = None
    for least, name in _ARCHITECTURES:
        if tuple(capability) >= least:
            found = name
    return found


def profile_of(name: str | None, slices: int | None, compute_slices: int | None, memory_mib: int | None, total_mib: int | None) -> str | None:
    """A MIG device's profile as nvidia-smi shows it: from the name where it has it, else from its parts.

    The memory in a profile's name is the share of the card in eighths, of the card's size rounded up to whole GiB.
    """
    found = _PROFILE.search(name or "")
    if found:
        return found.group(1)
    if not slices or not memory_mib or not total_mib:
        return None
    eighths = -(-memory_mib * 8 // total_mib)
    profile = "%dg.%dgb" % (slices, round(-(-total_mib // 1024) * eighths / 8))
    if compute_slices and compute_slices < slices:
        return "%dc.%s" % (compute_slices, profile)
    return profile


def lowest_node(masks: Iterable[int]) -> int | None:
    """The first node in NVML's bit masks of 64 nodes each; None where there is none."""
    for place, mask in enumerate(masks):
        if mask:
            return 64 * place + (mask & -mask).bit_length() - 1
    return None


def fail(gpu: Gpu, reason: str) -> None:
    """Marks a GPU that must not be advertised; a reason is listed once."""
    gpu["health"]["state"] = "failed"
    if reason not in gpu["health"]["reasons"]:
        gpu["health"]["reasons"].append(reason)


def warn(gpu: Gpu, reason: str) -> None:
    """Marks a GPU that works, and of which somebody should know."""
    if gpu["health"]["state"] == "ok":
        gpu["health"]["state"] = "warning"
    gpu["health"]["reasons"].append(reason)


def judge(gpu: Gpu) -> None:
    """What the counters mean, by NVIDIA's guidance on memory errors."""
    health = gpu["health"]
    rows, pages = health["remapped_rows"], health["retired_pages"]
    if rows and rows["failure"]:
        fail(gpu, "a memory row could not be remapped: the card must be replaced")
    elif rows and rows["pending"]:
        # From Ampere on the driver takes the page out of use at once, so work may go on until the reset.
        warn(gpu, "a memory row is remapped at the next reset of the GPU")
    if pages and pages["pending"] and pages["double_bit"]:
        fail(gpu, "a memory page with uncorrectable errors is in use until the next reboot")
    elif pages and pages["pending"]:
        warn(gpu, "a memory page is retired at the next reboot")
    if pages and pages["single_bit"] + pages["double_bit"] >= RETIRED_PAGES_LIMIT:
        retired = pages["single_bit"] + pages["double_bit"]
        warn(gpu, "%d memory pages are retired: the card is due for replacement" % retired)
    if health["recovery_action"] not in (None, "none"):
        warn(gpu, "the driver requires a recovery action: %s" % health["recovery_action"])
    if health["ecc_errors_uncorrected"]:
        warn(gpu, "%d uncorrected memory errors since the driver was loaded" % health["ecc_errors_uncorrected"])


def common(values: Iterable[Any]) -> Any:
    """The one value that all have, else ``mixed``; None where nobody knows."""
    known = set(values) or {None}
    return known.pop() if len(known) == 1 else MIXED
