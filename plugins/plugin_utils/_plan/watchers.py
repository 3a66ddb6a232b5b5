# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides from the managers' versions what the watchers of a fleet report while tasks run on their nodes (pure).

Each label that a watcher writes updates its node. Because of such an update, an old leader may stop a task on the node.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...module_utils._compat import checks
from ...module_utils._node.watcher_state import ALL, FAULTS, NOT_INSTALLED
from .._fleet.finished_jobs import jobs_that_run_again
from .._fleet.model import Host, Step, Swarm

# The known issues of leaders that stop a task whenever its node is updated.
_STOPS = ("old-leader-evicts-gpu-tasks", "old-leader-evicts-discrete-tasks")
_MAX_NAMED = 5  # how many hosts the warning names


def report_of(hosts: Iterable[Host], swarm: Swarm) -> str:
    """Return ``faults`` if any manager has a release that may stop a task, because this manager may be the next leader. Otherwise return ``all``."""
    versions = _versions(hosts, swarm)
    return ALL if versions and not _too_old(versions) else FAULTS


def may_report_now(host: Host, swarm: Swarm) -> bool:
    """Return whether an update of this node stops no task and runs no finished job again, whichever manager leads."""
    versions = _versions([], swarm)
    if not versions or any(checks.parse_version(version) is None for version in versions):
        return False
    stops = any(checks.affects(name, version) for version in versions for name in _STOPS)
    return not stops and not jobs_that_run_again(swarm.ledger, host.node_id, (host.assessed or {}).get("resources"))


def report_differs(host: Host) -> bool:
    """Return whether the watcher of this host should report something else."""
    health = (host.assessed or {}).get("health") or {}
    return host.gpu and bool(health) and health.get("report") != host.report


def describe_drift(host: Host) -> list[str]:
    """Return the drift of a node, and the change of its watcher."""
    drift = (host.assessed or {}).get("drift") or ()
    return ["installs the watcher of its GPUs" if text == NOT_INSTALLED else text for text in drift] or _describe_report_change(host)


def _describe_report_change(host: Host) -> list[str]:
    what = "everything" if host.report == ALL else "only faults while tasks run"
    return [f"has the watcher of its GPUs report {what}"] if report_differs(host) else []


def warnings(hosts: Sequence[Host], steps: Mapping[str, Step], swarm: Swarm) -> list[str]:
    """Return a warning that an old manager limits what watchers report, when watchers are installed or changed."""
    report = report_of(hosts, swarm)
    affected = [host.name for host in hosts if steps[host.name].groups and (_lacks_watcher(host) or report_differs(replace(host, report=report)))]
    if report == ALL or not affected:
        return []
    old = _too_old(_versions(hosts, swarm))
    named = ", ".join(affected[:_MAX_NAMED]) + (f" and {len(affected) - _MAX_NAMED} more" if len(affected) > _MAX_NAMED else "")
    text = (
        f"{named}: a manager has Docker Engine {', '.join(old)}. With this version, each report of a node's watcher may stop a task on the node or "
        "run a finished job again. So the watcher reports a fault at once, and everything else only while no task of the swarm runs on the node. "
        "Upgrade all managers to Docker Engine 29.6.0 or newer, or set gpu_node_health: false to do without the watcher (docs/reference/watcher.md)."
    )
    return [text]


def _lacks_watcher(host: Host) -> bool:
    return bool((host.assessed or {}).get("watcher_missing"))


def _versions(hosts: Iterable[Host], swarm: Swarm) -> list[str]:
    """Return the versions of the managers, and of the hosts that become managers."""
    listed: list[Any] = [node.get("engine_version") for node in swarm.nodes.values() if node["role"] == "manager"]
    joining = [((host.assessed or {}).get("engine") or {}).get("version") for host in hosts if host.manager and not host.failed]
    return sorted({str(version or "of an unknown version") for version in listed + joining})


def _too_old(versions: Iterable[str]) -> list[str]:
    leader_traps = [trap.id for trap in checks.TRAPS if trap.component == "leader" and trap.versions]
    return [version for version in versions if checks.parse_version(version) is None or any(checks.affects(trap, version) for trap in leader_traps)]
