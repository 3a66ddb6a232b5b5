# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run writes into the swarm's label about isolation, and when (pure).

Private to this collection: no stability is promised to others.
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
from .isolation_change import clash, current, of_swarm, wanted

# How old the counts of nodes may be before a run with nothing else to do writes them again (seconds).
FRESH_S = 86400
# What the level `reserved` would hide or refuse, in the guard's words.
VIOLATIONS = frozenset(("hidden", "unreserved", "forged", "unknown-device", "mount", "too-small", "broken"))
_LONGEST = 100


def to_set(setting: str | None, hosts: Iterable[Host], steps: Mapping[str, Step]) -> str | None:
    """The setting that is written into the swarm's label. None if this run brings no GPU node to that level, or if a host has another level."""
    gpu = [host for host in hosts if host.gpu]
    clashing = any(clash(replace(host, isolation=wanted(host, setting or OFF))) for host in gpu)
    stuck = bool(gpu) and all(host.failed or steps[host.name].error for host in gpu)
    return None if clashing or stuck else setting


def at_first(level: str) -> dict[str, str]:
    """The labels of a new swarm."""
    return {} if level == OFF else {isolation.LABEL: level}


def change(setting: str | None, hosts: Iterable[Host], ledger: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is written to the swarm before anything else: the option ``isolation`` of swarm_lease, or {}."""
    shown = of_swarm(ledger)
    nodes = (ledger or {}).get("nodes") or []
    ids = [node["id"] for node in nodes]
    if not ids:
        return {}
    to_read = {*(shown.get("nodes") or {})} & {*ids} | {node["id"] for node in nodes if has_gpus(node)}
    read = [host for host in hosts if host.gpu and not host.failed and host.node_id in ids and host.assessed and host.assessed.get("gpus")]
    guarded = {host.node_id: host.assessed or {} for host in read if (host.assessed or {}).get("isolation")}
    found = _read_findings(read, _kept(shown))
    made = {
        **({"level": setting} if setting else {}),
        "nodes": {host.node_id: current(host.assessed) for host in read},
        "listed": ids,
        **({"found": _of_those_there(_found(guarded.values()), shown)} if guarded else {}),
        # Only if all nodes were read and have a guard: otherwise there may be more to count.
        **({"whole": True} if guarded and to_read <= guarded.keys() else {}),
        **({"allocation_findings": found} if found else {}),
    }
    return made if _is_due(shown, made) else {}


def in_words(change: Mapping[str, Any], ledger: Mapping[str, Any] | None) -> str:
    """The change of the swarm's level as a sentence, or ''."""
    now, level = of_swarm(ledger).get("level") or OFF, change.get("level")
    return f"The isolation of the swarm becomes {level}; it is {now}." if level and level != now else ""


def _is_due(shown: Mapping[str, Any], made: Mapping[str, Any]) -> bool:
    before, now = _kept(shown), int(shown.get("time") or 0)
    after = isolation.merged(before, made, now)
    if (before.level, before.nodes) != (after.level, after.nodes) or not _same_findings(before, after):
        return True
    if any(one.read - before.allocation_findings[node].read > FRESH_S for node, one in after.allocation_findings.items()):
        return True
    if after.level != AUDIT or "found" not in made:
        return False
    gone = {service for service, one in made["found"].items() if not one["names"]}  # never shown, so they may stay in the label
    stays = {service: names for service, names in _names(before).items() if service not in gone}
    return stays != _names(after) or (after.read != before.read and (before.read is None or now - before.read > FRESH_S))


def _read_findings(read: Iterable[Host], before: isolation.Isolation) -> dict[str, Any]:
    """By node, what its watcher found; without nodes that never found anything."""
    health = {host.node_id or "": (host.assessed or {}).get("health") or {} for host in read}
    of_nodes = {node: allocation_findings.checked(one.get("allocation_findings")) for node, one in health.items()}
    return {node: allocation_findings.as_lists(found) for node, found in of_nodes.items() if found or node in before.allocation_findings}


def _same_findings(before: isolation.Isolation, after: isolation.Isolation) -> bool:
    one, other = ({node: found.found for node, found in each.allocation_findings.items()} for each in (before, after))
    return allocation_findings.alike(one, other)


def _kept(shown: Mapping[str, Any]) -> isolation.Isolation:
    return isolation.read({"Labels": {isolation.LABEL: shown.get("label") or ""}})


def _of_those_there(found: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of existing services; services that the label has and that no longer exist get empty names."""
    if shown.get("services") is None:
        return dict(found)
    there = {str(name)[:_LONGEST] for name in shown["services"]}
    gone = {service: {"names": [], "last": 0} for service in _kept(shown).found if service not in there}
    return {**{service: one for service, one in found.items() if service in there}, **gone}


def _names(one: isolation.Isolation) -> dict[str, tuple[str, ...]]:
    return {service: found.names for service, found in one.found.items()}


def _found(answers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """By service, what the guards counted that `reserved` would hide or refuse. A hostile node may report anything."""
    found: dict[str, Any] = {}
    for answer in answers:
        counted = answer["isolation"].get("found")
        for service, names in (counted if isinstance(counted, Mapping) else {}).items():
            for name in VIOLATIONS & set(names if isinstance(names, Mapping) else ()):
                last = names[name].get("last") if isinstance(names[name], Mapping) else None
                if isinstance(last, int) and last >= 0:
                    one = found.setdefault(str(service)[:_LONGEST], {"names": [], "last": 0})
                    one["names"] = sorted({*one["names"], name})
                    one["last"] = max(one["last"], last)
    return found


def at_the_end(level: str, setting: bool, nodes: Mapping[str, str], ledger: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is written at the end of a run that brought ``nodes`` to these levels, or {}."""
    shown, ids = of_swarm(ledger), [node["id"] for node in (ledger or {}).get("nodes") or []]
    if not ids or (level == OFF and not shown.get("label")):
        return {}
    return {**({"level": level} if setting else {}), "nodes": dict(nodes), "listed": ids}


def without(ids: Iterable[str], ledger: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is written at the end of a deprovision. ``ids`` are the nodes that this collection still has; with the last one, the level is removed."""
    left = sorted(ids)
    if not of_swarm(ledger).get("label"):
        return {}
    return {"listed": left} if left else {"level": OFF, "listed": []}
