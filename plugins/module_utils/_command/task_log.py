# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shows the log of queued work, and follows the work from its place in the queue until its end.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from typing import Any, Callable, Iterable, Mapping

from .._errors import GpuSwarmError
from .._printable import printable
from .._queue.queue_words import HELD, OVER, RUNNING, UNQUEUED, WAITING
from .._queue.settle import unreachable_nodes
from .._swarm import log_stream
from .._swarm.manager import Manager, NotFound, Refused, SwarmError
from .._tasks import one_shot
from .._tasks.tasks import ENDED, WANTED
from .._view.times import duration
from . import screen
from .command_answer import DONE, UNREADABLE
from .queued_work import read_queues

POLL_S, LONGEST_POLL_S = 2.0, 60.0
GIVES_UP_S = 600.0  # after this time without an answer of the manager
SHARE = 0.05  # at most this share of the time is spent on reading the queues


def show(manager: Manager, service: Mapping[str, Any]) -> int:
    """Print the log of the last task that ran, or why it is empty. Raises GpuSwarmError if no task ran."""
    task, name, logs = _last_with_container(manager, service), printable(service["Spec"]["Name"]), _Logs()
    if task is None:
        raise GpuSwarmError("%s has no log: it has not run, or swarm has dropped its record. 'gpu-swarm queue %s' shows its state." % (name, name))
    _write_rest(manager, task["ID"], _is_framed(service), logs)
    if logs.is_empty:
        error = printable(" ".join((task["Status"].get("Err") or "").split()))
        sys.stderr.write("gpu-swarm: %s has written nothing%s.\n" % (name, error and ": %s" % error.rstrip(".")))
    return DONE


def follow(manager: Manager, service_id: str) -> int:
    """Show the state of the work while it waits, then its log. Return the exit status of its container when the work is over.

    If the manager does not answer, try again for GIVES_UP_S seconds. For example, its dockerd may restart, or another manager becomes the leader.
    """
    status, logs = _Status(), _Logs()
    answered = time.monotonic()
    try:
        while True:
            try:
                ended = _follow_once(manager, service_id, logs, status)
                answered = time.monotonic()
            except (NotFound, Refused):
                raise
            except SwarmError as problem:
                if time.monotonic() - answered >= GIVES_UP_S:
                    raise
                status.say("%s It is asked again, and the work goes on." % problem.message)
                status.wait("no answer", POLL_S)
                continue
            if ended is not None:
                return ended
    finally:
        status.clear()


def _follow_once(manager: Manager, service_id: str, logs: _Logs, status: _Status) -> int | None:
    """Show what the work does now. Return its exit status when it is over."""
    row, took = _read_row(manager, service_id)
    if row["state"] in (HELD, UNQUEUED):
        status.say("%s: %s." % (row["service"], row["text"].rstrip(".")))
        return UNREADABLE
    if row["state"] in (RUNNING, OVER):
        service, task = manager.service(service_id), _last_try(manager.tasks_of(service_id))
        if task and _has_container(task) and task["ID"] not in logs.whole:
            if row["state"] == RUNNING:
                status.say("%s runs on %s. Its log follows." % (row["service"], row["node"]))
            has_ended = _stream(manager, task, _is_framed(service), logs, status)
            if has_ended or row["state"] == OVER:
                logs.whole.add(task["ID"])
            return None
        if row["state"] == OVER:
            status.say("%s is over: %s." % (row["service"], row["text"].rstrip(".")))
            return _exit_status(task, row)
    status.say(_state_sentence(row))
    status.wait("%s: %s" % (row["service"], row["state"]), min(LONGEST_POLL_S, max(POLL_S, took / SHARE)))
    return None


def _read_row(manager: Manager, service_id: str) -> tuple[Mapping[str, Any], float]:
    """Return the row of the work, and how long reading the queues took (seconds)."""
    began = time.monotonic()
    view, _now, _warning = read_queues(manager)
    row = next((row for row in view["work"] if row["service_id"] == service_id), None)
    if row is None:
        raise GpuSwarmError("The work was removed from the swarm.")
    return row, time.monotonic() - began


def _state_sentence(row: Mapping[str, Any]) -> str:
    if row["state"] == WAITING:
        position = " at position %d" % row["position"] if row["position"] else ""
        return "%s waits%s in the queue %s: %s." % (row["service"], position, row["queue"], row["text"].rstrip("."))
    return "%s is %s on %s%s." % (row["service"], row["state"], row["node"], row["text"] and ": %s" % row["text"].rstrip("."))


def _exit_status(task: Mapping[str, Any] | None, row: Mapping[str, Any]) -> int:
    container = (task["Status"].get("ContainerStatus") or {}) if task else {}
    code = container.get("ExitCode") if container.get("ContainerID") else None
    if isinstance(code, int) and code:
        return code & 255
    # After a semicolon, the text may mention the container of an earlier try on a lost node.
    return DONE if row["text"].partition(";")[0] == one_shot.COMPLETE else UNREADABLE


# -- the log of one task ---------------------------------------------------------------------------------------------


def _last_with_container(manager: Manager, service: Mapping[str, Any]) -> Mapping[str, Any] | None:
    tasks = [task for task in manager.tasks_of(service["ID"]) if _has_container(task)]
    return max(tasks, key=_age, default=None)


def _last_try(tasks: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the task of the last try. After a stop by the queue, swarm also has a newer task that never gets a node."""
    return max((task for task in tasks if task.get("NodeID")), key=_age, default=None)


def _age(task: Mapping[str, Any]) -> tuple[int, str]:
    return one_shot.forced(task.get("Spec") or {}), task.get("CreatedAt") or ""


def _has_container(task: Mapping[str, Any]) -> bool:
    return bool((task["Status"].get("ContainerStatus") or {}).get("ContainerID"))


def _is_framed(service: Mapping[str, Any]) -> bool:
    return not service["Spec"]["TaskTemplate"].get("ContainerSpec", {}).get("TTY")


class _Logs:
    """Remembers how much of each log this command has printed, because each stream begins at the start of the log.

    ``whole`` are the ids of the tasks whose whole log is printed.
    """

    def __init__(self) -> None:
        self.whole: set[str] = set()
        self._written: dict[tuple[str, int], int] = {}  # bytes by task and stream

    @property
    def is_empty(self) -> bool:
        return not any(self._written.values())

    def writer(self, task_id: str) -> Callable[[int, bytes], None]:
        """Return a function that prints the parts of a log from its start, but skips the bytes that are already printed."""
        left = {source: length for (task, source), length in self._written.items() if task == task_id}

        def write(source: int, data: bytes) -> None:
            skipped = min(left.get(source, 0), len(data))
            left[source] = left.get(source, 0) - skipped
            self._written[task_id, source] = self._written.get((task_id, source), 0) + len(data) - skipped
            _write(source, data[skipped:])

        return write


def _stream(manager: Manager, task: Mapping[str, Any], framed: bool, logs: _Logs, status: _Status) -> bool:
    """Print the output of the task until the task ends. Return False if its node stops answering before that.

    dockerd does not end the stream when the task ends. So this code asks for the task's state, and then reads the rest of the log. If a stream
    breaks, this code opens a new one.
    """
    parts, write = _read_ahead(manager, task["ID"], framed), logs.writer(task["ID"])
    pause, opens, checked = POLL_S, None, time.monotonic()
    while True:
        try:
            part = parts.get(timeout=POLL_S)
            if isinstance(part, str):
                if part:
                    status.say("The log cannot be followed now: %s" % part)
                opens, pause = time.monotonic() + pause, min(LONGEST_POLL_S, 2 * pause)
            else:
                write(*part)
        except queue.Empty:
            pass
        if opens is not None and time.monotonic() >= opens:
            parts, write, opens = _read_ahead(manager, task["ID"], framed), logs.writer(task["ID"]), None
        if time.monotonic() - checked < POLL_S:
            continue
        has_ended, is_lost = _end_of(manager, task)
        if has_ended or is_lost:
            break
        checked = time.monotonic()
    while not parts.empty():
        part = parts.get()
        if not isinstance(part, str):
            write(*part)
    if has_ended:
        try:
            _write_rest(manager, task["ID"], framed, logs)
        except GpuSwarmError as problem:
            status.say("The rest of the log cannot be read: %s" % problem.message)
    return has_ended


def _read_ahead(manager: Manager, task_id: str, framed: bool) -> queue.Queue[tuple[int, bytes] | str]:
    """Return a queue that a thread fills with the parts of the log. The last item is the error, or ``""``."""
    parts: queue.Queue[tuple[int, bytes] | str] = queue.Queue(1000)  # a fast writer waits for a slow terminal

    def read() -> None:
        problem = ""
        try:
            for part in log_stream.parts_of(manager.task_output(task_id, follow=True), framed):
                parts.put(part)
        except (GpuSwarmError, ValueError, OSError) as broken:
            problem = getattr(broken, "message", str(broken))
        parts.put(problem)

    threading.Thread(target=read, daemon=True).start()
    return parts


def _end_of(manager: Manager, task: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether the task has ended, and whether this is unknown because its node does not answer."""
    now = next((one for one in manager.tasks_of(task["ServiceID"]) if one["ID"] == task["ID"]), None)
    if now is None or now["Status"]["State"] in ENDED:
        return True, False
    # Swarm wants to stop each task whose node does not answer.
    return False, now.get("DesiredState") not in WANTED and now.get("NodeID") in unreachable_nodes(manager.nodes())


def _write_rest(manager: Manager, task_id: str, framed: bool, logs: _Logs) -> None:
    """Print the part of a task's output that is not printed yet."""
    write = logs.writer(task_id)
    try:
        for source, data in log_stream.parts_of(manager.task_output(task_id), framed):
            write(source, data)
    except ValueError as problem:
        raise GpuSwarmError("The log cannot be read: %s." % str(problem).rstrip(".")) from problem


def _write(source: int, data: bytes) -> None:
    stream = sys.stderr if source == log_stream.STDERR else sys.stdout
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


class _Status:
    """Writes the state of the work to stderr, each sentence once. On a terminal, a line below shows for how long the state has lasted."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._said, self._since = "", time.monotonic()

    def say(self, text: str) -> None:
        line = printable(text)
        if line != self._said:
            self._said, self._since = line, time.monotonic()
            self.clear()
            sys.stderr.write("gpu-swarm: %s\n" % line)
            sys.stderr.flush()

    def wait(self, what: str, seconds: float) -> None:
        """Wait. On a terminal, show meanwhile for how long the state ``what`` has lasted."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.clear("%s for %s" % (what, duration(time.monotonic() - self._since)))
            time.sleep(max(0.0, min(1.0, until - time.monotonic())))

    def clear(self, text: str = "") -> None:
        """Replace the line with the time."""
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K%s" % text[: screen.size()[0] - 1])
            sys.stderr.flush()
