# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the ledger of a swarm from a manager's API.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Collection, Mapping

from .._swarm import isolation as isolation_label
from .._swarm import lease
from .._swarm.manager import Manager
from .._swarm.owned_labels import QUEUES
from .._tasks import class_labels
from .._tasks.keep import KEY
from .._tasks.tasks import epoch
from . import allocation_report, isolation_state
from .ledger import ledger
from .listed import Listed


def read_ledger(manager: Manager, prefix: str, explained: Collection[str] = (), keep_label: str = KEY) -> dict[str, Any]:
    """Return the ledger of the manager's swarm and facts about the swarm, in the form of a module's result."""
    return ledger_of(manager, Listed(manager.nodes(), manager.tasks(), manager.services(), epoch(manager.time), keep_label), prefix, explained)


def ledger_of(manager: Manager, listed: Listed, prefix: str, explained: Collection[str] = ()) -> dict[str, Any]:
    """Return the result of ``read_ledger`` for lists that the caller has read."""
    result = ledger_with_findings(listed, manager.spec, prefix, explained)
    return dict(result, changed=False, swarm=dict(swarm_of(manager), **labels_of(manager.spec, manager.time, listed)))


def ledger_with_findings(
    listed: Listed, spec: Mapping[str, Any], prefix: str, explained: Collection[str] = (), most: int | None = None
) -> dict[str, Any]:
    """Return the ledger with the allocation findings, which are in a label of the swarm's ``spec``, and with the classes that services need."""
    result = ledger(listed, prefix, explained, most, isolation_label.read(spec).nodes)
    result["allocation_findings"] = allocation_findings_of(spec, result["nodes"])
    result["classes"] = class_labels.needed_classes(listed.services)
    result["findings"] += allocation_report.findings(result["allocation_findings"])
    return result


def allocation_findings_of(spec: Mapping[str, Any], records: Collection[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return where processes and allocations differ, according to the label of the swarm. ``records`` are the ledger's records of all nodes."""
    return allocation_report.allocation_findings(records, isolation_label.read(spec).allocation_findings)


def labels_of(spec: Mapping[str, Any], now: str | None, listed: Listed) -> dict[str, Any]:
    """Return the data that this collection stores in labels of the swarm: lease, last run, isolation and queues."""
    names = [service["Spec"]["Name"] for service in listed.services]
    return {
        "lease": lease.result(spec, now),
        "last_run": lease.last_run(spec),
        "isolation": isolation_state.result(spec, names, listed.now),
        "queues": (spec.get("Labels") or {}).get(QUEUES) or "",
    }


def swarm_of(manager: Manager) -> dict[str, Any]:
    """Return the swarm of the manager, in the same form as in gpu_node's result."""
    return {
        "id": manager.swarm_id,
        "node_id": manager.node_id,
        "autolocked": manager.autolocked,
        "state": "active",
        "control_available": True,
    }
