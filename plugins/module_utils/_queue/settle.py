# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which updates admitted work needs (pure): the work has ended, has to be stopped or taken back, or members of its gang are not admitted yet.

Each change is one versioned update of one service. A round may be killed between any two of them: the next round reads the states and goes on. The
label of each member of a gang has the whole plan, so a gang that was admitted in part is completed or taken back.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from .._errors import GpuSwarmError
from .._tasks.one_shot import forced
from .._tasks.tasks import ALLOCATED, epoch
from . import attempts
from .attempts import Progress, progress_of
from .gang_variables import variables
from .queue_state import ADMITTED, HELD, MOST_MEMBERS, OVER, ROLLED_BACK, WAITING, State, is_at_rest, replicas_of, state_of
from .queues import Queue, shown_duration
from .service_changes import started, stopped, with_state
from .waiting import GANG_STARTS_S, Work, queue_of, read, start_timeout_of

AVOIDED_S = 600  # how long waiting work avoids the nodes that refused it
_ENDED = (attempts.COMPLETE, attempts.FAILED, attempts.UNRECORDED)


class View(NamedTuple):
    """The services of queues by id, their tasks by service id, and the ids of nodes that do not answer. ``now`` is in seconds since 1970.

    ``labels`` has the labels of each node by the node's id. ``moved`` are tasks of other services that a run moved and that wait for room.
    ``has_image(node, image)`` returns whether the node with this id has pulled the image.
    """

    services: Mapping[str, Mapping[str, Any]]
    tasks: Mapping[str, Sequence[Mapping[str, Any]]]
    queues: Mapping[str, Queue]
    unreachable: frozenset[str]
    now: float
    labels: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    moved: Sequence[Work] = ()
    has_image: Callable[[str, str], bool] = lambda _node, _image: True


def unreachable_nodes(nodes: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the ids of the nodes that do not answer."""
    return frozenset(node["ID"] for node in nodes if node.get("Status", {}).get("State") != "ready")


class Change(NamedTuple):
    """One update. ``service`` is the service as it was read: its version guards the update. ``text`` says what happens, for the journal."""

    service: Mapping[str, Any]
    spec: Mapping[str, Any]
    text: str


def settle(view: View) -> list[Change]:
    """Return the changes, ordered by service and admission."""
    changes: list[Change] = []
    gangs: dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, State]] = {}
    for service_id, service in sorted(view.services.items()):
        state = state_of(service)
        if "Replicated" not in (service["Spec"].get("Mode") or {}):
            continue  # any update would run a job of swarm again
        if state.admission and service_id in dict(state.plan):  # a copy of a service may have a copy of its label
            gangs.setdefault((state.admission, state.plan), {})[service_id] = state
        else:
            changes += _of_single(view, service, state)
    for _admission_and_plan, members in sorted(gangs.items()):
        changes += _of_gang(view, members)
    return changes


def _of_single(view: View, service: Mapping[str, Any], state: State) -> Iterable[Change]:
    if state.state == HELD and not is_at_rest(service):
        yield _stop(service, state, state) if state.result == ROLLED_BACK else _labelled(service, state)
    elif state.state == WAITING and state.admission:
        yield from _let_wait_again(view, service, state)
    elif state.state == WAITING and state.avoids and view.now >= (epoch(service.get("UpdatedAt")) or 0.0) + AVOIDED_S:
        yield _labelled(service, state._replace(avoids=()))
    elif state.state == ADMITTED and replicas_of(service["Spec"]) == 1:
        progress = _progress(view, service, state)
        if progress.kind == attempts.REFUSED:
            avoids = _joined(state.avoids, [progress.node])
            yield _labelled(service, _unadmitted(state)._replace(avoids=avoids, result=progress.text))
        elif progress.kind == attempts.UNPLACED:
            yield _stop(service, state, state._replace(state=WAITING, result=progress.text))
        elif progress.kind == attempts.TOO_LONG:
            yield _stop(service, state, _over(state, progress.text))
        elif progress.kind in _ENDED:
            yield _end(service, state, progress)


def _let_wait_again(view: View, service: Mapping[str, Any], state: State) -> Iterable[Change]:
    """Yield the change that lets work wait again after it was taken back, as soon as its task has ended.

    If the task of a single service got a node before swarm stopped it, the work may have run. Then the work is over.
    """
    former, tasks = forced(service["Spec"]["TaskTemplate"]) - 1, view.tasks.get(service["ID"], ())
    if any(task["Status"]["State"] in ALLOCATED for task in tasks):
        return
    had_node = any(task.get("NodeID") and forced(task.get("Spec") or {}) == former for task in tasks)
    if had_node and not state.plan:
        yield _labelled(service, _over(state, "stopped: it got its node while it was taken back"))
    else:
        yield _labelled(service, _unadmitted(state))


# -- gangs -----------------------------------------------------------------------------------------------------------


def _of_gang(view: View, members: Mapping[str, State]) -> Iterable[Change]:
    """Yield the changes of the services that have the same admission."""
    admitted = {member: state for member, state in members.items() if state.state == ADMITTED}
    if not admitted:
        yield from _let_gang_wait_again(view, members)
        return
    progress = {member: _progress(view, view.services[member], state) for member, state in admitted.items()}
    unadmitted, gone = _not_admitted(view, members)
    why_back = _why_taken_back(members, progress)
    why_stopped = _why_stopped(view, gone, _ends(members, progress), bool(why_back)) or _why_late(view, progress, unadmitted)
    if why_stopped:
        yield from (_end_or_stop(view.services[member], state, progress[member], why_stopped) for member, state in admitted.items())
    elif why_back:
        refused = [one.node for one in progress.values() if one.kind == attempts.REFUSED]
        for member, state in admitted.items():
            after = state._replace(state=WAITING, avoids=_joined(state.avoids, refused), result=why_back)
            yield _stop(view.services[member], state, after)
    elif unadmitted:
        one, *_others = admitted.values()
        yield from _complete(view, one, unadmitted)
    else:
        yield from (_end(view.services[member], admitted[member], one) for member, one in progress.items() if one.kind in _ENDED)


def _let_gang_wait_again(view: View, members: Mapping[str, State]) -> Iterable[Change]:
    """Yield the changes that let a gang wait again after all its members were taken back. If a member ended before that, the gang is over."""
    why_stopped = _why_stopped(view, [], _ends(members, {}), True)
    for member, state in members.items():
        if state.state == WAITING:
            service = view.services[member]
            yield from [_labelled(service, _over(state, why_stopped))] if why_stopped else _let_wait_again(view, service, state)


def _not_admitted(view: View, members: Mapping[str, State]) -> tuple[list[str], list[str]]:
    """Return the planned members that wait for their part of the admission, and those that can no longer be admitted."""
    plan = next(iter(members.values())).plan
    missing = [member for member, _node in plan if member not in members]
    first = read(view.services[next(iter(members))], view.queues)
    waits = [member for member in missing if member in view.services and _waits_like(view, view.services[member], first and first.queue)]
    return waits, [member for member in missing if member not in waits]


def _waits_like(view: View, service: Mapping[str, Any], queue: str | None) -> bool:
    found = read(service, view.queues)
    return bool(found and found.queue == queue and found.work and found.work.gang and found.state.state == WAITING and not found.state.admission)


def _why_taken_back(members: Mapping[str, State], progress: Mapping[str, Progress]) -> str:
    """Return why the whole gang waits again; '' if it goes on. An earlier round may have taken back some members."""
    texts = [one.text for kind in (attempts.REFUSED, attempts.UNPLACED) for one in progress.values() if one.kind == kind]
    texts += [state.result or attempts.TAKEN_BACK for state in members.values() if state.state == WAITING]
    return texts[0] if texts else ""


def _ends(members: Mapping[str, State], progress: Mapping[str, Progress]) -> dict[str, str]:
    """Return how members ended, or why they have to be stopped, by service id."""
    ends = {member: state.result or OVER for member, state in members.items() if state.state == OVER}
    return {**ends, **{member: one.text for member, one in progress.items() if one.kind in (*_ENDED, attempts.TOO_LONG)}}


def _why_stopped(view: View, gone: Sequence[str], ends: Mapping[str, str], goes_back: bool) -> str:
    """Return why the whole gang is stopped; '' if it goes on."""
    if gone:
        return "stopped: %s of its gang was removed, held or changed" % _name(view, gone[0])
    bad = [member for member, text in ends.items() if goes_back or text != attempts.COMPLETE]
    return "stopped: %s of its gang ended first (%s)" % (_name(view, bad[0]), ends[bad[0]]) if bad else ""


def _why_late(view: View, progress: Mapping[str, Progress], unadmitted: Sequence[str]) -> str:
    for member, one in progress.items():
        limit = _start_timeout(view.services[member])
        late = [member] if one.kind == attempts.STARTS else unadmitted  # swarm may refuse the update of these members
        if late and one.age_s >= limit:
            return "stopped: %s of its gang did not run within %s" % (_name(view, late[0]), shown_duration(limit))
    return ""


def _start_timeout(service: Mapping[str, Any]) -> float:
    try:
        return start_timeout_of(service)
    except GpuSwarmError:  # somebody changed the label after the admission
        return GANG_STARTS_S


def _end_or_stop(service: Mapping[str, Any], state: State, progress: Progress, reason: str) -> Change:
    if progress.kind in _ENDED:
        return _end(service, state, progress)
    return _stop(service, state, _over(state, progress.text if progress.kind == attempts.TOO_LONG else reason))


def _complete(view: View, admitted: State, unadmitted: Sequence[str]) -> Iterable[Change]:
    nodes = dict(admitted.plan)
    for member in unadmitted:
        service = view.services[member]
        before = state_of(service)
        after = admitted._replace(attempt=before.attempt + 1, released=before.released, node=nodes[member], avoids=before.avoids)
        added = variables(service, admitted.plan, admitted.port, view.services, view.labels)
        yield Change(service, started(service["Spec"], before, after, added), "admitted on node %s, like the others of its gang" % after.node)


# -- parts -----------------------------------------------------------------------------------------------------------


def _progress(view: View, service: Mapping[str, Any], state: State) -> Progress:
    queue = view.queues.get(queue_of(service) or "")
    return progress_of(service, state, view.tasks.get(service["ID"], ()), queue, view.unreachable, view.now)


def _end(service: Mapping[str, Any], state: State, progress: Progress) -> Change:
    if progress.kind == attempts.UNRECORDED:
        return _labelled(service, _unadmitted(state)._replace(state=HELD, result=progress.text))
    return _labelled(service, _over(state, progress.text))


def _unadmitted(state: State) -> State:
    return state._replace(state=WAITING, admission="", limit="", plan=(), port=0)


def _over(state: State, result: str) -> State:
    return state._replace(state=OVER, result=result)


def _labelled(service: Mapping[str, Any], state: State) -> Change:
    return Change(service, with_state(service["Spec"], state), ("%s %s" % (state.state, state.result)).strip())


def _stop(service: Mapping[str, Any], before: State, after: State) -> Change:
    return Change(service, stopped(service["Spec"], before, after), "%s %s" % (after.state, after.result))


def _joined(former: Sequence[str], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*former, *more}))[:MOST_MEMBERS]


def _name(view: View, member: str) -> str:
    service = view.services.get(member)
    return str(service["Spec"]["Name"]) if service else "a member"
