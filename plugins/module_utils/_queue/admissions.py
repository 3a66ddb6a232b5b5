# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which waiting work is admitted now (pure). An admission is one versioned update of a service, with its node, state and gang plan.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Collection, Iterable, Mapping, NamedTuple, Sequence

from .._placement.scheduler import SwarmState
from .._tasks.tasks import ALLOCATED, epoch, stamp
from .admit import Decision, admit
from .attempts import TAKEN_BACK
from .gang_pulls import Pull, image_of
from .gang_variables import free_port, variables
from .queue_state import ADMITTED, MOST_MEMBERS, OVER, State, state_of
from .reasons import pulls_image
from .service_changes import started, with_state
from .settle import Change, View
from .usage import Running, running_of
from .waiting import Read, Work, limit_text, read

# The first and the longest pause before work that was taken back is tried again (seconds).
PAUSE_S, LONGEST_PAUSE_S = 30, 3600
NO_HISTORY = "the swarm keeps no ended tasks, so nobody would know whether it ran; run docker swarm update --task-history-limit 5"


class Admissions(NamedTuple):
    """``decisions`` come from ``admit``. ``others`` wait because of their ``problem``. ``pulls`` must end before their gangs are admitted."""

    changes: list[Change]
    decisions: list[Decision]
    others: list[Read]
    pulls: list[Pull]


def admissions(view: View, state: SwarmState, new_id: Callable[[], str], refused: Mapping[str, str], blocker: str = "") -> Admissions:
    """Return the updates to write, and why other work waits. ``new_id`` returns a new id for an admission.

    ``refused`` has the services whose update swarm refused, with swarm's reason. ``blocker`` says why no work may be admitted; '' if work may.
    """
    waiting, others = _waiting(view, refused, blocker)
    running = list(_running(view))
    decisions = admit(state, view.queues, waiting, running, view.now, view.moved)
    units: dict[tuple[str, str, str], list[Decision]] = {}
    for decision in decisions:
        if decision.node:
            work = decision.work
            units.setdefault((work.owner, work.gang.name, "") if work.gang else ("", "", work.service_id), []).append(decision)
    hostnames = {place.node["ID"]: place.record["hostname"] for place in state.places}
    pulls: list[Pull] = []
    waits: dict[str, Decision] = {}
    for key, unit in list(units.items()):
        missing = _missing_pulls(view, unit)
        if missing:  # the gang keeps its nodes, so that no other work gets them during the pull
            pulls += missing
            reason, keeps = pulls_image([hostnames[pull.node] for pull in missing]), tuple(one.node or "" for one in unit)
            waits.update((one.work.service_id, one._replace(node=None, reason=reason, keeps=keeps)) for one in units.pop(key))
    decisions = [waits.get(decision.work.service_id, decision) for decision in decisions]
    ports = _ports(view, {one.service_id for one in running})
    changes = [change for unit in units.values() for change in _admit(view, unit, new_id(), ports, hostnames)]
    changes += [change for decision in decisions if not decision.node for change in _update_kept_nodes(view, decision, hostnames)]
    return Admissions(changes, decisions, others, pulls)


def avoids(service: Mapping[str, Any], node: str, reason: str) -> Change:
    """Return the update that lets a waiting member avoid a node for a while, because the node could not pull the member's image."""
    state = state_of(service)
    result = "refused: the node could not pull its image: %s" % reason
    after = state._replace(avoids=tuple(sorted({*state.avoids, node}))[:MOST_MEMBERS], keeps=(), result=result)
    return Change(service, with_state(service["Spec"], after), after.result)


def _missing_pulls(view: View, unit: Sequence[Decision]) -> list[Pull]:
    """Return the images that the nodes of a gang have to pull before the gang is admitted."""
    members = [(one.work.service_id, one.node or "", image_of(view.services[one.work.service_id])) for one in unit if one.work.gang]
    return [Pull(*member) for member in members if not view.has_image(*member[1:])]


def why_none(swarm: Mapping[str, Any]) -> str:
    """Return why the swarm with this specification may admit no work; '' if it may."""
    return NO_HISTORY if (swarm.get("Orchestration") or {}).get("TaskHistoryRetentionLimit") == 0 else ""


def _waiting(view: View, refused: Mapping[str, str], blocker: str) -> tuple[list[Work], list[Read]]:
    waiting: list[Read] = []
    others: list[Read] = []
    blocked: dict[tuple[str, str], str] = {}  # by owner and name of a gang
    for service_id, service in sorted(view.services.items()):
        found = read(service, view.queues)
        if found is None or found.state.state in (ADMITTED, OVER):
            continue
        problem = found.problem or blocker or refused.get(service_id, "") or _why_paused(service, found.state, view.now)
        problem = problem or _why_former_task_runs(view, service_id)
        if problem or not found.work:
            others.append(found._replace(work=None, problem=problem))
            if found.work and found.work.gang:
                blocked[found.owner, found.work.gang.name] = "%s of its gang waits: %s" % (found.name, problem)
        elif not found.state.admission:
            waiting.append(found)
    works: list[Work] = []
    for found in waiting:
        problem = blocked.get((found.owner, found.work.gang.name), "") if found.work and found.work.gang else ""
        if problem:
            others.append(found._replace(work=None, problem=problem))
        elif found.work:
            works.append(found.work)
    return works, others


def _why_paused(service: Mapping[str, Any], state: State, now: float) -> str:
    """Return why work that was taken back is not tried again yet; '' if it may be tried."""
    if not state.result.startswith(TAKEN_BACK):
        return ""
    until = (epoch(service.get("UpdatedAt")) or 0.0) + min(LONGEST_PAUSE_S, PAUSE_S * 2 ** min(state.attempt, 10))
    return "it is not tried before %s, because it was %s" % (stamp(until), state.result) if now < until else ""


def _why_former_task_runs(view: View, service_id: str) -> str:
    """Return why work waits for the end of its former task; '' if the task has ended.

    A task on a node that does not answer is ignored: a person has decided to run that work again.
    """
    tasks = view.tasks.get(service_id, ())
    stops = any(task["Status"]["State"] in ALLOCATED and task.get("NodeID") not in view.unreachable for task in tasks)
    return "the task of its last attempt has not ended" if stops else ""


def _running(view: View) -> Iterable[Running]:
    for service_id, service in sorted(view.services.items()):
        yield from running_of(service, view.tasks.get(service_id, ()), view.queues, view.now)


def _ports(view: View, running: Collection[str]) -> dict[str, set[int]]:
    """Return the ports of live gangs by the node of their rank 0. ``running`` has the ids of services that use resources."""
    ports: dict[str, set[int]] = {}
    for service_id, service in view.services.items():
        state = state_of(service)
        if state.port and state.plan and service_id in running:
            ports.setdefault(state.plan[0][1], set()).add(state.port)
    return ports


def _admit(
    view: View, unit: Sequence[Decision], admission: str, ports: dict[str, set[int]], hostnames: Mapping[str, str]
) -> Iterable[Change]:
    """Yield one update for each member of the unit, and add the port of a gang to ``ports``."""
    plan: tuple[tuple[str, str], ...] = ()
    port = 0
    if unit[0].work.gang:
        plan = tuple((one.work.service_id, one.node or "") for one in unit)
        taken = ports.setdefault(plan[0][1], set())
        port = free_port(admission, taken)
        taken.add(port)
    for one in unit:
        service = view.services[one.work.service_id]
        before = state_of(service)
        after = State(ADMITTED, before.attempt + 1, before.released, one.node or "", admission, avoids=before.avoids, plan=plan, port=port)
        after = after._replace(limit=limit_text(one.work.time_limit_s))
        added = variables(service, plan, port, view.services, view.labels) if plan else None
        yield Change(service, started(service["Spec"], before, after, added), "admitted on node %s" % hostnames[one.node or ""])


def _update_kept_nodes(view: View, decision: Decision, hostnames: Mapping[str, str]) -> Iterable[Change]:
    """Yield the update that writes which nodes are kept for the work, if that changed."""
    service = view.services[decision.work.service_id]
    state = state_of(service)
    if state.keeps != decision.keeps:
        names = ", ".join(hostnames.get(node, node) for node in decision.keeps)
        kept = "kept for it: %s" % names if names else "no node is kept for it any more"
        yield Change(service, with_state(service["Spec"], state._replace(keeps=decision.keeps)), kept)
