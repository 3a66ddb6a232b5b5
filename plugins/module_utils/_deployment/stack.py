# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a deployed stack from the swarm's objects (pure): its services, their progress, and names that are taken.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Iterable, Mapping, Sequence

from .._placement.shortage import size_of
from .._tasks.tasks import WANTED, is_job_service

# The label that 'docker stack deploy' sets on all objects of a stack.
NAMESPACE = "com.docker.stack.namespace"
FAILED = ("failed", "rejected")
UNFINISHED_UPDATES = ("updating", "paused", "rollback_started", "rollback_paused", "rollback_completed")
AGAIN = "ended with exit code 0, and swarm starts it again: a command that ends is a job, or needs deploy.restart_policy: {condition: none}"


def of_stack(stack: str, services: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [service for service in services if (service["Spec"].get("Labels") or {}).get(NAMESPACE) == stack]


def tasks_of(stack: str, tasks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the stack's tasks, including tasks of removed services. Such a task still has the stack's label, because 'docker stack deploy' labels
    the containers as well."""
    return [task for task in tasks if (((task.get("Spec") or {}).get("ContainerSpec") or {}).get("Labels") or {}).get(NAMESPACE) == stack]


def taken(stack: str, names: Iterable[str], services: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names in this list that services outside this stack have taken."""
    own = {service["ID"] for service in of_stack(stack, services)}
    wanted = set(names)
    return sorted(service["Spec"]["Name"] for service in services if service["Spec"]["Name"] in wanted and service["ID"] not in own)


def networks_taken(stack: str, names: Iterable[str], networks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names in this list that networks outside this stack have taken. A local network of this machine also blocks a name."""
    others = {network["Name"] for network in networks if (network.get("Labels") or {}).get(NAMESPACE) != stack}
    return sorted(others.intersection(names))


def of_swarm(networks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names with which a stack can refer to the swarm's networks. Local networks of this machine are not included."""
    return [network[key] for network in networks if network.get("Scope") == "swarm" for key in ("Name", "Id") if network.get(key)]


def missing_objects(wanted: Mapping[str, Sequence[str]], names: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the wanted configs, networks and secrets that the swarm does not have. The keys of both mappings are kinds of objects in the API."""
    return ["%s %s" % (kind[:-1], name) for kind in sorted(wanted) for name in wanted[kind] if name not in names.get(kind, ())]


def with_labels(nodes: Sequence[Mapping[str, Any]], labels: Mapping[str, Mapping[str, str]]) -> list[Mapping[str, Any]]:
    """Return the API's nodes with additional labels. ``labels`` is by node id."""
    return [
        dict(node, Spec=dict(node["Spec"], Labels={**(node["Spec"].get("Labels") or {}), **labels[node["ID"]]})) if node["ID"] in labels else node
        for node in nodes
    ]


def progress(services: Iterable[Mapping[str, Any]], tasks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the progress of each service. A service is ``done`` if all its tasks of the current specification run or have completed."""
    by_service: dict[str, list[Mapping[str, Any]]] = {}
    for task in tasks:
        by_service.setdefault(task.get("ServiceID") or "", []).append(task)
    rows = [_progress(service, by_service.get(service["ID"], [])) for service in services]
    return sorted(rows, key=lambda row: row["service"])


def _progress(service: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    is_job, size, spec = is_job_service(service), size_of(service), service["Spec"]["TaskTemplate"]
    iteration = (service.get("JobStatus") or {}).get("JobIteration")
    current = [task for task in tasks if (task.get("JobIteration") == iteration if is_job else _is_current(task.get("Spec") or {}, spec))]
    live = [task for task in current if task.get("DesiredState") in WANTED]
    old = [task for task in tasks if task not in current and task["Status"]["State"] == "running" and task.get("DesiredState") == "running"]
    running = [task for task in live if task["Status"]["State"] == ("complete" if is_job else "running")]
    wanted = len({task.get("NodeID") for task in live}) if size.wanted is None else size.wanted
    update = (service.get("UpdateStatus") or {}).get("State") or ""
    # Swarm does not restart a one-shot task that ended without an error.
    runs_once = not is_job and (spec.get("RestartPolicy") or {}).get("Condition") in ("none", "on-failure")
    complete = [task for task in current if task["Status"]["State"] == "complete"] if runs_once else []
    # After a rollback, the tasks that failed have the specification of the failed update, not the current one.
    relevant = tasks if update.startswith("rollback") else current
    failed_states = FAILED if is_job or runs_once else (*FAILED, "complete")
    failed = [task for task in relevant if task["Status"]["State"] in failed_states]
    last = max(failed, key=lambda task: task["Status"].get("Timestamp") or "", default=None)
    return {
        "service": service["Spec"]["Name"],
        "id": service["ID"],
        "specified": _digest(service["Spec"]),
        "tasks": sorted(task["ID"] for task in running + complete),
        "job": is_job,
        "wanted": wanted,
        "running": len(running),
        "former": len(old),  # these tasks still run with a former specification
        "complete": len(complete),
        "update": update,
        "failed": _failure_reason(last["Status"]) if last else "",
        "failures": len(failed),
        "ended": sorted(task["ID"] for task in failed),
        # These tasks may have any specification, so that a new deployment is not blamed for old failures.
        "past": sorted(task["ID"] for task in tasks if task["Status"]["State"] in failed_states),
        "over": (
            _is_over(current, live, failed_states, is_job or runs_once)
            and (relevant is current or (runs_once and update == "rollback_completed"))
        ),
        "done": len(running) + len(complete) >= wanted and not old and update not in UNFINISHED_UPDATES,
    }


def _is_over(current: Sequence[Mapping[str, Any]], live: Sequence[Mapping[str, Any]], failed_states: Sequence[str], may_complete: bool) -> bool:
    """Return whether one of the ``current`` tasks failed and swarm restarts none of them.

    The desired state of an ended task stays ``running`` until swarm decides whether to replace it.
    """
    has_failed = any(task["Status"]["State"] in failed_states for task in current)
    return has_failed and all(task["Status"]["State"] == "complete" and may_complete for task in live)


def _failure_reason(status: Mapping[str, Any]) -> str:
    return AGAIN if status["State"] == "complete" else str(status.get("Err") or status.get("Message") or "")


def _digest(spec: Mapping[str, Any]) -> str:
    """Return a digest of the specification. It differs after every update, even if the tasks look the same, for example after a change of ports."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode("utf-8")).hexdigest()[:16]


def _is_current(task_spec: Mapping[str, Any], service_spec: Mapping[str, Any]) -> bool:
    """Return whether a task has its service's newest specification. The API does not show a task's version, so compare the specifications.

    The comparison ignores placement. If a node meets new constraints, swarm keeps the tasks on that node, and these tasks keep the former constraints
    (IsTaskDirty in swarmkit's manager/orchestrator/task.go).
    """
    return all((task_spec.get(key) or {}) == (service_spec.get(key) or {}) for key in ("ContainerSpec", "Resources"))
