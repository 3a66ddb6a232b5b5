# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the properties of a node from its labels (pure).

Only labels are used: a manager always knows them for every node, and provision keeps them correct.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ...module_utils._gpu.record import MIXED
from ...module_utils._ledger.node_labels import CPU_NAME, about_cpu, about_gpus
from .cpus import LEVELS
from .versions import Version, version


class Value(NamedTuple):
    """``exact``: all GPUs of the node have this version. Otherwise the version is a lower limit, because the labels show no more."""

    version: Version
    exact: bool = True


class Facts(NamedTuple):
    """The properties of a node. None means unknown, or different among the GPUs of the node."""

    gpus: str | None = None
    model: str | None = None
    memory_gb: Value | None = None  # of each card, as advertised by its vendor
    compute_capability: Value | None = None
    cuda: Value | None = None  # of the driver
    driver: Version | None = None
    cpus: tuple[str, ...] = ()  # its micro-architecture, and its level


def facts(labels: Mapping[str, str], keys: Collection[str] | None = None) -> Facts:
    """Read the properties from labels. ``keys`` are the labels of this collection, by default the labels in its record on the node."""
    gpu_labels, cpu = about_gpus(labels, keys), about_cpu(labels, keys)
    model = gpu_labels.get("model")
    level = {"v1": LEVELS[0]}.get(cpu.get("x86_64_level", ""), f"{LEVELS[0]}_{cpu.get('x86_64_level', '')}")
    return Facts(
        gpus=gpu_labels.get("count"),
        model=None if model == MIXED else model,
        memory_gb=_value(gpu_labels, "memory", "mem_ge_"),
        compute_capability=_value(gpu_labels, "compute_capability", "cc_ge_"),
        cuda=_value(gpu_labels, "cuda", "cuda_ge_"),
        driver=version(gpu_labels.get("driver", "")),
        cpus=tuple(name for name in (cpu.get(CPU_NAME), level if level in LEVELS else None) if name),
    )


def _value(gpu_labels: Mapping[str, str], key: str, threshold: str) -> Value | None:
    parsed = version(gpu_labels.get(key, ""))
    if parsed:
        return Value(parsed)
    # The node has several models. All its GPUs meet the threshold labels.
    met = [version(name[len(threshold) :].replace("_", ".")) for name, value in gpu_labels.items() if name.startswith(threshold) and value == "true"]
    return max((Value(version_met, exact=False) for version_met in met if version_met), default=None)
