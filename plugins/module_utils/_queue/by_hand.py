# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes queued work when a person asks for it (pure): retries, releases or cancels the work. All members of a gang change together.

Each function returns the updates, as a round does. If somebody else changed a service meanwhile, its update is refused: read the services again, and
call the function again. It then returns the updates that are still missing.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from .._errors import GpuSwarmError
from .._tasks.tasks import ALLOCATED, WANTED
from . import attempts
from .attempts import progress_of
from .queue_state import ADMITTED, HELD, OVER, WAITING, State, released, replicas_of, state_of, tried_again
from .service_changes import stopped, with_state
from .settle import Change, View
from .waiting import STACK, Gang, gang_of, owner_of, queue_of, read, shown

_ENDED = (attempts.COMPLETE, attempts.FAILED, attempts.UNRECORDED)
NOTHING = "Nothing was changed."
# The states of admitted work in these functions, besides OVER and WAITING.
_LOST, _RUNS = "lost", "runs"


class Cancelled(NamedTuple):
    """First write ``changes``. Then remove the services with the ids in ``removed``. Their work never ran, or swarm no longer has a record of it."""

    changes: list[Change]
    removed: list[str]


def retry(view: View, service_id: str) -> list[Change]:
    """Return the updates that let work run again after its attempt ended, was refused, or is lost. Swarm keeps the log.

    Raises GpuSwarmError if the work is held, cannot be queued, still runs, or waits already.
    """
    members = _members(view, service_id)
    name, states = _name(members[0]), {service["ID"]: _state(view, service) for service in members}
    for service in members:
        if states[service["ID"]] == HELD:
            held = "%s is held: %s. Let it run with 'gpu-swarm release %s'. %s"
            raise GpuSwarmError(held % (_name(service), state_of(service).result or "somebody held it", _name(service), NOTHING))
        _refuse_problem(view, service)
    if _RUNS in states.values() and _LOST not in states.values():
        raise GpuSwarmError("%s has not ended. Wait for its end, or first stop it with 'gpu-swarm cancel %s'. %s" % (name, name, NOTHING))
    changes = [change for service in members for change in _tried_again(service, states[service["ID"]])]
    if not changes:
        raise GpuSwarmError("%s waits already. 'gpu-swarm queue %s' says why. %s" % (name, name, NOTHING))
    return changes


def release(view: View, service_id: str) -> list[Change]:
    """Return the updates that let held work run. Members of its gang whose attempt ended run again too.

    Raises GpuSwarmError if no member is held, or if a task of a member has not ended.
    """
    members = _members(view, service_id)
    name, states = _name(members[0]), {service["ID"]: _state(view, service) for service in members}
    if HELD not in states.values():
        remedy = {OVER: "is over; 'gpu-swarm retry %s' runs it again", WAITING: "waits already; 'gpu-swarm queue %s' says why"}
        text = remedy.get(states[members[0]["ID"]], "was started; 'gpu-swarm queue %s' shows it") % name
        raise GpuSwarmError("%s is not held: it %s. %s" % (name, text, NOTHING))
    for service in members:
        if states[service["ID"]] != WAITING and _has_container(view, service):
            words = "A task of %s has not ended. Wait for its end, or first stop it with 'gpu-swarm cancel %s'. %s"
            raise GpuSwarmError(words % (_name(service), _name(service), NOTHING))
    return [change for service in members for change in _released(service, states[service["ID"]])]


def cancel(view: View, service_id: str, who: str) -> Cancelled:
    """Return how to cancel work. Work that was started is stopped and keeps its record and its log. Work that never ran is removed.

    ``who`` is the person. Raises GpuSwarmError if the work is over, or was started outside of the queue.
    """
    members = _members(view, service_id, complete=False)
    states = {service["ID"]: _state(view, service) for service in members}
    if all(state == OVER for state in states.values()):
        name, result = _name(members[0]), state_of(members[0]).result
        words = "%s is over already%s. 'docker service rm %s' removes it with its log. %s"
        raise GpuSwarmError(words % (name, result and " (%s)" % result, name, NOTHING))
    has_begun = any(replicas_of(service["Spec"]) for service in members)
    changes, removed = [], []
    for service in members:
        _refuse_foreign(view, service)
        state, result = state_of(service), "cancelled by %s" % who
        if states[service["ID"]] == OVER:
            continue
        if not replicas_of(service["Spec"]):
            changes.append(_labelled(service, state._replace(state=HELD, keeps=(), result=result)))
            removed += [] if has_begun else [service["ID"]]
            continue
        over = state._replace(state=OVER, attempt=max(state.attempt, 1), keeps=(), result=result)
        if states[service["ID"]] in (_RUNS, _LOST) or _has_container(view, service):
            changes.append(Change(service, stopped(service["Spec"], state, over), result))
        else:
            changes.append(_labelled(service, over))
    return Cancelled(changes, removed)


# -- one member ------------------------------------------------------------------------------------------------------


def _state(view: View, service: Mapping[str, Any]) -> str:
    """Return the state in the label. For admitted work, return _RUNS, _LOST, OVER, or WAITING if a guard refused the task."""
    state = state_of(service)
    if state.state != ADMITTED:
        return state.state
    queue = view.queues.get(queue_of(service) or "")
    kind = progress_of(service, state, view.tasks.get(service["ID"], ()), queue, view.unreachable, view.now).kind
    return OVER if kind in _ENDED else _LOST if kind == attempts.LOST else WAITING if kind == attempts.REFUSED else _RUNS


def _tried_again(service: Mapping[str, Any], now: str) -> Sequence[Change]:
    state = state_of(service)
    after = tried_again(state)
    if now in (_RUNS, _LOST):
        return [Change(service, stopped(service["Spec"], state, after), "it is tried again")]
    is_new = now == WAITING and not state.result and not state.avoids
    return [] if is_new or (state.admission and now == WAITING) else [_labelled(service, after)]


def _released(service: Mapping[str, Any], now: str) -> Sequence[Change]:
    state = state_of(service)
    if now == WAITING:
        return []
    if now == HELD and not replicas_of(service["Spec"]):
        return [_labelled(service, released(state))]
    # With 1 replica, an attempt has begun, whatever the label says.
    return [_labelled(service, tried_again(state._replace(attempt=max(state.attempt, state.released + 1))))]


def _refuse_problem(view: View, service: Mapping[str, Any]) -> None:
    found = read(service, view.queues)
    if found and found.problem:
        raise GpuSwarmError("%s cannot be queued: %s. %s" % (_name(service), found.problem, NOTHING))


def _refuse_foreign(view: View, service: Mapping[str, Any]) -> None:
    """Raise GpuSwarmError if the queue does not run this service, because it belongs to a stack or was started outside of the queue."""
    spec, state, found = service["Spec"], state_of(service), read(service, view.queues)
    waits = "Replicated" in (spec.get("Mode") or {}) and replicas_of(spec) == 0 and STACK not in (spec.get("Labels") or {})
    if found and found.problem and state.state == WAITING and state.attempt <= state.released and not waits:
        words = "The queue does not run %s: %s. If it is yours, remove it with 'docker service rm %s'. %s"
        raise GpuSwarmError(words % (_name(service), found.problem, _name(service), NOTHING))


def _has_container(view: View, service: Mapping[str, Any]) -> bool:
    """Return whether a task that swarm wants to run has a node that answers."""
    return any(
        task["Status"]["State"] in ALLOCATED and task.get("DesiredState") in WANTED and task.get("NodeID") not in view.unreachable
        for task in view.tasks.get(service["ID"], ())
    )


def _labelled(service: Mapping[str, Any], state: State) -> Change:
    return Change(service, with_state(service["Spec"], state), ("%s %s" % (state.state, state.result)).strip())


# -- gangs -----------------------------------------------------------------------------------------------------------


def _members(view: View, service_id: str, complete: bool = True) -> list[Mapping[str, Any]]:
    """Return the service, then all other members of its gang in the order of their ranks.

    Raises GpuSwarmError if members are missing and ``complete`` is true.
    """
    service = view.services[service_id]
    gang = gang_of(service)
    if gang is None:
        return [service]
    alike = {one["ID"]: (one, own) for one in view.services.values() if (own := gang_of(one)) and _is_same_gang(service, gang, one, own)}
    plan = next((plan for plan in (state_of(one).plan for one, _own in alike.values()) if service_id in dict(plan)), ())
    others = [pair for pair in alike.values() if not state_of(pair[0]).plan]  # a former gang may have had the same name
    chosen = [alike[member] for member, _node in plan if member in alike] or others
    chosen.sort(key=lambda pair: (pair[0]["ID"] != service_id, pair[1].rank, pair[0]["ID"]))
    ranks = [own.rank for _one, own in chosen]
    if len(set(ranks)) < len(ranks):
        names = ", ".join(sorted(_name(one) for one, _own in chosen))
        words = "The gang %s has a rank twice: its services are %s. Remove those that you no longer need with 'docker service rm'. %s"
        raise GpuSwarmError(words % (shown(gang.name), names, NOTHING))
    if complete and len(ranks) < gang.size:
        words = "The gang %s of %s has %d of %d members. Submit it again. %s"
        raise GpuSwarmError(words % (shown(gang.name), _name(service), len(ranks), gang.size, NOTHING))
    return [one for one, _own in chosen]


def _is_same_gang(service: Mapping[str, Any], gang: Gang, other: Mapping[str, Any], own: Gang) -> bool:
    return (owner_of(service), gang.name) == (owner_of(other), own.name)


def _name(service: Mapping[str, Any]) -> str:
    return shown(service["Spec"]["Name"])
