# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shows, cancels, retries and releases the work of queues, through the API of this machine's dockerd.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import pwd
import time
from typing import Any, Callable, Mapping, Sequence

from .._errors import GpuSwarmError
from .._ledger.listed import Listed
from .._printable import printable, shortened
from .._queue import by_hand
from .._queue.queue_state import state_of
from .._queue.queue_view import view_of
from .._queue.queue_words import ADMITTED, OVER, WAITING
from .._queue.queues import LABEL, from_label
from .._queue.round_stamp import TAKES_OVER_S
from .._queue.settle import Change, View, unreachable_nodes
from .._swarm.manager import Manager, NotFound, until_written
from .._swarm.owned_labels import JOB, QUEUE
from .._tasks.tasks import epoch
from .._view.fold import paragraphs
from .._view.times import duration
from .command_answer import DONE, UNREADABLE, WRONG, Answer
from .queue_text import queue_text, selected

_REMOVED = "%(service)s is removed. It never ran."
_STOPPED = "%(service)s is cancelled. Its log stays."
_LOST = "%(service)s is cancelled. Its node does not answer, so its container may run until the node is back."
_NOT_ADMITTING = "The leader's service has not started work for %s. See 'systemctl status gpu-swarm-manager' on the leader%s."


def read_queues(manager: Manager) -> tuple[dict[str, Any], float, str]:
    """Return the view of the queues, the manager's time, and a warning or ''."""
    cluster, clock = manager.cluster()
    now = epoch(clock) or time.time()
    nodes = manager.nodes()
    view = view_of(Listed(nodes, manager.tasks(), manager.services(), now), cluster["Spec"], now)
    return view, now, _why_stopped(view, cluster, nodes, now)


def _why_stopped(view: Mapping[str, Any], cluster: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], now: float) -> str:
    """Return a warning if work waits, but the admitting manager stopped writing its stamp into the swarm."""
    since = [epoch(row["since"]) or now for row in view["work"] if row["state"] == WAITING]
    idle = now - (epoch(cluster.get("UpdatedAt")) or now)
    if not since or min(idle, now - min(since)) < TAKES_OVER_S:
        return ""
    leaders = [node.get("Description", {}).get("Hostname", "") for node in nodes if (node.get("ManagerStatus") or {}).get("Leader")]
    return _NOT_ADMITTING % (duration(idle), "".join(", %s" % printable(name) for name in leaders))


def show(manager: Manager, name: str | None) -> Answer:
    view, now, warning = read_queues(manager)
    part = selected(view, name)
    if name is not None and not part["work"] and not part["queues"]:
        queues = ", ".join(queue["queue"] for queue in view["queues"])
        words = "No queue, owner, job or work of a queue is named %s. The queues are: %s."
        raise GpuSwarmError(words % (printable(name), queues) if queues else "This swarm has no queues. Set gpu_swarm_queues, and run provision.")

    def text(width: int | None) -> str:
        return "\n\n".join(filter(None, [queue_text(view, part, name, now, width), paragraphs([warning], width) if warning else ""]))

    return Answer(dict(part, warning=warning), text, WRONG if view["problem"] or warning else DONE)


# -- changes ---------------------------------------------------------------------------------------------------------


def cancel(manager: Manager, names: Sequence[str]) -> Answer:
    """Cancel all named work. If some cannot be cancelled, the others are cancelled nevertheless."""
    done: dict[str, dict[str, Any]] = {}
    problems = []
    for name in dict.fromkeys(names):
        try:
            ids = _ids(_services(manager), name)
            until_written(lambda ids=ids: _cancel(manager, ids, person(), done))  # type: ignore[misc]
        except GpuSwarmError as problem:
            problems.append(problem.message)
    rows = list(done.values())
    if rows:
        problems = [problem.replace(" " + by_hand.NOTHING, "") for problem in problems]

    def text(width: int | None) -> str:
        lines = [_REMOVED if row["removed"] else _LOST if row["lost"] else _STOPPED for row in rows]
        return paragraphs([*(line % row for line, row in zip(lines, rows)), *map(printable, problems)], width)

    return Answer({"cancelled": rows, "problems": problems}, text, UNREADABLE if problems else DONE)


def _cancel(manager: Manager, ids: Sequence[str], who: str, done: dict[str, dict[str, Any]]) -> None:
    """Cancel the services that are not yet in ``done``, and add them. Cancelling one member of a gang cancels the whole gang."""
    view = _read(manager)
    left = [one for one in ids if one not in done]
    active = [one for one in left if one in view.services and state_of(view.services[one]).state != OVER]
    for service_id in active or (left if len(ids) == 1 else left[:1]):
        if service_id in done:
            continue
        _existing(view, service_id)
        found = by_hand.cancel(view, service_id, who)
        _write(manager, found.changes)
        for removed in found.removed:
            manager.remove_service(removed)
        for service in (change.service for change in found.changes):
            row = {"service": printable(service["Spec"]["Name"]), "service_id": service["ID"], "removed": service["ID"] in found.removed}
            done[service["ID"]] = dict(row, lost=state_of(service).state == ADMITTED and state_of(service).node in view.unreachable)


def retry(manager: Manager, name: str) -> Answer:
    return _change_one(manager, name, by_hand.retry)


def release(manager: Manager, name: str) -> Answer:
    return _change_one(manager, name, by_hand.release)


def _change_one(manager: Manager, name: str, decide: Callable[[View, str], list[Change]]) -> Answer:
    (service_id,) = _ids(_services(manager), name, most=1)

    def attempt() -> list[str]:
        view = _read(manager)
        _existing(view, service_id)
        changes = decide(view, service_id)
        _write(manager, changes)
        return [printable(change.spec["Name"]) for change in changes]

    done = until_written(attempt)
    verb = "waits" if len(done) == 1 else "wait"
    sentence = "%s %s for another try. 'gpu-swarm queue %s' shows it." % (shortened(done), verb, done[0])
    return Answer({"waiting": done}, lambda width: paragraphs([sentence], width))


def _write(manager: Manager, changes: Sequence[Change]) -> None:
    for change in changes:
        manager.update_service(change.service["ID"], change.service["Version"]["Index"], change.spec)


# -- reading ---------------------------------------------------------------------------------------------------------


def find(manager: Manager, name: str) -> Mapping[str, Any]:
    """Return the one service of a queue with this name or id."""
    services = _services(manager)
    (service_id,) = _ids(services, name, most=1)
    return services[service_id]


def _services(manager: Manager) -> dict[str, Mapping[str, Any]]:
    return {service["ID"]: service for service in manager.each_service(QUEUE)}


def _ids(services: Mapping[str, Mapping[str, Any]], name: str, most: int | None = None) -> list[str]:
    """Return the ids of the services with this name or id, or of the jobs of this name."""
    found = [service_id for service_id, service in services.items() if name in (service_id, service["Spec"]["Name"])]
    jobs = [service_id for service_id, service in services.items() if (service["Spec"].get("Labels") or {}).get(JOB) == name]
    if not found and not jobs:
        raise GpuSwarmError("No work of a queue is named %s. 'gpu-swarm queue' lists it. Nothing was changed." % printable(name))
    chosen = found or jobs
    if most and len(chosen) > most:
        names = shortened(sorted(printable(services[one]["Spec"]["Name"]) for one in chosen))
        raise GpuSwarmError("The job %s has %d services: %s. Name one of them. Nothing was changed." % (printable(name), len(chosen), names))
    return chosen


def _read(manager: Manager) -> View:
    cluster, clock = manager.cluster()
    tasks: dict[str, list[Mapping[str, Any]]] = {}
    for task in manager.tasks_labelled(QUEUE):
        tasks.setdefault(task.get("ServiceID") or "", []).append(task)
    queues = from_label((cluster["Spec"].get("Labels") or {}).get(LABEL))
    return View(_services(manager), tasks, queues, unreachable_nodes(manager.nodes()), epoch(clock) or time.time())


def _existing(view: View, service_id: str) -> Mapping[str, Any]:
    if service_id not in view.services:
        raise NotFound("Somebody removed it just now. Nothing was changed.")
    return view.services[service_id]


def person() -> str:
    """Return the login name of the person. With sudo, this is the person who called sudo."""
    try:
        name = os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user of a directory service that does not answer
        name = str(os.getuid())
    return printable(name)[:100]
