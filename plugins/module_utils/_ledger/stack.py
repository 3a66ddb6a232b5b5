# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stack on its swarm (pure): where its services would fit before they are deployed, and how far they are afterwards.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from .ledger import ledger
from .listed import Listed
from .shortage import size_of
from .tasks import ENDED, WANTED, is_global, is_job_service, reservations

# As 'docker stack deploy' labels what is of a stack.
NAMESPACE = "com.docker.stack.namespace"
FAILED = ("failed", "rejected")
NEW = "new-"
# For one task of a service that may run anywhere: what limits it is not resources.
ANY_NUMBER = 1000


def of_stack(stack: str, services: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [service for service in services if (service["Spec"].get("Labels") or {}).get(NAMESPACE) == stack]


def taken(stack: str, names: Iterable[str], services: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names that services have which are not of this stack."""
    own = {service["ID"] for service in of_stack(stack, services)}
    wanted = set(names)
    return sorted(service["Spec"]["Name"] for service in services if service["Spec"]["Name"] in wanted and service["ID"] not in own)


# -- before --------------------------------------------------------------------------------------------------------


def preflight(stack: str, specs: Iterable[Mapping[str, Any]], listed: Listed, prefix: str) -> dict[str, Any]:
    """The ledger as it is without this stack, with its services explained as if they came one after the other, the largest first.

    What the tasks of a service that is there already have counts as free: swarm ends the old task before it starts the new one.
    """
    own = {service["ID"] for service in of_stack(stack, listed.services)}
    tasks: list[Mapping[str, Any]] = [task for task in listed.tasks if task.get("ServiceID") not in own]
    others = [service for service in listed.services if service["ID"] not in own]
    found: list[dict[str, Any]] = []
    result: dict[str, Any] = ledger(listed._replace(tasks=tasks, services=others), prefix)
    for spec in sorted(specs, key=_needs, reverse=True):
        service = {"ID": NEW + spec["Name"], "Spec": spec}
        others.append(service)
        now = ledger(listed._replace(tasks=tasks, services=others), prefix, [service["ID"]])
        (one,) = now["explained"]
        found.append(one)
        tasks += _placed(service, one, now["nodes"])
    return dict(result, explained=sorted(found, key=lambda one: one["service"]))


def with_labels(nodes: Sequence[Mapping[str, Any]], more: Mapping[str, Mapping[str, str]]) -> list[Mapping[str, Any]]:
    """The API's nodes as they are with more labels; ``more`` is by id."""
    return [
        dict(node, Spec=dict(node["Spec"], Labels={**(node["Spec"].get("Labels") or {}), **more[node["ID"]]})) if node["ID"] in more else node
        for node in nodes
    ]


def _needs(spec: Mapping[str, Any]) -> tuple[int, str]:
    generic = reservations(spec["TaskTemplate"]).get("GenericResources") or []
    return max([item["DiscreteResourceSpec"]["Value"] for item in generic] or [0]), spec["Name"]


def _placed(service: Mapping[str, Any], one: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Its tasks as they would be: spread over the nodes where they fit, as swarm does."""
    by_id = {record["id"]: record for record in records}
    left = {node_id: _free(by_id[node_id]) for node_id in one["feasible"]}
    generic = reservations(service["Spec"]["TaskTemplate"]).get("GenericResources") or []
    wants = {item["DiscreteResourceSpec"]["Kind"]: item["DiscreteResourceSpec"]["Value"] for item in generic}
    number = len(left) if is_global(service) else min(one["needed"], ANY_NUMBER if one["room"] is None else one["room"])
    made: list[Mapping[str, Any]] = []
    while len(made) < number:
        before = len(made)
        for node_id, free in left.items():
            if len(made) < number and all(len(free.get(kind, [])) >= amount for kind, amount in wants.items()):
                made.append(_task(service, len(made) + 1, node_id, {kind: _taken(free, kind, amount) for kind, amount in wants.items()}))
        if len(made) == before:
            break
    return made


class _Amount:
    """So much of a counted kind; its length is what is left."""

    def __init__(self, amount: int) -> None:
        self.amount = amount

    def __len__(self) -> int:
        return self.amount


def _free(record: Mapping[str, Any]) -> dict[str, Any]:
    free = {kind: entry["free"] for kind, entry in record["resources"].items()}
    return {kind: list(value) if isinstance(value, list) else _Amount(value) for kind, value in free.items()}


def _taken(free: dict[str, Any], kind: str, amount: int) -> Any:
    if isinstance(free[kind], _Amount):
        free[kind].amount -= amount
        return amount
    given, free[kind] = free[kind][:amount], free[kind][amount:]
    return given


def _task(service: Mapping[str, Any], slot: int, node_id: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    held: list[dict[str, Any]] = []
    for kind, value in given.items():
        if isinstance(value, list):
            held += [{"NamedResourceSpec": {"Kind": kind, "Value": one}} for one in value]
        else:
            held.append({"DiscreteResourceSpec": {"Kind": kind, "Value": value}})
    return {
        "ID": "%s.%d" % (service["ID"], slot),
        "ServiceID": service["ID"],
        "NodeID": node_id,
        "Slot": slot,
        "Spec": service["Spec"]["TaskTemplate"],
        "Status": {"State": "running"},
        "DesiredState": "running",
        "GenericResources": held,
    }


# -- afterwards ----------------------------------------------------------------------------------------------------


def progress(services: Iterable[Mapping[str, Any]], tasks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How far each service is: ``done`` where all of its tasks run as they are specified now, or have completed."""
    by_service: dict[str, list[Mapping[str, Any]]] = {}
    for task in tasks:
        by_service.setdefault(task.get("ServiceID") or "", []).append(task)
    found = [_progress(service, by_service.get(service["ID"], [])) for service in services]
    return sorted(found, key=lambda one: one["service"])


def _progress(service: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    job, size, spec = is_job_service(service), size_of(service), service["Spec"]["TaskTemplate"]
    iteration = (service.get("JobStatus") or {}).get("JobIteration")
    current = [task for task in tasks if (task.get("JobIteration") == iteration if job else _is_current(task.get("Spec") or {}, spec))]
    live = [task for task in current if task.get("DesiredState") in WANTED]
    old = [task for task in tasks if task not in current and task["Status"]["State"] == "running" and task.get("DesiredState") == "running"]
    running = sum(task["Status"]["State"] == ("complete" if job else "running") for task in live)
    wanted = len({task.get("NodeID") for task in live}) if size.wanted is None else size.wanted
    state = (service.get("UpdateStatus") or {}).get("State") or ""
    ended = [task for task in current if task["Status"]["State"] in FAILED]
    last = max(ended, key=lambda task: task["Status"].get("Timestamp") or "", default=None)
    # A one-shot task that has ended as it should is not started again.
    once = (spec.get("RestartPolicy") or {}).get("Condition") in ("none", "on-failure")
    complete = sum(task["Status"]["State"] == "complete" for task in current) if once and not job else 0
    return {
        "service": service["Spec"]["Name"],
        "id": service["ID"],
        "job": job,
        "wanted": wanted,
        "running": running,
        "complete": complete,
        "update": state,
        "failed": last["Status"].get("Err") or last["Status"].get("Message") or "" if last else "",
        "failures": len(ended),
        # Those that restart no more; the others are tried again.
        "over": bool(ended) and not any(task["Status"]["State"] not in ENDED for task in live),
        "done": running + complete >= wanted and not old and state not in ("updating", "paused", "rollback_started", "rollback_paused"),
    }


def _is_current(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a task is of its service's newest specification; the API's tasks do not say of which version they are."""
    return all((one.get(key) or {}) == (other.get(key) or {}) for key in ("ContainerSpec", "Resources"))
