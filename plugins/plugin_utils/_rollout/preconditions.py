# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the next hosts may be changed, and what on them must end first (pure).

``variables`` are Ansible's hostvars, see updates. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._ledger.shown import difference
from .._fleet.outcome import BAD, outcome_of
from .._fleet.workload import TASKS, in_words
from .._settings.declaration import ALL
from .updates import Variables, node_id_of, node_ids, stays, step_of, stopped_work

# Of a service: its tasks "running" and "pending".
Room = Mapping[str, int]


def blocking_workloads(names: Iterable[str], variables: Variables, ledger: Any = None, containers: list[dict[str, Any]] | None = None) -> list[str]:
    """What runs on these hosts and must not be stopped, in words.

    Tasks are those of the manager's ledger; ``containers``, by default those that were read last, may be more.
    """
    nodes = {node["id"]: node for node in (ledger or {}).get("nodes") or []}
    blocking = []
    for name, node_id in node_ids(names, variables).items():
        if outcome_of(variables[name]):
            continue
        work = stopped_work(name, variables, nodes.get(node_id or ""), containers)
        blocking += in_words(stays(name, variables, work))
    return blocking


def not_emptied(step: Mapping[str, Any], answer: Mapping[str, Any], remedy: str) -> str:
    """Why nothing may be done on a node that was drained, or '', by the ``answer`` of gpu_node. What could not be read is not nothing."""
    if "containers" not in answer:
        reason = answer.get("msg") or "no reason given"
        return f"the node was drained, and what still runs there could not be read ({reason}). Nothing was changed. Run this again."
    # Where only the membership ends, what was started by hand runs on, unless it is on a network of the swarm.
    counts = [item for item in answer["containers"] if step.get("stops") != TASKS or item["service"] or item.get("swarm_networks")]
    left = [] if step.get("disrupt") == ALL else [item["name"] for item in counts]
    return f"{', '.join(left)} still runs here. {remedy}, then run this again." if left else ""


def rollout_blocker(names: Iterable[str], variables: Variables, ledger: Any, before: Mapping[str, Room] | None, max_failed: int) -> str:
    """Why no further host may be changed now, or ''. ``names`` are all hosts of the run, ``before`` which services had room when
    the run began (of rooms()), None where the run takes the room away for good."""
    bad = _gone_wrong(names, variables, ledger)
    if bad and len(bad) >= max_failed:
        return f"its turn did not come, since {', '.join(bad)} failed. Fix that and run this again."
    if "nodes" not in (ledger or {}):
        reason = (ledger or {}).get("msg") or "none of them answered"
        return f"its turn did not come, since no manager could be queried about the swarm ({reason}). Fix that and run this again."
    new = newly_pending(ledger, before)
    if new:
        named = ", ".join(new[:5]) + (", …" if len(new) > 5 else "")
        return f"its turn did not come, since tasks find no room that had some when this run began: {named}. Make room for them, and run this again."
    return ""


def _gone_wrong(names: Iterable[str], variables: Variables, ledger: Any) -> list[str]:
    """The hosts that failed, and those that were changed and are not what was decided by now, as the manager shows them."""
    nodes = {node["id"]: node for node in (ledger or {}).get("nodes") or []}
    wrong = []
    for name in names:
        host = variables[name]
        outcome, applied = outcome_of(host), host.get("gpu_node_applied")
        node = nodes.get(node_id_of(host, step_of(name, variables)) or "") if applied and not outcome else None
        if (outcome and outcome.state in BAD) or (node and (node["state"] != "ready" or difference(applied or {}, node))):
            wrong.append(name)
    return wrong


def newly_pending(ledger: Any, before: Mapping[str, Room] | None) -> list[str]:
    """The services that have lost room since the run began, with the number of their tasks; none for a ``before`` of None.

    Neither a service that is new nor replicas that were added since: these never had room.
    """
    lost = {}
    for service, now in rooms(ledger).items():
        then = (before or {}).get(service)
        if then:
            lost[service] = min(now["pending"] - then["pending"], then["running"] - now["running"])
    return [f"service {service} ({count} {'task' if count == 1 else 'tasks'})" for service, count in lost.items() if count > 0]


def rooms(ledger: Any) -> dict[str, Room]:
    """Of each service, how many of its tasks have room and how many wait for some. Of the first, only those that swarm starts again:
    one that ends by itself leaves nothing that has to have room."""
    running = Counter(task["service"] for node in (ledger or {}).get("nodes") or [] for task in node["tasks"] if task["movable"])
    waiting = pending(ledger)
    return {service: {"running": running[service], "pending": waiting.get(service, 0)} for service in {**running, **waiting}}


def pending(ledger: Any) -> dict[str, int]:
    """How many tasks of each service wait for room."""
    found: Counter[str] = Counter()
    for group in (ledger or {}).get("pending") or []:
        found[group["service"]] += group["count"]
    return dict(found)


def manager_blocker(name: str, others: Iterable[str], variables: Variables, ledger: Any) -> str:
    """Why this manager must not be taken out now, or ''. ``others`` are the managers that this run changes too.

    A swarm of one or two managers stands still for the seconds of a restart whatever is done; from three on it must not.
    """
    for other in others:
        outcome = outcome_of(variables[other])
        if other != name and outcome and outcome.state in BAD:
            return f"left alone, since the change of the manager {other} failed. Fix that and run this again."
    managers = [node for node in (ledger or {}).get("nodes") or [] if node["role"] == "manager"]
    if not managers:
        reason = (ledger or {}).get("msg") or "it gave no list of nodes"
        return f"left alone: no manager could be queried who else runs the swarm ({reason}). Fix that and run this again."
    own_id = node_ids([name], variables)[name]
    up = [node for node in managers if node["reachability"] == "reachable" and node["id"] != own_id]
    if len(managers) > 2 and len(up) <= len(managers) // 2:
        return (
            f"left alone: without it {len(up)} of {len(managers)} managers could be reached, too few to run the swarm. "
            "Bring the other managers back and run this again."
        )
    return ""


def without_room(ledger: Any) -> list[str]:
    """All that is pending, in words."""
    return [f"service {service} ({count} {'task' if count == 1 else 'tasks'})" for service, count in pending(ledger).items()]
