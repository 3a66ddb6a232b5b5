# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Says why work that is about to be submitted would never start (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .._placement.scheduler import SwarmState
from . import reasons
from .gang_variables import HOST
from .packing import Fleet
from .queues import Queue
from .units import units_of
from .waiting import read


def why_never(specs: Sequence[Mapping[str, Any]], queues: Mapping[str, Queue], state: SwarmState) -> str:
    """Return the reason as a sentence; '' if the work could start on an empty fleet. ``specs`` has one service, or all members of a gang.

    Nodes that take no new tasks now may take them later, so they count too. In ``specs``, networks have names instead of ids, as in a job file.
    """
    found = [one for one in (read(_as_created(spec), queues) for spec in specs) if one]
    if found and found[0].queue not in queues:
        return reasons.no_queue(found[0].queue, queues).text
    problem = next((one.problem for one in found if one.problem), "")
    if problem:
        return problem
    units, problems = units_of([one.work for one in found if one.work], {name: queue.priority for name, queue in queues.items()})
    if problems:
        return problems[0][1]
    fleet = Fleet(state, [])
    for unit in units:
        reason = reasons.over_cap(unit, queues[unit.first.queue], {}, {}, None)
        reason = reason or reasons.fits_nowhere(unit, fleet.shape_of(unit.key, unit.first.demand, unit.on_host), fleet.nodes)
        if reason and reason.code in (reasons.TOO_LARGE, reasons.NEVER, reasons.UNLABELLED):
            return reason.text
    return ""


def _as_created(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the service as swarm will show it. On the host's network, it has no virtual IP address."""
    addresses = [{"NetworkID": HOST}] if {"Target": HOST} in (spec["TaskTemplate"].get("Networks") or []) else []
    return {"ID": spec["Name"], "Spec": spec, "Endpoint": {"VirtualIPs": addresses}}
