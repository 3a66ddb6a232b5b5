# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Computes the ledger: which generic resources of a swarm are allocated to which tasks (pure).

Takes the API's JSON and returns plain records. Reads each task only once.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from sys import intern
from typing import Any, Collection, Iterable, Iterator, Mapping, NamedTuple

from .._compat import checks
from .._placement import elsewhere, pending
from .._placement.availability import FORMER, is_set_by_run, paused_for, read_mark, set_at, set_by
from .._placement.census import Census
from .._placement.scheduler import SwarmState
from .._policy import generic_resources
from .._swarm.isolation import ENFORCED
from .._tasks import takes_all
from .._tasks.keep import blocking_label
from .._tasks.restarts import Restarts
from .._tasks.tasks import (
    ALLOCATED,
    ENDED,
    WAITING,
    WANTED,
    age,
    assigned,
    is_job,
    is_movable,
    is_pull,
    is_queued,
    is_stopped_by_queue,
    name_of,
    reservations,
)
from . import claims, encrypted, findings, health, networks, on_gpu_nodes, unreserved
from . import reservations as service_reservations
from .leader import leader_engine
from .listed import Listed


class Reading(NamedTuple):
    """The results of the pass over the tasks. The keys of the first three fields are node ids."""

    tasks: dict[str, list[dict[str, Any]]]  # live tasks, in the form of the module's result
    allocated: dict[str, list[tuple[str, dict[str, Any]]]]  # (kind, entry) of each allocated resource
    reserved: dict[str, list[int]]  # [CPUs in billionths, bytes of memory]
    finished: claims.Finished  # resources that were allocated to ended tasks of jobs
    restarts: Restarts  # restarts of tasks with a limited number of attempts
    waiting: pending.Waiting  # groups of tasks that wait for a node
    reserving: service_reservations.Reserving  # groups of tasks that reserve generic resources
    census: Census | None  # for explanations of services; None without services to explain
    zero_reservations: takes_all.ZeroReservations  # tasks that reserve 0 of a resource kind
    overlays: networks.Overlays | None  # networks of tasks; None unless the leader evicts tasks because of their networks
    encrypted_networks: encrypted.Networks | None  # None unless some nodes have incompatible releases


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pause garbage collection.

    Garbage collection would take a tenth of the time. It would free nearly nothing, because the ledger has no cycles and is still in use.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@without_garbage_collection()
def ledger(
    listed: Listed, prefix: str, explained: Collection[str] = (), most: int | None = None, levels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the ledger of a swarm.

    ``prefix`` is the prefix of the labels with which a run marks nodes. ``explained`` are the services to explain, at most ``most`` (see
    ``explain``). ``levels`` are the isolation levels by node id. If a node is missing in ``levels``, its level is off.
    """
    nodes, _tasks, services, now, _keep_label = listed
    reading = _read_tasks(listed, Census() if explained else None)
    leader = leader_engine(nodes)
    records = [_node_record(node, reading, prefix, now) for node in nodes]
    records.sort(key=lambda record: (record["hostname"], record["id"]))
    elsewhere.set_elsewhere(records, nodes, services)
    pools = _pools(records)
    result = {
        "nodes": records,
        "kinds": _kinds(records, pools),
        "pools": pools,
        "held_twice": claims.held_twice(records),
        "finished_jobs": claims.finished_jobs(records, reading.finished) if checks.affects("finished-jobs-count", leader) else [],
        "unreserved": unreserved.unreserved(nodes, records, services, reading.waiting),
        "on_gpu_nodes": on_gpu_nodes.on_gpu_nodes(records, services),
        "reservations": service_reservations.records(reading.reserving, nodes),
        "pending": pending.pending(reading.waiting, nodes, records, reading.reserved, now),
    }
    zero_reservations = takes_all.describe(reading.zero_reservations, {record["id"]: record["hostname"] for record in records})
    others = {
        "zero-takes-all": zero_reservations,
        "network-evicts-gpu-tasks": networks.unattached(reading.overlays or {}, services),
        encrypted.TRAP: encrypted.describe(reading.encrypted_networks or {}, nodes),
    }
    result["findings"] = findings.findings(result, leader, _are_guarded(records, levels or {}), others)
    if reading.census:
        from .._placement import explain  # imported here, because the import takes 10 ms

        result["explained"] = explain.explain_services(explained, services, _state(listed, records, reading, reading.census), most)
    return result


def swarm_state(listed: Listed, prefix: str) -> SwarmState:
    """Return what the placement of waiting work needs of a swarm. This is the part of the ledger that ``explain`` uses."""
    census = Census()
    reading = _read_tasks(listed, census)
    return _state(listed, [_node_record(node, reading, prefix, listed.now) for node in listed.nodes], reading, census)


def _state(listed: Listed, records: Iterable[Mapping[str, Any]], reading: Reading, census: Census) -> SwarmState:
    by_node = {record["id"]: record for record in records}
    return SwarmState([pending.place(node, by_node[node["ID"]], reading.reserved) for node in listed.nodes], census, listed.now)


def _are_guarded(records: Iterable[Mapping[str, Any]], levels: Mapping[str, str]) -> bool:
    return all(levels.get(record["id"]) in ENFORCED for record in records if unreserved.has_gpus(record))


# -- the pass over the tasks -----------------------------------------------------------------------------------------


def _read_tasks(listed: Listed, census: Census | None) -> Reading:
    services = {service["ID"]: service for service in listed.services}
    evicts = checks.affects("old-leader-evicts-gpu-tasks", leader_engine(listed.nodes))
    encrypted_networks: encrypted.Networks | None = {} if encrypted.has_incompatible_nodes(listed.nodes) else None
    reading = Reading({}, {}, {}, {}, Restarts(), {}, {}, census, {}, {} if evicts else None, encrypted_networks)
    for task in listed.tasks:
        state, service = task["Status"]["State"], services.get(task.get("ServiceID"))
        service_name = service["Spec"]["Name"] if service else task.get("ServiceID")
        allocated, wanted = state in ALLOCATED, task.get("DesiredState") in WANTED
        if census:
            census.add(task, service)
        if reading.overlays is not None and wanted:
            networks.add(reading.overlays, task)
        if reading.encrypted_networks is not None and wanted and task.get("NodeID"):
            encrypted.add(reading.encrypted_networks, task)
        if allocated and task.get("NodeID"):
            record = _read_live(reading, task, service_name, is_movable(task, service), listed.now)
            record["kept"] = blocking_label(service, record["age"], listed.keep_label)
            record["removed"] = service is None
            # If swarm does not replace a task, the task needs no other node.
            if wanted and record["movable"]:
                service_reservations.add(reading.reserving, task, service, service_name)
            reading.restarts.add(task, record)
            continue
        reading.restarts.add(task)
        if not wanted or is_stopped_by_queue(task, service):
            continue
        # If admitted work finds no room on its node, its queue takes it back. So a run need not keep room for it.
        if (state in WAITING and not is_queued(service)) or (allocated and is_movable(task, service)):
            service_reservations.add(reading.reserving, task, service, service_name)
        if state in WAITING and not is_pull(service):
            pending.add(reading.waiting, task, service_name)
        elif state in ENDED and task.get("NodeID") and is_job(task, service):
            claims.add_finished(reading.finished, task["NodeID"], service_name, assigned(task))
    reading.restarts.fill_records()
    return reading


def _read_live(reading: Reading, task: Mapping[str, Any], service_name: str, movable: bool, now: float | None) -> dict[str, Any]:
    """Return the record of a task with allocated resources, and add its resources to ``reading``."""
    status, node_id, allocated = task["Status"], task["NodeID"], assigned(task)
    name, since = name_of(task, service_name), status.get("Timestamp")
    state, desired = intern(status["State"]), intern(task.get("DesiredState", ""))  # the tasks share these strings, which saves memory
    record = {
        "id": task["ID"],
        "service": service_name,
        "name": name,
        "state": state,
        "since": since,
        "age": age(since, now),
        "movable": movable,
        "kept": None,
        "removed": False,
        "restarts_left": None,
        "elsewhere": None,
        "holding": allocated,
    }
    reading.tasks.setdefault(node_id, []).append(record)
    reserved = _read_reserved(reading, task, node_id)
    takes_all.add(reading.zero_reservations, reserved, allocated, service_name, node_id)
    for kind, values in allocated.items():
        named = isinstance(values, list)
        for value in values if named else [values]:
            entry = {
                "value" if named else "amount": value,
                "task_id": task["ID"],
                "service": service_name,
                "name": name,
                "slot": task.get("Slot"),
                "state": state,
                "desired_state": desired,
                "since": since,
            }
            reading.allocated.setdefault(node_id, []).append((kind, entry))
    return record


def _read_reserved(reading: Reading, task: Mapping[str, Any], node_id: str) -> Mapping[str, Any]:
    reserved = reservations(task.get("Spec") or {})
    if reserved:
        sums = reading.reserved.setdefault(node_id, [0, 0])
        sums[0] += reserved.get("NanoCPUs", 0)
        sums[1] += reserved.get("MemoryBytes", 0)
    return reserved


# -- nodes -----------------------------------------------------------------------------------------------------------


def _node_record(node: Mapping[str, Any], reading: Reading, prefix: str, now: float | None) -> dict[str, Any]:
    spec, description, status = node.get("Spec", {}), node.get("Description", {}), node.get("Status", {})
    manager = node.get("ManagerStatus") or {}
    labels = spec.get("Labels") or {}
    tasks = reading.tasks.get(node["ID"], [])
    tasks.sort(key=lambda task: (task["name"], task["id"]))
    return {
        "id": node["ID"],
        "hostname": description.get("Hostname", ""),
        "addr": _address(status, manager),
        "role": spec.get("Role"),
        "leader": bool(manager.get("Leader")),
        "reachability": manager.get("Reachability"),
        "state": status.get("State"),
        "availability": spec.get("Availability"),
        "engine_version": description.get("Engine", {}).get("EngineVersion"),
        "labels": labels,
        "former_availability": read_mark(labels.get(prefix + FORMER))[0] or None,
        "set_by_run": is_set_by_run(spec, prefix),
        "set_at": set_at(spec, prefix),
        "set_by": set_by(spec, prefix),
        "paused_for": paused_for(spec, prefix),
        "unchanged_for": age(node.get("UpdatedAt"), now),
        "message": status.get("Message") or "",
        "health": health.reported(node, prefix),
        "resources": _node_resources(description, reading.allocated.get(node["ID"], [])),
        "tasks": tasks,
    }


def _address(status: Mapping[str, Any], manager: Mapping[str, Any]) -> str | None:
    """Return the node's address. A leader's own node entry often shows an unusable address (moby#35437, moby#30119), so use its manager address."""
    if status.get("Addr") in ("0.0.0.0", "127.0.0.1") and manager.get("Addr"):
        return manager["Addr"].rsplit(":", 1)[0].strip("[]")
    return status.get("Addr")


def _node_resources(description: Mapping[str, Any], allocated: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    resources = {}
    for kind, advertised in generic_resources.from_info(description.get("Resources", {}).get("GenericResources")).items():
        resources[kind] = _new_entry(advertised)
    # Also list a resource kind that is allocated but no longer advertised: its task still uses it.
    for kind, entry in allocated:
        resources.setdefault(kind, _new_entry([] if "value" in entry else 0))["held"].append(entry)
    for entry in resources.values():
        entry["free"] = _free_resources(entry)
    return resources


def _new_entry(advertised: int | list[str]) -> dict[str, Any]:
    if isinstance(advertised, list):
        return {"type": "named", "total": len(advertised), "values": advertised, "free": None, "held": []}
    return {"type": "discrete", "total": advertised, "values": None, "free": None, "held": []}


def _free_resources(entry: Mapping[str, Any]) -> int | list[str]:
    """Return the free resources as the scheduler counts them. The scheduler never counts allocations of finished tasks (swarmkit#471)."""
    if entry["type"] == "discrete":
        return max(0, entry["total"] - sum(item.get("amount", 0) for item in entry["held"]))
    # Count the values instead of comparing sets, because for swarm a value that is advertised twice is two resources.
    taken = Counter(item.get("value") for item in entry["held"])
    free = []
    for value in entry["values"]:
        if taken[value]:
            taken[value] -= 1
        else:
            free.append(value)
    return free


# -- the whole swarm -------------------------------------------------------------------------------------------------


def _sums(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    sums: dict[str, dict[str, int]] = {}
    for record in records:
        for kind, entry in record["resources"].items():
            free = entry["free"] if entry["type"] == "discrete" else len(entry["free"])
            kind_sums = sums.setdefault(kind, {"nodes": 0, "total": 0, "held": 0, "free": 0, "most_free": 0})
            kind_sums["nodes"] += 1 if entry["total"] else 0
            kind_sums["total"] += entry["total"]
            kind_sums["held"] += sum(item.get("amount", 1) for item in entry["held"])
            kind_sums["free"] += free
            kind_sums["most_free"] = max(kind_sums["most_free"], free)
    return sums


def _pools(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the sums over the schedulable nodes, by resource kind."""
    return _sums([record for record in records if pending.is_schedulable(record)])


def _kinds(records: Iterable[Mapping[str, Any]], pools: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {
        kind: {
            "total": sums["total"],
            "held": sums["held"],
            "free": sums["free"],
            "schedulable": pools[kind]["free"] if kind in pools else 0,
        }
        for kind, sums in _sums(records).items()
    }
