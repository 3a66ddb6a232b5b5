# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Translates x_gpu of a job for a fleet (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._errors import Errors, GpuSwarmError, SeveralErrors
from ...module_utils._jobs.definition import NOTHING
from ...module_utils._tasks.class_labels import LABEL
from . import classes, requirement
from .constraints import Labels, constraints_for, describe_labels, missing_labels, with_gpus
from .requirement import FIELDS, Requirement


class Placed(NamedTuple):
    """``placement`` is for the module. ``labels`` are the labels to add to each node, and ``lines`` describe the result."""

    placement: dict[str, Any]
    labels: Labels
    lines: list[str]


def parse_x_gpu(value: Any, name: str) -> Requirement:
    """Check x-gpu. Return {} if the job has no x-gpu."""
    where = f"The job {name}: x-gpu"
    if value in (None, ""):
        return {}
    if not isinstance(value, Mapping):
        raise GpuSwarmError(f"{where} must be a mapping. Write {{memory_min: 40000}}. {NOTHING}")
    errors = Errors()
    for key in sorted(str(key) for key in value if key not in FIELDS):
        errors.add(f"{where}.{key} is not known. x-gpu supports {', '.join(FIELDS)}.")
    wants: Requirement = errors.collect(requirement.parse, value, where)
    if errors.messages:
        raise SeveralErrors([f"{message} {NOTHING}" for message in errors.messages])
    return wants


def place_job(wants: Requirement, name: str, records: Sequence[Mapping[str, Any]]) -> Placed:
    """Translate the requirements. ``records`` has all nodes of the ledger."""
    where = f"The job {name}: x-gpu"
    try:
        nodes = with_gpus(records, where)
        constrained = constraints_for(wants, where, nodes)
    except GpuSwarmError as problem:
        raise GpuSwarmError(f"{problem.message} {NOTHING}") from None
    labels = missing_labels(constrained.classes, nodes)
    service_labels = {LABEL: classes.to_label(constrained.classes)} if constrained.classes else {}
    placement = {"constraints": constrained.constraints, "labels": service_labels, "nodes": labels}
    return Placed(placement, labels, [f"{name}: {constrained.line}", *describe_labels(labels, nodes)])
