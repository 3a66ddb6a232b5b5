# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides what a run writes into the swarm's label about isolation, and when (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...module_utils._health import allocation_findings
from ...module_utils._isolation_levels import AUDIT, OFF
from ...module_utils._ledger.unreserved import has_gpus
from ...module_utils._swarm import isolation
from .._fleet.model import Host, Step
from .isolation_change import clash_error, current_level, swarm_label, wanted_level

# How old the counts of nodes may be before a run with nothing else to do writes them again (seconds).
FRESH_S = 86400
# What the level `reserved` would hide or refuse, in the guard's words.
VIOLATIONS = frozenset(("hidden", "unreserved", "forged", "unknown-device", "mount", "too-small", "broken"))
_MAX_NAME_LENGTH = 100


def level_to_write(setting: str | None, hosts: Iterable[Host], steps: Mapping[str, Step]) -> str | None:
    """Return the level to write into the swarm's label. None if this run sets the level on no GPU node, or if a host has another level."""
    gpu_hosts = [host for host in hosts if host.gpu]
    clashing = any(clash_error(replace(host, isolation=wanted_level(host, setting or OFF))) for host in gpu_hosts)
    all_failed = bool(gpu_hosts) and all(host.failed or steps[host.name].error for host in gpu_hosts)
    return None if clashing or all_failed else setting


def initial_labels(level: str) -> dict[str, str]:
    """Return the labels of a new swarm."""
    return {} if level == OFF else {isolation.LABEL: level}


def update_at_start(setting: str | None, hosts: Iterable[Host], ledger: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the update to write to the swarm before anything else, as the option ``isolation`` of swarm_lease. {} without an update."""
    shown = swarm_label(ledger)
    nodes = (ledger or {}).get("nodes") or []
    ids = [node["id"] for node in nodes]
    if not ids:
        return {}
    ids_to_read = {*(shown.get("nodes") or {})} & {*ids} | {node["id"] for node in nodes if has_gpus(node)}
    hosts_read = [host for host in hosts if host.gpu and not host.failed and host.node_id in ids and host.assessed and host.assessed.get("gpus")]
    guarded = {host.node_id: host.assessed or {} for host in hosts_read if (host.assessed or {}).get("isolation")}
    findings = _read_findings(hosts_read, _recorded(shown))
    update = {
        **({"level": setting} if setting else {}),
        "nodes": {host.node_id: current_level(host.assessed) for host in hosts_read},
        "listed": ids,
        **({"found": _of_existing_services(_count_violations(guarded.values()), shown)} if guarded else {}),
        # Only if all nodes were read and have a guard. Otherwise the counts may be incomplete.
        **({"whole": True} if guarded and ids_to_read <= guarded.keys() else {}),
        **({"allocation_findings": findings} if findings else {}),
    }
    return update if _is_due(shown, update) else {}


def describe_change(change: Mapping[str, Any], ledger: Mapping[str, Any] | None) -> str:
    """Return the change of the swarm's level as a sentence, or ''."""
    current_level, level = swarm_label(ledger).get("level") or OFF, change.get("level")
    return f"The isolation of the swarm becomes {level}; it is {current_level}." if level and level != current_level else ""


def _is_due(shown: Mapping[str, Any], update: Mapping[str, Any]) -> bool:
    before, time = _recorded(shown), int(shown.get("time") or 0)
    after = isolation.merged(before, update, time)
    if (before.level, before.nodes) != (after.level, after.nodes) or not _same_findings(before, after):
        return True
    if any(findings.read - before.allocation_findings[node].read > FRESH_S for node, findings in after.allocation_findings.items()):
        return True
    if after.level != AUDIT or "found" not in update:
        return False
    ended = {service for service, violations in update["found"].items() if not violations["names"]}  # ended services are not shown, so they may stay
    recorded_names = {service: names for service, names in _names(before).items() if service not in ended}
    return recorded_names != _names(after) or (after.read != before.read and (before.read is None or time - before.read > FRESH_S))


def _read_findings(hosts: Iterable[Host], before: isolation.Isolation) -> dict[str, Any]:
    """Return the findings of each node's watcher, by node. A node that has no findings now and had none before is excluded."""
    health = {host.node_id or "": (host.assessed or {}).get("health") or {} for host in hosts}
    findings_by_node = {node: allocation_findings.valid_findings(health_report.get("allocation_findings")) for node, health_report in health.items()}
    return {
        node: allocation_findings.as_lists(findings) for node, findings in findings_by_node.items() if findings or node in before.allocation_findings
    }


def _same_findings(before: isolation.Isolation, after: isolation.Isolation) -> bool:
    left, right = ({node: findings.found for node, findings in state.allocation_findings.items()} for state in (before, after))
    return allocation_findings.are_alike(left, right)


def _recorded(shown: Mapping[str, Any]) -> isolation.Isolation:
    return isolation.read({"Labels": {isolation.LABEL: shown.get("label") or ""}})


def _of_existing_services(violations: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the violations of existing services. Services in the label that no longer exist get empty names."""
    if shown.get("services") is None:
        return dict(violations)
    existing = {str(name)[:_MAX_NAME_LENGTH] for name in shown["services"]}
    ended = {service: {"names": [], "last": 0} for service in _recorded(shown).found if service not in existing}
    return {**{service: violation for service, violation in violations.items() if service in existing}, **ended}


def _names(state: isolation.Isolation) -> dict[str, tuple[str, ...]]:
    return {service: violations.names for service, violations in state.found.items()}


def _count_violations(answers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return by service the violations that the guards counted: what `reserved` would hide or refuse. A hostile node may report anything."""
    violations: dict[str, Any] = {}
    for answer in answers:
        counted = answer["isolation"].get("found")
        for service, names in (counted if isinstance(counted, Mapping) else {}).items():
            for name in VIOLATIONS & set(names if isinstance(names, Mapping) else ()):
                last = names[name].get("last") if isinstance(names[name], Mapping) else None
                if isinstance(last, int) and last >= 0:
                    violation = violations.setdefault(str(service)[:_MAX_NAME_LENGTH], {"names": [], "last": 0})
                    violation["names"] = sorted({*violation["names"], name})
                    violation["last"] = max(violation["last"], last)
    return violations


def update_at_end(level: str, setting: bool, nodes: Mapping[str, str], ledger: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the update at the end of a run that set these levels on ``nodes``, or {}."""
    shown, ids = swarm_label(ledger), [node["id"] for node in (ledger or {}).get("nodes") or []]
    if not ids or (level == OFF and not shown.get("label")):
        return {}
    return {**({"level": level} if setting else {}), "nodes": dict(nodes), "listed": ids}


def update_after_removal(ids: Iterable[str], ledger: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the update at the end of a deprovision. ``ids`` are the nodes that this collection still manages. Without such nodes, the level is
    removed.
    """
    remaining = sorted(ids)
    if not swarm_label(ledger).get("label"):
        return {}
    return {"listed": remaining} if remaining else {"level": OFF, "listed": []}
