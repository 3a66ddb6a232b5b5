# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records of GPUs, as NVML's reader returns them, and resources, as dockerd shows them."""

from __future__ import annotations


def uuid(number):
    return f"GPU-{number:08x}-1111-2222-3333-{number:012x}"


def gpu(index, **changes):
    record = {
        "index": index,
        "uuid": uuid(index),
        "name": "NVIDIA H100 80GB HBM3",
        "model": "NVIDIA-H100-80GB-HBM3",
        "memory_mib": 81559,
        "pci_bus_id": f"00000000:{0xC0 + index:02X}:00.0",
        "mig": {"mode": "disabled", "pending": "disabled"},
        "health": {"state": "ok", "reasons": []},
    }
    record.update(changes)
    return record


def t4(index, **changes):
    return gpu(index, name="Tesla T4", model="Tesla-T4", memory_mib=15360, **changes)


def named(kind, *values):
    return [{"NamedResourceSpec": {"Kind": kind, "Value": value}} for value in values]


def discrete(kind, value):
    return [{"DiscreteResourceSpec": {"Kind": kind, "Value": value}}]


MIG_ON = {"mode": "enabled", "pending": "enabled"}


def mig_uuid(number):
    return f"MIG-{number:08x}-1111-2222-3333-{number:012x}"


def cut(index, *profiles, **changes):
    devices = [{"uuid": mig_uuid(16 * index + number), "profile": profile} for number, profile in enumerate(profiles)]
    return gpu(index, mig=MIG_ON, mig_devices=devices, **changes)


def unified(index):
    return gpu(index, name="NVIDIA GB10", model="NVIDIA-GB10", memory_mib=None, pci_bus_id="0000000F:01:00.0")


FAILED = {"health": {"state": "failed", "reasons": ["GPU is lost"]}}
