# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shows the queues and their work as JSON (pure): where work runs, its position, and why it waits.

The view makes the same decision as the service on the leader, from the lists that the caller has read, and shows the reasons of this decision. The
command, the status, the metrics and the page show this one view.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from .._errors import GpuSwarmError
from .._ledger.ledger import swarm_state
from .._ledger.listed import Listed
from .._placement.pending import UNITS, wanted_by
from .._printable import printable, shortened
from .._swarm.owned_labels import JOB, PREFIX
from .._tasks import one_shot
from .._tasks.tasks import ALLOCATED, ENDED, assigned, epoch, stamp, utc
from . import attempts
from .admissions import admissions, why_none
from .admit import Decision, Used, share
from .attempts import progress_of
from .gang_pulls import being_pulled
from .moved_tasks import may_be_moved, moved_since, moved_work
from .packing import Fleet
from .queue_state import State, state_of
from .queue_words import (
    ADMITTED,
    CANNOT_QUEUE,
    HELD,
    LOST,
    MAY_START,
    NOT_SERVED,
    OVER,
    REFUSED,
    RUNNING,
    SHOWN,
    STARTING,
    TAKEN_BACK,
    UNQUEUED,
    WAITING,
)
from .queues import LABEL, Queue, from_label
from .reasons import Reason
from .settle import View, unreachable_nodes
from .usage import running_of
from .waiting import QUEUE, Read, Work, gang_of, limit_of_admitted, owner_of, queue_of, read, shown

Row = dict  # one entry of "work" or "queues"


def view_of(listed: Listed, swarm: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Return the view of a swarm. ``swarm`` is its specification, which has the queues in a label."""
    try:
        queues, problem = from_label((swarm.get("Labels") or {}).get(LABEL)), why_none(swarm)
    except GpuSwarmError as unreadable:
        queues, problem = {}, unreadable.message
    return queue_view(listed, queues, now, problem, moved_since(swarm, now))


def queue_view(listed: Listed, queues: Mapping[str, Queue], now: float, problem: str = "", since: float | None = None) -> dict[str, Any]:
    """Return ``{"queues": [...], "work": [...], "problem": problem}``. ``problem`` is why nothing is admitted at all.

    ``since`` is the result of ``moved_since``.

    ``work`` is in the order of SHOWN, and waiting work in the order in which it may start. Times are text in UTC. An unknown time is None.
    """
    services = {service["ID"]: service for service in listed.services if QUEUE in (service["Spec"].get("Labels") or {})}
    if not services and not queues:
        return {"queues": [], "work": [], "problem": problem}
    own: dict[str, list[Mapping[str, Any]]] = {}
    kept = {node for service in services.values() for node in state_of(service).keeps}
    others: list[Mapping[str, Any]] = []  # tasks without a queue on kept nodes
    unplaced: list[Mapping[str, Any]] = []

    def each_task() -> Iterator[Mapping[str, Any]]:
        for task in listed.tasks:
            if task.get("ServiceID") in services:
                own.setdefault(task["ServiceID"], []).append(task)
            elif task.get("NodeID") in kept and task["Status"]["State"] in ALLOCATED:
                others.append(task)
            elif may_be_moved(task, since):
                unplaced.append(task)
            yield task

    state = swarm_state(listed._replace(tasks=each_task()), PREFIX)
    moved = moved_work(unplaced, listed.services, state.census)
    pulled = being_pulled(listed.services)
    view = View(services, own, queues, unreachable_nodes(listed.nodes), now, {}, moved, lambda node, image: (node, image) not in pulled)
    found = admissions(view, state, lambda: "", {}, problem)
    names = {service["ID"]: service["Spec"]["Name"] for service in listed.services}
    inputs = _Inputs(view, {node["ID"]: printable(node.get("Description", {}).get("Hostname") or node["ID"]) for node in listed.nodes}, others, names)
    work = [_of_decision(inputs, decision) for decision in found.decisions] + [_of_other(inputs, one) for one in found.others]
    decided = {row["service_id"] for row in work}
    work += [_of_rest(inputs, service) for service_id, service in sorted(services.items()) if service_id not in decided]
    work.sort(key=lambda row: (SHOWN.index(row["state"]), *_order(row)))
    return {"queues": _queues(view, Fleet(state, ()).advertised(), work), "work": work, "problem": problem}


class _Inputs(NamedTuple):
    """What the rows are made from. ``hostnames`` of nodes and ``names`` of services are by id. ``others`` are tasks without a queue on kept nodes."""

    view: View
    hostnames: Mapping[str, str]
    others: Sequence[Mapping[str, Any]]
    names: Mapping[str, str]


def _order(row: Row) -> tuple[Any, ...]:
    """Return the order within a state. Waiting work keeps the order of the decision: first work that starts now, last work without a position."""
    if row["state"] == WAITING:
        return (0 if row["reason"] == MAY_START else 1 if row["position"] else 2,)
    return row["queue"], row["since"] or "", row["service"]


def _queues(view: View, advertised: Mapping[str, float], work: Iterable[Row]) -> list[Row]:
    running = (running_of(service, view.tasks.get(service_id, ()), view.queues, view.now) for service_id, service in view.services.items())
    used = Used(one for uses in running for one in uses)
    counts: dict[tuple[str, str], int] = {}
    for row in work:
        key = row["queue"], RUNNING if row["state"] in (STARTING, RUNNING, LOST) else row["state"]
        counts[key] = counts.get(key, 0) + 1
    return [
        {
            "queue": name,
            "weight": queue.weight,
            "priority": queue.priority,
            "time_limit_s": queue.time_limit_s,
            "max": dict(queue.most),
            "per_owner": dict(queue.per_owner),
            "used": used.by_queue.get(name, {}),
            "share": round(share(used.by_queue.get(name, {}), advertised, queue.weight), 4),
            "waiting": counts.get((name, WAITING), 0),
            "running": counts.get((name, RUNNING), 0),
        }
        for name, queue in sorted(view.queues.items())
    ]


# -- one service -----------------------------------------------------------------------------------------------------


def _row(inputs: _Inputs, service: Mapping[str, Any], work: Work | None = None, **more: Any) -> Row:
    """Return the row of a service. ``work`` is the service as read before; without it, the service is read here."""
    if work is None:
        found = read(service, inputs.view.queues)
        work = found.work if found else None
    name = queue_of(service) or ""
    queue, gang = inputs.view.queues.get(name), gang_of(service)
    row = {
        "service": shown(service["Spec"]["Name"]),
        "service_id": service["ID"],
        "queue": name,
        "owner": owner_of(service),
        "job": shown((service["Spec"].get("Labels") or {}).get(JOB) or ""),
        "state": WAITING,
        "position": None,
        "since": utc(service.get("CreatedAt")),
        "node": None,
        "kept": [],
        "starts_by": None,
        "reason": "",
        "text": "",
        "attempt": state_of(service).attempt,
        "gang": gang and {"name": gang.name, "rank": gang.rank, "size": gang.size},
        "amounts": {kind: amount for kind, amount in wanted_by(service["Spec"]["TaskTemplate"]).items() if kind not in UNITS},
        "priority": (queue.priority if queue else 0) if work is None or work.priority is None else work.priority,
        "time_limit_s": work.time_limit_s if work else queue and queue.time_limit_s,
        "ends": None,
        "taken": [],
    }
    return {**row, **more}


def _of_decision(inputs: _Inputs, decision: Decision) -> Row:
    service = inputs.view.services[decision.work.service_id]
    if decision.node:
        hostname = inputs.hostnames.get(decision.node, decision.node)
        text = "it fits on %s now; the service of the leading manager starts it in its next round" % hostname
        return _row(inputs, service, decision.work, reason=MAY_START, text=text)
    taken = _taken(inputs, service, decision)
    reason = decision.reason
    return _row(
        inputs,
        service,
        decision.work,
        position=decision.position or None,
        kept=[inputs.hostnames.get(node, node) for node in decision.keeps],
        starts_by=None if decision.starts_by is None else stamp(decision.starts_by),
        reason=reason.code if reason else "",
        text="%s%s%s" % (reason.text if reason else "", _refused_text(reason, state_of(service)), _taken_text(taken)),
        taken=taken,
    )


def _taken(inputs: _Inputs, service: Mapping[str, Any], decision: Decision) -> list[Row]:
    """Return which tasks without a queue began on kept nodes after the nodes were kept for this work, and what these tasks got.

    Swarm starts such tasks, because it does not know the queues.
    """
    state, since = state_of(service), epoch(service.get("UpdatedAt"))
    if not decision.keeps or state.keeps != decision.keeps or since is None:
        return []
    return [
        {
            "service": printable(str(inputs.names.get(task.get("ServiceID") or "", "a removed service"))),
            "node": inputs.hostnames.get(task["NodeID"], task["NodeID"]),
            "kind": kind,
            "amount": len(values) if isinstance(values, list) else values,
            "since": utc(task["Status"].get("Timestamp")),
        }
        for task in inputs.others
        if task["NodeID"] in decision.keeps and (epoch(task["Status"].get("Timestamp")) or 0.0) > since
        for kind, values in sorted(assigned(task).items())
        if kind in decision.work.amounts
    ]


def _refused_text(reason: Reason | None, state: State) -> str:
    return " (%s)" % state.result if reason and reason.code == REFUSED and state.result else ""


def _taken_text(taken: Sequence[Row]) -> str:
    if not taken:
        return ""
    texts = ["%s (%d %s on %s since %s)" % (one["service"], one["amount"], one["kind"], one["node"], one["since"]) for one in taken]
    return "; work in no queue took room there meanwhile: %s" % shortened(texts)


def _of_other(inputs: _Inputs, one: Read) -> Row:
    """Return the row of a service that waits for another reason than its turn. ``one.problem`` is that reason."""
    service = inputs.view.services[one.service_id]
    if one.state.state == HELD:
        return _row(inputs, service, state=HELD, since=utc(service.get("UpdatedAt")), reason=HELD, text=one.problem)
    found = read(service, inputs.view.queues)
    if found and found.problem:
        return _row(inputs, service, state=UNQUEUED, reason=CANNOT_QUEUE, text=found.problem)
    code = TAKEN_BACK if one.state.result.startswith(attempts.TAKEN_BACK) else NOT_SERVED
    return _row(inputs, service, reason=code, text=one.problem)


def _of_rest(inputs: _Inputs, service: Mapping[str, Any]) -> Row:
    """Return the row of a service that was admitted, is over, or is being taken back."""
    view, state = inputs.view, state_of(service)
    tasks = view.tasks.get(service["ID"], ())
    if state.state == ADMITTED:
        return _admitted(inputs, service, state, tasks)
    if state.state == WAITING:
        return _row(inputs, service, reason=TAKEN_BACK, text="it is being %s" % (state.result or attempts.TAKEN_BACK))
    task = one_shot.latest(service["Spec"]["TaskTemplate"], tasks)
    ended = task["Status"].get("Timestamp") if task and task["Status"]["State"] in ENDED else service.get("UpdatedAt")
    stops = [one for one in tasks if one["Status"]["State"] in ALLOCATED]
    text = state.result + ("; its container is about to stop" if stops else "")
    return _row(inputs, service, state=OVER, since=utc(ended), node=_hostname(inputs, state.node), text=text)


def _admitted(inputs: _Inputs, service: Mapping[str, Any], state: State, tasks: Sequence[Mapping[str, Any]]) -> Row:
    view = inputs.view
    row = _row(inputs, service, node=_hostname(inputs, state.node), since=utc(service.get("UpdatedAt")))
    row["time_limit_s"] = limit_of_admitted(service, state, view.queues.get(row["queue"]))
    progress = progress_of(service, state, tasks, view.queues.get(row["queue"]), view.unreachable, view.now)
    task = one_shot.latest(service["Spec"]["TaskTemplate"], tasks)
    changed = utc(task["Status"].get("Timestamp")) if task else None
    if progress.kind in (attempts.RUNS, attempts.TOO_LONG):
        began = epoch(task.get("CreatedAt")) if task else None  # the time limit counts from the admission
        ends = None if began is None or row["time_limit_s"] is None else stamp(began + row["time_limit_s"])
        text = "its time limit is over, so it is about to be stopped" if progress.kind == attempts.TOO_LONG else ""
        return dict(row, state=RUNNING, since=changed, ends=ends, text=text)
    if progress.kind == attempts.LOST:
        text = "%s does not answer, so its container may still run; 'gpu-swarm retry %s' runs it elsewhere" % (row["node"], row["service"])
        return dict(row, state=LOST, since=changed, text=text)
    if progress.kind in (attempts.COMPLETE, attempts.FAILED):
        return dict(row, state=OVER, since=changed, text=progress.text)
    if progress.kind == attempts.REFUSED:
        return dict(row, node=None, reason=TAKEN_BACK, text=progress.text)
    text = progress.text or ("swarm shows its task as %s" % task["Status"]["State"] if task else "swarm has not created its task yet")
    return dict(row, state=STARTING, text=text)


def _hostname(inputs: _Inputs, node: str) -> str | None:
    return inputs.hostnames.get(node, node) or None
