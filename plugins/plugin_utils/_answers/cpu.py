# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Computes the name of a node's CPU from its kernel's report. archspec lists the features of each micro-architecture.

archspec runs on the controller. It is made to describe its own machine, but its table also describes the CPUs of other machines.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

try:
    from archspec.cpu import TARGETS, Microarchitecture
    from archspec.cpu.schema import TARGETS_JSON

    # The table is read once at import, in the process that forks all workers, instead of once per host.
    FAMILIES = {name: target.family.name for name, target in TARGETS.items()}
    HAS_ARCHSPEC = bool(FAMILIES)
except ImportError:
    HAS_ARCHSPEC = False

GENERIC = "generic"
X86 = "x86_64"
ARM = "aarch64"

MISSING = (
    "The controller has no archspec, so the labels that name a node's CPU are not known, and existing ones stay as they are."
    " Install it: 'pip install archspec' into the Python that runs Ansible, or add it to the execution environment."
    " Or disable these labels with label_cpu_prefix: '' (role: gpu_node_label_cpu_prefix)."
)


class ArchspecMissing(Exception):
    """The optional library is not installed."""


def cpu_labels(cpu: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the labels ``microarchitecture`` and ``x86_64_level`` under the prefix; {} without a prefix, or if the CPU is unknown."""
    prefix = cpu["label_prefix"] if cpu else ""
    if not cpu or not prefix:
        return {}
    target = _best(cpu)
    if target is None:
        return {}
    labels = {"microarchitecture": target.name}
    if target.family.name == X86:
        labels["x86_64_level"] = "v" + (target.generic.name.partition(X86 + "_v")[2] or "1")
    return {prefix + key: value for key, value in labels.items()}


def _best(cpu: Mapping[str, Any]) -> Any:
    """Return the newest micro-architecture that matches the CPU. archspec chooses the micro-architecture of its own host in the same way."""
    if not HAS_ARCHSPEC:
        raise ArchspecMissing(MISSING)
    vendor = cpu["vendor"] or TARGETS_JSON["conversions"]["arm_vendors"].get(cpu["implementer"], GENERIC)
    # A record of archspec also has the features that the kernel does not list.
    features = Microarchitecture("", [], vendor, set(cpu["features"]), {}).features
    possible = [
        target for name, target in TARGETS.items() if FAMILIES[name] == cpu["machine"] and _can_be(target, cpu, vendor, features)
    ]
    generic = max((target for target in possible if target.vendor == GENERIC), key=_depth, default=None)
    # Consider only descendants of the best generic CPU. Otherwise a feature that the firmware hides would make the CPU a generation older.
    return max((target for target in possible if generic and target > generic), key=_depth, default=generic)


def _can_be(target: Any, cpu: Mapping[str, Any], vendor: str, features: set[str]) -> bool:
    if cpu["machine"] == ARM:
        # The versions of this architecture do not differ by features, but each core has a number.
        return target.name == ARM or (target.vendor == vendor and target.cpu_part == cpu["part"])
    if cpu["machine"].startswith("ppc"):
        return target.generation <= _generation(cpu["model"])
    return target.vendor in (vendor, GENERIC) and target.features <= features


def _generation(model: str | None) -> int:
    match = re.search(r"POWER(\d+)", model or "")
    return int(match.group(1)) if match else 0


def _depth(target: Any) -> tuple[int, int]:
    return len(target.ancestors), len(target.features)
