# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What x_gpu of a job means on a fleet (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._errors import Errors, GpuSwarmError, SeveralErrors
from ...module_utils._jobs.definition import NOTHING
from ...module_utils._tasks.class_labels import LABEL
from . import classes, requirement
from .constraints import Labels, added, constrained, lacking, with_gpus
from .requirement import FIELDS, Requirement


class Placed(NamedTuple):
    """``placement`` is for the module; ``labels`` are by node those that are to be added, and ``lines`` say what was found."""

    placement: dict[str, Any]
    labels: Labels
    lines: list[str]


def wanted(found: Any, name: str) -> Requirement:
    """Checked; empty where it wants nothing."""
    where = f"The job {name}: x-gpu"
    if found in (None, ""):
        return {}
    if not isinstance(found, Mapping):
        raise GpuSwarmError(f"{where} has to be a mapping. Write {{memory_min: 40000}}. {NOTHING}")
    errors = Errors()
    for key in sorted(str(key) for key in found if key not in FIELDS):
        errors.add(f"{where}.{key} is not known. It takes {', '.join(FIELDS)}.")
    wants: Requirement = errors.of(requirement.parse, found, where)
    if errors.messages:
        raise SeveralErrors([f"{one} {NOTHING}" for one in errors.messages])
    return wants


def placed(wants: Requirement, name: str, records: Sequence[Mapping[str, Any]]) -> Placed:
    """``records`` are the ledger's of all nodes."""
    where = f"The job {name}: x-gpu"
    try:
        nodes = with_gpus(records, where)
        found = constrained(wants, where, nodes)
    except GpuSwarmError as problem:
        raise GpuSwarmError(f"{problem.message} {NOTHING}") from None
    labels = lacking(found.classes, nodes)
    own = {LABEL: classes.written(found.classes)} if found.classes else {}
    placement = {"constraints": found.constraints, "labels": own, "nodes": labels}
    return Placed(placement, labels, [f"{name}: {found.line}", *added(labels, nodes)])
