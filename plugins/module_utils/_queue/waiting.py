# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a service of the API as work of a queue, or says why it cannot be queued (pure).

A queued service is one task. ``docker service create --replicas 0 --restart-condition none --label gpu-swarm.queue=research …`` submits it. A service
without the label does not belong to a queue.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple

from .._errors import GpuSwarmError
from .._ledger.owners import OWNER
from .._placement.pending import UNITS
from .._placement.scheduler import Demand, demand_of
from .._printable import printable
from .._swarm.image_name import is_image_name
from .._swarm.owned_labels import PREFIX, QUEUE
from .._tasks.tasks import epoch
from .gang_variables import network_of
from .queue_state import HELD, MOST_MEMBERS, WAITING, State, replicas_of, state_of
from .queues import MOST_PRIORITY, NO_LIMIT, Queue, duration_s, shown_duration
from .service_changes import as_submitted

PRIORITY, TIME_LIMIT, GANG = PREFIX + "priority", PREFIX + "time-limit", PREFIX + "gang"
START_TIMEOUT = PREFIX + "start-timeout"  # of a gang
GANG_STARTS_S = 1800  # the default of that label: the time within which all members must run
STACK = "com.docker.stack.namespace"
LONGEST = 100  # characters of a name or an owner in a label

_GANG = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]{0,62}):(?P<rank>[0-9]{1,3})/(?P<size>[0-9]{1,3})(?P<any> any)?")
_FRACTION = re.compile(r"\.[0-9]{1,9}")
_PRIORITY = re.compile(r"-?[0-9]{1,4}")


class Gang(NamedTuple):
    """The place of a service in its gang, from the label ``gpu-swarm.gang=NAME:RANK/SIZE``.

    All nodes of a gang have the same model of GPU, unless the label ends with `` any``. ``network`` is as in ``gang_variables.network_of``.
    """

    name: str
    rank: int
    size: int
    same_model: bool
    network: str = ""


class Work(NamedTuple):
    """A service of a queue. ``since`` is when it was submitted (seconds since 1970). ``time_limit_s`` is None without a limit.

    ``priority`` is None if the queue's own priority counts. ``keeps`` are the nodes that are kept for it. It never starts on the nodes in ``avoids``.
    """

    service_id: str
    name: str
    queue: str
    owner: str
    since: float
    demand: Demand
    priority: int | None = None
    time_limit_s: float | None = None
    gang: Gang | None = None
    keeps: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()

    @property
    def amounts(self) -> dict[str, int]:
        """Return the reserved generic resources by kind. The caps and shares of queues count these."""
        return {kind: amount for kind, amount in self.demand.wants.items() if kind not in UNITS}


class Read(NamedTuple):
    """A service of a queue as read: ``work``, or ``problem``, a sentence that says why it cannot be queued."""

    service_id: str
    name: str
    queue: str
    owner: str
    state: State
    work: Work | None = None
    problem: str = ""


def queue_of(service: Mapping[str, Any]) -> str | None:
    """Return the name of the service's queue; None for a service that does not belong to a queue."""
    name = (service["Spec"].get("Labels") or {}).get(QUEUE)
    return None if name is None else shown(name)


def owner_of(service: Mapping[str, Any]) -> str:
    """Return the owner. All services without the label share the owner ``""``."""
    return shown((service["Spec"].get("Labels") or {}).get(OWNER) or "")


def gang_of(service: Mapping[str, Any]) -> Gang | None:
    """Return the place of the service in its gang; None without a gang, or if the label is unreadable."""
    try:
        return _place((service["Spec"].get("Labels") or {}).get(GANG))
    except GpuSwarmError:
        return None


def read(service: Mapping[str, Any], queues: Mapping[str, Queue]) -> Read | None:
    """Return the service as work of its queue; None for a service that does not belong to a queue."""
    queue = queue_of(service)
    if queue is None:
        return None
    found = Read(service["ID"], shown(service["Spec"]["Name"]), queue, owner_of(service), state_of(service))
    problem = _shape_problem(service, found)
    if problem:
        return found._replace(problem=problem)
    try:
        return found._replace(work=_work(service, found, queues))
    except GpuSwarmError as contradiction:
        return found._replace(problem=contradiction.message)


def time_limit_of(service: Mapping[str, Any], queue: Queue | None) -> float | None:
    """Return the time limit in seconds; None without a limit. Raises GpuSwarmError if the label is unreadable, or exceeds the queue's limit."""
    text = (service["Spec"].get("Labels") or {}).get(TIME_LIMIT)
    most = queue.time_limit_s if queue else None
    if text is None:
        return most
    seconds = None if text == NO_LIMIT else duration_s(text)
    if seconds is None and text != NO_LIMIT:
        raise GpuSwarmError("its label %s is %r; write a duration such as 90s, 30m, 8h or 2d, or none" % (TIME_LIMIT, shown(text)))
    if queue and most is not None and (seconds is None or seconds > most):
        raise GpuSwarmError("its time limit is %s, and the queue %s allows %s" % (shown(text), queue.name, shown_duration(most)))
    return seconds


def start_timeout_of(service: Mapping[str, Any]) -> float:
    """Return after how many seconds all members of the service's gang must run. Raises GpuSwarmError if the label is unreadable."""
    text = (service["Spec"].get("Labels") or {}).get(START_TIMEOUT)
    seconds = GANG_STARTS_S if text is None else duration_s(text)
    if seconds is None:
        raise GpuSwarmError("its label %s is %r; write a duration such as 90s, 30m or 2h" % (START_TIMEOUT, shown(text)))
    return seconds


def shown(text: Any) -> str:
    return printable(str(text)[:LONGEST])[:LONGEST]  # anybody may write a label of 1 MB


def limit_text(seconds: float | None) -> str:
    """Return the time limit as text, for the state of admitted work."""
    return NO_LIMIT if seconds is None else "%d" % seconds


def limit_of_admitted(service: Mapping[str, Any], state: State, queue: Queue | None) -> float | None:
    """Return the time limit of admitted work in seconds; None without a limit. It is the limit at the time of the admission.

    If a setting changes later, running work keeps its limit. So other work that waits for its end is not delayed.
    """
    if state.limit:
        return None if state.limit == NO_LIMIT else float(state.limit)
    try:
        return time_limit_of(service, queue)
    except GpuSwarmError:  # somebody else wrote the state
        return queue.time_limit_s if queue else None


# -- services that cannot be queued ----------------------------------------------------------------------------------


def _shape_problem(service: Mapping[str, Any], found: Read) -> str:
    """Return why a service of this kind cannot be queued; '' if it can."""
    spec = service["Spec"]
    template, labels = spec["TaskTemplate"], spec.get("Labels") or {}
    if STACK in labels:
        return "it belongs to the stack %s, whose next 'docker stack deploy' would end its work; remove it there, and run a job file instead: %s" % (
            shown(labels[STACK]),
            _job_file(template, found),
        )
    if "Replicated" not in (spec.get("Mode") or {}):
        return "it is %s; a queue takes replicated services (--mode replicated --replicas 0)" % _mode(spec)
    condition = (template.get("RestartPolicy") or {}).get("Condition") or "any"
    if condition != "none":
        return "swarm would start its tasks again (restart condition %s); create it with --restart-condition none" % shown(condition)
    if replicas_of(spec) > 1:
        return "it has %d replicas; a queued service is one task, so submit an array or a gang with a job file" % replicas_of(spec)
    if replicas_of(spec) == 1 and found.state.state == WAITING and found.state.attempt <= found.state.released:
        return "it was started outside of the queue, with 1 replica; create it with --replicas 0"
    if found.state.state == HELD:
        return "it is held: %s; 'gpu-swarm release %s' lets it run" % (found.state.result or "somebody held it", found.name)
    zero = sorted(kind for kind, amount in demand_of(service).wants.items() if not amount)
    if zero:
        return "it reserves 0 of %s, which takes all of a node's; reserve a number" % ", ".join(map(shown, zero))
    return ""


def _mode(spec: Mapping[str, Any]) -> str:
    return {"Global": "a global service", "GlobalJob": "a global job", "ReplicatedJob": "a replicated job"}.get(
        next(iter(spec.get("Mode") or {}), ""), "a service without a mode"
    )


def _job_file(template: Mapping[str, Any], found: Read) -> str:
    """Return the job file that runs the same image in the same queue. Commands and variables are not shown, because they may contain secrets."""
    amounts = [(kind, amount) for kind, amount in demand_of({"ID": "", "Spec": {"TaskTemplate": template}}).wants.items() if kind not in UNITS]
    image = str((template.get("ContainerSpec") or {}).get("Image") or "")
    fields = [("name", found.name), ("image", shown(image.partition("@")[0]) if is_image_name(image) else "my/image")]
    fields += [item for kind, amount in amounts[:1] for item in (("kind", shown(kind)), ("gpus", str(amount)))]
    fields += [("queue", found.queue)] + ([("owner", found.owner)] if found.owner else [])
    return "{%s}" % ", ".join("%s: %s" % field for field in fields)


# -- labels ----------------------------------------------------------------------------------------------------------


def _work(service: Mapping[str, Any], found: Read, queues: Mapping[str, Queue]) -> Work:
    labels = service["Spec"].get("Labels") or {}
    return Work(
        found.service_id,
        found.name,
        found.queue,
        found.owner,
        _created(service.get("CreatedAt")),
        demand_of(as_submitted(service, found.state)),
        _priority(labels.get(PRIORITY)),
        time_limit_of(service, queues.get(found.queue)),
        _gang(service, labels.get(GANG)),
        found.state.keeps,
        found.state.avoids,
    )


def _created(stamp: str | None) -> float:
    """Return when the service was created, with fractions of a second. These keep the entries of an array in order."""
    fraction = _FRACTION.search(stamp or "")
    return (epoch(stamp) or 0.0) + (float(fraction.group()) if fraction else 0.0)


def _priority(text: str | None) -> int | None:
    if text is None:
        return None
    if not _PRIORITY.fullmatch(text) or abs(int(text)) > MOST_PRIORITY:
        raise GpuSwarmError("its label %s is %r; write a whole number from -%d to %d" % (PRIORITY, shown(text), MOST_PRIORITY, MOST_PRIORITY))
    return int(text)


def _gang(service: Mapping[str, Any], text: str | None) -> Gang | None:
    gang = _place(text)
    if gang is None:
        return None
    start_timeout_of(service)
    return gang._replace(network=network_of(service))


def _place(text: str | None) -> Gang | None:
    if text is None:
        return None
    match = _GANG.fullmatch(text)
    if not match:
        raise GpuSwarmError("its label %s is %r; write NAME:RANK/SIZE, such as train:0/2" % (GANG, shown(text)))
    gang = Gang(match.group("name"), int(match.group("rank")), int(match.group("size")), not match.group("any"))
    if not 2 <= gang.size <= MOST_MEMBERS or gang.rank >= gang.size:
        text = "its label %s says rank %d of %d; a gang has 2 to %d members, and their ranks begin with 0"
        raise GpuSwarmError(text % (GANG, gang.rank, gang.size, MOST_MEMBERS))
    return gang
