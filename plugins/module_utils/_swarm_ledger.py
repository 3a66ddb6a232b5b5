# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who holds which generic resource of a swarm (pure): API JSON in, plain records out, one pass over tasks.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import Counter

# A task holds what it was assigned from its assignment to its end, whatever it is desired to be meanwhile: a task
# that is told to shut down still has its GPU open. The scheduler counts the same way.
HOLDING = frozenset(["assigned", "accepted", "preparing", "ready", "starting", "running"])

FORMER = "former-availability"


def ledger(nodes, tasks, services, prefix):
    """{nodes: […], kinds: {…}} for the API's lists of nodes, tasks and services."""
    held = _held_by_node(tasks, {service["ID"]: service["Spec"]["Name"] for service in services})
    records = [_node_record(node, held.get(node["ID"], []), prefix) for node in nodes]
    records.sort(key=lambda record: (record["hostname"], record["id"]))
    return {"nodes": records, "kinds": _kinds(records)}


def generic_resources(items):
    """The API's list as (kind, type, value) where a named resource's value is a string and a discrete one's a count."""
    for item in items or []:
        named = item.get("NamedResourceSpec")
        if named:
            yield named["Kind"], "named", named["Value"]
        discrete = item.get("DiscreteResourceSpec")
        if discrete:
            # Go's JSON leaves a count of zero away.
            yield discrete["Kind"], "discrete", int(discrete.get("Value", 0))


def assigned(task):
    """What the scheduler gave a task. Docker's API reference and its engine disagree on the key's name."""
    return generic_resources(task.get("AssignedGenericResources") or task.get("GenericResources"))


def _held_by_node(tasks, names):
    held = {}
    for task in tasks:
        node_id = task.get("NodeID")
        if not node_id or task["Status"]["State"] not in HOLDING:
            continue
        for kind, typ, value in assigned(task):
            entry = {
                "value" if typ == "named" else "amount": value,
                "task_id": task["ID"],
                "service": names.get(task.get("ServiceID"), task.get("ServiceID")),
                "slot": task.get("Slot"),
                "state": task["Status"]["State"],
                "desired_state": task.get("DesiredState"),
            }
            held.setdefault(node_id, []).append((kind, typ, entry))
    return held


def _node_record(node, held, prefix):
    spec, description, status = node.get("Spec", {}), node.get("Description", {}), node.get("Status", {})
    manager = node.get("ManagerStatus") or {}
    labels = spec.get("Labels") or {}
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
        "former_availability": labels.get(prefix + FORMER, "").partition("/")[0] or None,
        "resources": _resources(description.get("Resources", {}).get("GenericResources"), held),
    }


def _address(status, manager):
    """As a node, a leader is often seen at an address that nobody else can use (moby#35437, moby#30119)."""
    if status.get("Addr") in ("0.0.0.0", "127.0.0.1") and manager.get("Addr"):
        return manager["Addr"].rsplit(":", 1)[0].strip("[]")
    return status.get("Addr")


def _resources(advertised, held):
    resources = {}
    for kind, typ, value in generic_resources(advertised):
        entry = resources.setdefault(kind, _empty(typ))
        entry["total"] += 1 if typ == "named" else value
        if typ == "named":
            entry["values"].append(value)
    # A kind that is held but no longer advertised is listed too: its task runs on something that is gone.
    for kind, typ, entry in held:
        resources.setdefault(kind, _empty(typ))["held"].append(entry)
    for entry in resources.values():
        entry["free"] = _free(entry)
    return resources


def _empty(typ):
    return {"type": typ, "total": 0, "values": [] if typ == "named" else None, "free": None, "held": []}


def _free(entry):
    if entry["type"] == "discrete":
        return max(0, entry["total"] - sum(item.get("amount", 0) for item in entry["held"]))
    # Counted, not compared: swarm takes a value that is advertised twice for two resources.
    taken = Counter(item.get("value") for item in entry["held"])
    free = []
    for value in entry["values"]:
        if taken[value]:
            taken[value] -= 1
        else:
            free.append(value)
    return free


def _kinds(records):
    kinds = {}
    for record in records:
        usable = record["state"] == "ready" and record["availability"] == "active"
        for kind, entry in record["resources"].items():
            sums = kinds.setdefault(kind, {"total": 0, "held": 0, "free": 0, "schedulable": 0})
            free = entry["free"] if entry["type"] == "discrete" else len(entry["free"])
            sums["total"] += entry["total"]
            sums["held"] += sum(item.get("amount", 1) for item in entry["held"])
            sums["free"] += free
            sums["schedulable"] += free if usable else 0
    return kinds
