# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status of a fleet (pure): its nodes, GPUs and services, as a manager's ledger shows them.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping

from .._gpu.record import devices_of
from .._health.label import FAULT, OK, PAUSED_PERCENT, WARNING, describe_fault, describe_label, unaccepted_losses
from .._ledger import allocation_report
from .._ledger.isolation_state import differs, level_of
from .._ledger.node_labels import is_excluded, model_of
from .._ledger.pause_limit import kept_in_service
from .._ledger.unreserved import is_of_gpus
from .._placement import availability
from .._printable import shortened
from .isolation_report import allocated_but_free_for_leader, isolation, isolation_in
from .shown_queues import sentence, shortened_queue, verdict_of
from .verdicts import Verdict

ALLOCATED, FREE, FAULTY, NOT_ADVERTISED = "allocated", "free", "faulty", "not advertised"
RETURNED = " until a run found the node healthy; its watcher updates the report when no task runs there"
EXCLUDED = "GPU excluded"
Row = Dict[str, Any]


def status(ledger: Mapping[str, Any], fault_limit: int = PAUSED_PERCENT) -> dict[str, Any]:
    """Return the whole status, as ``output=json`` prints it: a list of rows for each section, and the names of waiting and failed nodes and services.
    ``fault_limit`` is the percentage of GPU nodes that may be paused for a fault."""
    kept_reasons = kept_in_service(ledger["nodes"], fault_limit)
    result: dict[str, Any] = {
        "nodes": [_node(node, isolation_in(ledger), kept_reasons.get(node["id"])) for node in ledger["nodes"]],
        "totals": _totals(ledger),
        "holders": list(_holders(ledger["nodes"], ledger.get("owners") or {})),
        "free": list(_free(ledger["nodes"])),
        "pending": [_service(service) for service in ledger.get("explained") or []],
        "queue": shortened_queue(ledger.get("queue")),
        "isolation": isolation(ledger),
        "allocation_findings": [_allocation_finding(finding) for finding in ledger.get("allocation_findings") or []],
        "on_gpu_nodes": ledger["on_gpu_nodes"],
    }
    result["faulty"] = [*_faulty(result["nodes"], ledger["held_twice"]), *_allocated_but_free(ledger)]
    result["waiting"] = [*_names_by(result["nodes"], "node", Verdict.WAITING), *_names_by(result["pending"], "service", Verdict.WAITING)]
    result["wrong"] = [
        *_names_by(result["nodes"], "node", Verdict.FAILED),
        *_names_by(result["pending"], "service", Verdict.FAILED),
        *(row["node"] for row in result["faulty"] if row["what"] == "allocated twice"),
    ]
    return result


def outcome(fleet_status: Mapping[str, Any]) -> str:
    """Summarise in one line what has failed and what waits, or that everything is fine."""
    parts = [f"{word}: {shortened(names)}" for word, names in (("Wrong", fleet_status["wrong"]), ("Waiting", fleet_status["waiting"])) if names]
    return ". ".join(parts) + "." if parts else "All is as it should be."


def service_row(ledger: Mapping[str, Any], service: str) -> Row | None:
    """Return the row of the service with this name or id. None if the swarm has no such service.

    If the service is work of a queue, the row also has ``queue``, the row of this work in the view of the queues.
    """
    row = next((_service(entry, ledger["nodes"]) for entry in ledger.get("explained") or [] if service in (entry["service"], entry["id"])), None)
    work = next((work for work in (ledger.get("queue") or {}).get("work") or [] if row and work["service_id"] == row["id"]), None)
    return row if row is None or work is None else {**row, "text": sentence(work), "verdict": verdict_of(work).value, "queue": work}


# -- nodes -----------------------------------------------------------------------------------------------------------


def _node(node: Mapping[str, Any], swarm_isolation: Mapping[str, Any], kept_reason: str | None) -> Row:
    state, verdict, why = _with_excluded_cards(_state(node, swarm_isolation), node)
    reported = node.get("health") or {}
    return {
        "node": node["hostname"],
        "id": node["id"],
        "role": node["role"],
        "state": state,
        "why": "; ".join(filter(None, [why, kept_reason])),
        # The manager has recorded no change of the node for this long, so the time is a lower limit.
        "for": node.get("unchanged_for") if verdict is not Verdict.DONE else None,
        "since": reported.get("since") or node.get("set_at"),
        "gpus": {kind: _marks(kind, entry, node) for kind, entry in node["resources"].items()},
        "tasks": [task["name"] for task in node["tasks"] if task["holding"]],
        "verdict": verdict.value,
    }


def _state(node: Mapping[str, Any], swarm_isolation: Mapping[str, Any]) -> tuple[str, Verdict, str]:
    """Return the state in one or two words, the verdict, and details."""
    unschedulable, reported = availability.why_closed(node), node.get("health") or {}
    problem = _report_of(reported)
    if node["state"] != "ready":
        return node["state"], Verdict.FAILED, "; ".join(filter(None, [node.get("message"), problem]))
    if node.get("paused_for") and node["availability"] == availability.PAUSED:
        former = f"it returns to {node['former_availability']} with the first run of provision that finds nothing wrong"
        return unschedulable, Verdict.FAILED, "; ".join([describe_fault(node["paused_for"]), former])
    if has_fault(reported):
        return FAULT if node["availability"] == availability.ACTIVE else f"{unschedulable}; {FAULT}", Verdict.FAILED, problem
    if node["availability"] != availability.ACTIVE:
        former = f"it returns to {node['former_availability']} with the next run of provision" if node["set_by_run"] else ""
        return unschedulable, Verdict.WAITING, "; ".join(filter(None, [problem, former]))
    notes = ["a GPU is excluded"] if is_excluded(node) and not unaccepted_losses(node["labels"]) else []
    other = _other_isolation(node, swarm_isolation)
    reallocatable = [value for task in node["tasks"] for value in allocated_but_free_for_leader(task, swarm_isolation)]
    notes += [f"may be allocated again: {shortened(reallocatable)} (what=faulty)"] if reallocatable else []
    attention = bool(reported) and (not (reported["state"] in (OK, WARNING) or reported["returned"]) or reported["drift"])
    return "ready", Verdict.WAITING if attention or other else Verdict.DONE, "; ".join([*filter(None, [problem, other]), *notes])


def _with_excluded_cards(state: tuple[str, Verdict, str], node: Mapping[str, Any]) -> tuple[str, Verdict, str]:
    """Add the failed cards that the node does not advertise. They are a failure until somebody consents to fewer GPUs."""
    cards = ", ".join(map(describe_label, unaccepted_losses(node["labels"])))
    if not cards:
        return state
    text = f"excluded without consent: {cards}. Repair it, or consent with gpu_node_expect. Then run provision"
    return f"{state[0]}; {EXCLUDED}", Verdict.FAILED, "; ".join(filter(None, [state[2], text]))


def _other_isolation(node: Mapping[str, Any], swarm_isolation: Mapping[str, Any]) -> str:
    """Describe how the isolation of a node differs from that of its swarm, or ''."""
    return (
        f"isolation {level_of(node['id'], swarm_isolation)}, not {swarm_isolation['level']}"
        if swarm_isolation and differs(node, swarm_isolation)
        else ""
    )


def _report_of(reported: Mapping[str, Any]) -> str:
    """Return what the node reports about its GPUs and files; '' if all is well."""
    parts = [reported["text"] + (RETURNED if reported["returned"] else "")] if reported and reported["state"] != OK else []
    return "; ".join(parts + (["its files no longer contain what provision wrote"] if reported.get("drift") else []))


def has_fault(reported: Mapping[str, Any]) -> bool:
    """Return whether the watcher reports a fault, and no later run has found the node healthy."""
    return reported.get("state") == FAULT and not reported["returned"]


def _marks(kind: str, entry: Mapping[str, Any], node: Mapping[str, Any]) -> Row:
    """Count the resources of a kind by state. ``states`` has the state of each named resource, in the node's order."""
    allocated = sum(item.get("amount", 1) for item in entry["held"])
    if entry["type"] != "named":
        return {"total": entry["total"], FREE: entry["free"], ALLOCATED: allocated, "states": None}
    card = node["health"]["card"] if has_fault(node.get("health") or {}) else None
    taken = [item.get("value") for item in entry["held"]]
    states = [FAULTY if card in devices_of(value) else ALLOCATED if value in taken else FREE for value in entry["values"]]
    states += [NOT_ADVERTISED for value in taken if value not in entry["values"]]
    if is_of_gpus(entry) and is_excluded(node) and FAULTY not in states:
        states.append(NOT_ADVERTISED)
    return {"total": entry["total"], FREE: states.count(FREE), ALLOCATED: allocated, "states": states}


def _holders(nodes: Iterable[Mapping[str, Any]], owners: Mapping[str, str]) -> Iterable[Row]:
    for node in nodes:
        ages = {task["id"]: task["age"] for task in node["tasks"]}
        for kind, entry in node["resources"].items():
            for item in entry["held"]:
                yield {
                    "node": node["hostname"],
                    "node_id": node["id"],
                    "kind": kind,
                    "resource": item.get("value", item.get("amount")),
                    "service": item["service"],
                    "task": item["name"],
                    "owner": owners.get(item["service"]),
                    "state": item["state"],
                    "age": ages.get(item["task_id"]),
                }


def _free(nodes: Iterable[Mapping[str, Any]]) -> Iterable[Row]:
    for node in nodes:
        for kind, entry in node["resources"].items():
            if entry["free"]:
                names = entry["free"] if entry["type"] == "named" else []
                closed = "" if is_schedulable(node) else availability.why_closed(node)
                yield {"node": node["hostname"], "kind": kind, "free": _amount(entry["free"]), "resources": names, "not placed": closed}


def is_schedulable(node: Mapping[str, Any]) -> bool:
    return node["state"] == "ready" and node["availability"] == availability.ACTIVE


def _faulty(nodes: Iterable[Row], twice: Iterable[Mapping[str, Any]]) -> Iterable[Row]:
    for node in nodes:
        states = [state for marks in node["gpus"].values() for state in marks["states"] or []]
        if node["verdict"] == Verdict.FAILED.value or FAULTY in states or NOT_ADVERTISED in states:
            missing = f"{states.count(NOT_ADVERTISED)} not advertised" if NOT_ADVERTISED in states else ""
            yield {"node": node["node"], "what": node["state"], "details": "; ".join(filter(None, [node["why"], missing]))}
    for conflict in twice:
        tasks = " and ".join(holder["name"] for holder in conflict["holders"])
        yield {"node": conflict["hostname"], "what": "allocated twice", "details": f"{conflict['kind']} {conflict['value']}: {tasks}"}


def _allocated_but_free(ledger: Mapping[str, Any]) -> Iterable[Row]:
    """Yield the GPUs that a task has but the leader counts as free."""
    swarm_isolation = isolation_in(ledger)
    for node in ledger["nodes"]:
        for task in node["tasks"]:
            for value in allocated_but_free_for_leader(task, swarm_isolation):
                problem = f"{value}: {task['name']} has it, but the managers' leader, which restarted later, counts it as free."
                restart = f"restart this service (docker service update --detach --force {task['service']}) and the other old tasks there"
                text = f"{problem} Pause the node, {restart}, then make the node active again"
                yield {"node": node["hostname"], "what": "may be allocated again", "details": text}


# -- the whole swarm -------------------------------------------------------------------------------------------------


def _allocation_finding(finding: Mapping[str, Any]) -> Row:
    return {
        "node": finding["hostname"],
        "card": finding["card"],
        "finding": finding["name"],
        "details": allocation_report.describe(finding),
        "read": finding["read"],
    }


def _totals(ledger: Mapping[str, Any]) -> list[Row]:
    """Return the sums by kind and model. ``schedulable`` counts free resources on schedulable nodes. A task needs all of its GPUs on one node."""
    rows: dict[tuple[str, str], Row] = {}
    for node in ledger["nodes"]:
        model = model_of(node)
        for kind, entry in node["resources"].items():
            free = _amount(entry["free"])
            schedulable = free if is_schedulable(node) else 0
            row = {"kind": kind, "model": model, "total": 0, "allocated": 0, "free": 0, "schedulable": 0, "most on one node": 0}
            row = rows.setdefault((kind, model), row)
            row["total"] += entry["total"]
            row["allocated"] += sum(item.get("amount", 1) for item in entry["held"])
            row["free"] += free
            row["schedulable"] += schedulable
            row["most on one node"] = max(row["most on one node"], schedulable)
    return [rows[key] for key in sorted(rows)]


def _amount(free: int | list[str]) -> int:
    return len(free) if isinstance(free, list) else free


def _service(service: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]] = ()) -> Row:
    names = {node["id"]: node["hostname"] for node in nodes}
    waits = service["needed"] > 0 or bool(service["without_tasks"])
    # If a service has all of its tasks, it does not matter whether one more would fit.
    settled = service["over"] or (service["live"] and not waits)
    verdict = Verdict.DONE if settled else Verdict.FAILED if not service["possible"] else Verdict.WAITING if waits else Verdict.DONE
    # For a service without pending tasks, the text says what one more task would need.
    text = service["text"] if waits or service["fits"] else f"it has all of its tasks; one more {service['text']}"
    return {**service, "text": text, "feasible": [names.get(node_id, node_id) for node_id in service["feasible"]], "verdict": verdict.value}


def _names_by(rows: Iterable[Row], key: str, verdict: Verdict) -> list[str]:
    return [row[key] for row in rows if row["verdict"] == verdict.value]


def only_service(service: Row) -> dict[str, Any]:
    """Return the status of one service, as ``output=json`` prints it."""
    return {
        "pending": [service],
        "waiting": _names_by([service], "service", Verdict.WAITING),
        "wrong": _names_by([service], "service", Verdict.FAILED),
    }
