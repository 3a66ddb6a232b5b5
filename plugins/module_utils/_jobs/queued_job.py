# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the progress of a job in a queue from its tasks and the label with its state, and lets a finished job wait again (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .._guard import refusal
from .._queue import attempts, by_hand, queue_state, queue_words
from .._queue.queue_state import State, state_of
from .._queue.queues import Queue
from .._queue.reasons import no_queue
from .._queue.settle import View
from .._queue.waiting import GANG, read
from .._swarm.owned_labels import QUEUE
from .._tasks import one_shot
from .._tasks.tasks import ALLOCATED, ENDED
from . import job_progress
from .definition import RETRIED
from .queue_options import CHANGEABLE

WAITING, HELD, CANCELLED = "waiting", "held", "cancelled"
_FAILED = "failed: "
_WITH_REASON = (queue_words.WAITING, queue_words.UNQUEUED, queue_words.LOST)  # states in the view of the queues
_RELEASE = "%s; 'gpu-swarm release %s' lets it run"


def is_queued(spec: Mapping[str, Any]) -> bool:
    return QUEUE in (spec.get("Labels") or {})


def as_unqueued(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specification of a job, as if swarm should start it at once."""
    labels = {label: value for label, value in spec["Labels"].items() if label != QUEUE}
    return dict(spec, Labels=labels, Mode={"Replicated": {"Replicas": 1}})


def record(service: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], queues: Mapping[str, Queue], prefix: str) -> dict[str, Any]:
    """Return the job's record in the form of the module's result. ``left`` says whether the job goes on by itself."""
    state, template = state_of(service), service["Spec"]["TaskTemplate"]
    task = _task_of(state, template, tasks)
    result, error = _result(service, state, task, queues)
    status, is_over = task["Status"] if task else {}, result in (*job_progress.OVER, CANCELLED)
    container = status.get("ContainerStatus") or {}
    return {
        **job_progress.record(service, [], prefix),
        "gang": (service["Spec"]["Labels"].get(GANG) or "").partition(":")[0],
        "state": result,
        "error": error,
        "exit_code": container.get("ExitCode", 0) if is_over and container.get("ContainerID") else None,
        "ended": status.get("Timestamp") if is_over else None,
        "queued": service.get("CreatedAt") if result == WAITING else None,
        "node": None if result == WAITING else (task or {}).get("NodeID") or state.node or None,
        "tries": state.attempt,
        "refused": len(state.avoids),
        "left": _is_left(state, result, tasks),
    }


def _is_left(state: State, result: str, tasks: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the job goes on: in its queue, or because its container has not stopped yet."""
    if state.state == queue_state.OVER:
        return any(task["Status"]["State"] in ALLOCATED for task in tasks)
    return state.state == queue_state.WAITING or (state.state == queue_state.ADMITTED and result != one_shot.COMPLETE)


def _task_of(state: State, template: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the task of the last attempt. After a stop by the queue, swarm has a newer task without a node."""
    if state.state == queue_state.ADMITTED:
        return one_shot.latest(template, tasks)
    return max((task for task in tasks if task["Status"]["State"] in ENDED), key=lambda task: (task.get("CreatedAt") or "", task["ID"]), default=None)


def _result(service: Mapping[str, Any], state: State, task: Mapping[str, Any] | None, queues: Mapping[str, Queue]) -> tuple[str, str]:
    """Return the state of the job, and the reason for that state or ``""``."""
    if state.state == queue_state.ADMITTED:
        result, error = one_shot.state_of_try(service["Spec"]["TaskTemplate"], task)
        return (one_shot.STARTING if result == one_shot.QUEUED else result), error
    if state.state == queue_state.OVER:
        return _result_of(state.result)
    if state.state == queue_state.HELD:
        return HELD, _RELEASE % (state.result or "somebody held it", service["Spec"]["Name"])
    former = state.result or _error_of_ended(service["Spec"]["TaskTemplate"], task)
    return WAITING, _why_it_cannot_start(service, queues) or (job_progress.LAST_TRY % former if former else "")


def _error_of_ended(template: Mapping[str, Any], task: Mapping[str, Any] | None) -> str:
    """Return why the last try failed; ``""`` if the queue stopped the try."""
    return one_shot.state_of_try(template, task)[1] if task and task["Status"]["State"] in ("failed", "rejected") else ""


def _result_of(text: str) -> tuple[str, str]:
    if text == attempts.COMPLETE:
        return one_shot.COMPLETE, ""
    if text.startswith((attempts.RAN_TOO_LONG % "", attempts.STARTED_TOO_LATE % "")):
        return one_shot.TIMED_OUT, text
    if text.startswith(CANCELLED):
        return CANCELLED, text
    error = text[len(_FAILED) :] if text.startswith(_FAILED) else text or one_shot.NO_REASON
    refused = refusal.parse_refusal(error)
    return one_shot.REFUSED_BY_GUARD if refused and refused.code in refusal.PERMANENT else one_shot.FAILED, error


def _why_it_cannot_start(service: Mapping[str, Any], queues: Mapping[str, Queue]) -> str:
    """Return why the job cannot be queued, such as an unknown queue; '' if it can."""
    found = read(service, queues)
    if found and found.queue not in queues:
        return no_queue(found.queue, queues).text
    return found.problem if found else ""


def has_reason(job: Mapping[str, Any]) -> bool:
    """Return whether the view of the queues may know why the job does not run."""
    return job["state"] in (WAITING, one_shot.STOPPING)


def with_reason(job: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with the reason of its row in the view of the queues."""
    is_last_try = job["state"] == WAITING and job["error"].startswith(job_progress.LAST_TRY % "")
    texts = [row["text"], job["error"] if is_last_try else ""] if row["state"] in _WITH_REASON and row["text"] else [job["error"]]
    return {**job, "error": "; ".join(filter(None, texts))}


def worst_of(jobs: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the record that decides whether the members of a gang wait again. For a job on one node, ``jobs`` has one record."""
    order = (HELD, CANCELLED, one_shot.REFUSED_BY_GUARD, one_shot.FAILED, one_shot.TIMED_OUT, one_shot.COMPLETE)
    worst = min(jobs, key=lambda job: order.index(job["state"]) if job["state"] in order else len(order))
    return {**worst, "retried": max(job["retried"] for job in jobs), "ended": max((job["ended"] or "" for job in jobs), default="") or None}


# -- changes -----------------------------------------------------------------------------------------------------------


def is_waiting(service: Mapping[str, Any]) -> bool:
    """Return whether the job waits and its labels may change. While the queue takes back an admission, they may not."""
    state = state_of(service)
    return state.state == queue_state.WAITING and not state.admission


def is_new(service: Mapping[str, Any]) -> bool:
    """Return whether the job waits and was never admitted."""
    return is_waiting(service) and not state_of(service).attempt


def is_partly_waiting(services: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether some members of a gang wait and the others are over.

    Then a run or a person was interrupted while the members got their new state one by one.
    """
    waiting = [is_waiting(service) for service in services]
    over = [state_of(service).state == queue_state.OVER for service in services]
    return any(waiting) and any(over) and all(one or other for one, other in zip(waiting, over))


def changed_labels(spec: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return (value now, wanted value) of each label that differs. A missing label is ``""``. ``wanted`` is the wanted specification."""
    now, then = spec.get("Labels") or {}, wanted["Labels"]
    return {label: (now.get(label, ""), then.get(label, "")) for label in CHANGEABLE if now.get(label, "") != then.get(label, "")}


def with_wanted_labels(spec: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the service's specification with the queue, priority and owner of the wanted one."""
    labels = {label: value for label, value in (spec.get("Labels") or {}).items() if label not in CHANGEABLE}
    labels.update({label: wanted["Labels"][label] for label in CHANGEABLE if label in wanted["Labels"]})
    return dict(spec, Labels=labels)


def waiting_again(spec: Mapping[str, Any], wanted: Mapping[str, Any], state_label: str, retried: int, prefix: str) -> dict[str, Any]:
    """Return the specification that lets a finished or held job wait again. ``retried`` is the new number of used retries."""
    spec = with_wanted_labels(spec, wanted)
    return dict(spec, Labels={**spec["Labels"], queue_state.LABEL: state_label, prefix + RETRIED: str(retried)})


def state_labels(view: View, service_id: str) -> dict[str, str]:
    """Return the new state labels that let a finished or held job wait again, by the service id of the member.

    ``view`` has the services of this job only. The result omits members that already wait. Raises GpuSwarmError if the job may not wait.
    """
    is_held = any(state_of(service).state == queue_state.HELD for service in view.services.values())
    changes = by_hand.release(view, service_id) if is_held else by_hand.retry(view, service_id)
    return {change.service["ID"]: change.spec["Labels"][queue_state.LABEL] for change in changes}


def has_moved(spec: Mapping[str, Any], former: Mapping[str, Any]) -> bool:
    """Return whether the job's queue or a person changed its state since ``former`` was read."""
    now, before = ((one["Labels"].get(queue_state.LABEL), queue_state.replicas_of(one)) for one in (spec, former))
    return now != before
