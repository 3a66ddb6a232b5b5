# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Describes what a plan means for the users of the fleet (pure): its impact on each host, and warnings of the run.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils._compat import checks
from ...module_utils._policy import generic_resources
from .._fleet.model import LABEL, WINDOW, WINDOW_MANAGERS, Host, Step, Swarm
from . import faults, isolation_change, managers_service, toolkit_version, watchers

# deprovision uses these texts too.
RESTARTS, RELEASES = "restarts dockerd", "no longer holds the toolkit's version"


def describe_impact(step: Step, host: Host, new: bool) -> None:
    """Add to the step's impact. ``new``: the swarm is initialised on this host."""
    assessed = host.assessed or {}
    if "toolkit" in step.needs:
        installed, wanted = assessed["toolkit_version"], toolkit_version.version_of(step.target.toolkit)
        step.impact.append(f"toolkit {installed} → {wanted}" if installed not in (None, wanted) else f"installs toolkit {wanted}")
    if "hold" in step.needs:
        step.impact.append("holds the toolkit's version" if host.hold else RELEASES)
    if "configure" in step.needs:
        changes = [*(_describe_resource_changes(assessed) or watchers.describe_drift(host)), *isolation_change.describe_change(host)]
        step.impact.extend(changes or ["keeps pynvml on the node"])
    step.impact.extend(f"takes over {note}" for note in assessed.get("adopted") or [])
    if "restart" in step.needs:
        step.impact.append(RESTARTS)
    for need, text in (
        ("move", "leaves its swarm"),
        ("join", "initialises the swarm" if new else "joins the swarm"),
        ("role", "becomes a manager" if host.manager else "becomes a worker"),
        ("service", managers_service.describe_change(host)),
        ("labels", "changes node labels"),
    ):
        if need in step.needs:
            step.impact.append(text)


def leader_warnings(hosts: list[Host], steps: Mapping[str, Step], swarm: Swarm) -> list[str]:
    """Return warnings about what an old leader does to tasks on the nodes that this run will update. Each text occurs once."""
    nodes = swarm.nodes
    leader = next((node.get("engine_version") for node in nodes.values() if node.get("leader")), None)
    hosts_by_text: dict[str, list[str]] = {}
    for host in hosts:
        node = nodes.get(host.node_id or "")
        if node is None or not {WINDOW, WINDOW_MANAGERS, LABEL} & set(steps[host.name].groups):
            continue
        allocated = {kind: entry["total"] if entry["type"] == "discrete" else [] for kind, entry in node["resources"].items() if entry.get("held")}
        for finding in checks.leader_findings(leader, allocated):
            hosts_by_text.setdefault(finding.text, []).append(host.name)
    warnings = [f"{', '.join(names)}: {text}" for text, names in hosts_by_text.items()]
    return [*warnings, *watchers.warnings(hosts, steps, swarm), *faults.warnings(hosts, steps, swarm)]


def toolkit_warnings(hosts: list[Host], steps: Mapping[str, Step]) -> list[str]:
    """Return a warning if the fleet will have several versions of the toolkit."""
    versions = {host.name: steps[host.name].target.toolkit or (host.assessed or {}).get("toolkit_version") for host in hosts if host.gpu}
    return toolkit_version.mixture_warnings({name: str(toolkit_version.version_of(version)) for name, version in versions.items() if version})


def _describe_resource_changes(assessed: dict[str, Any]) -> list[str]:
    """Describe by kind the resources that the node will additionally advertise, and the resources that it will no longer advertise."""
    wanted = generic_resources.parse(assessed["resources"])
    current = generic_resources.from_info((assessed["engine"] or {}).get("generic_resources"))
    wanted_gpus, current_gpus = _gpus_by_kind(wanted), _gpus_by_kind(current)
    changes = []
    for kind in dict.fromkeys([*wanted_gpus, *current_gpus]):
        gained, lost = wanted_gpus.get(kind, set()) - current_gpus.get(kind, set()), current_gpus.get(kind, set()) - wanted_gpus.get(kind, set())
        if gained:
            changes.append(f"+{len(gained)} {kind}")
        if lost:
            changes.append(f"−{len(lost)} {kind}")
    for kind, amount in wanted.items():
        if isinstance(amount, int) and amount != current.get(kind):
            changes.append(f"{kind} {current[kind]} → {amount}" if isinstance(current.get(kind), int) else f"+{amount} {kind}")
    return changes


def _gpus_by_kind(resources: dict[str, Any]) -> dict[str, set[str]]:
    """Return the named resources whose values are GPUs or MIG devices, by kind. Other kinds of the node are not reported."""
    named = {kind: values for kind, values in resources.items() if isinstance(values, list)}
    return {kind: set(values) for kind, values in named.items() if all(value.startswith(("GPU-", "MIG-")) for value in values)}
