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
from typing import Any, Mapping

from .._errors import GpuSwarmError
from .._printable import printable
from .._queue.queue_words import HELD, OVER, RUNNING, UNQUEUED, WAITING
from .._swarm import log_stream
from .._swarm.manager import Manager, NotFound
from .._tasks import one_shot
from .._tasks.tasks import ENDED
from .._view.times import duration
from . import screen
from .command_answer import DONE, UNREADABLE
from .queued_work import read_queues

POLL_S, LONGEST_POLL_S = 2.0, 60.0
SHARE = 0.05  # of the time may be spent on reading the queues


def show(manager: Manager, service: Mapping[str, Any]) -> int:
    """Print the log of the last task that ran. Raises GpuSwarmError if no task ran."""
    task = _last_with_container(manager, service)
    if task is None:
        name = printable(service["Spec"]["Name"])
        raise GpuSwarmError("%s has no log: it has not run, or swarm has dropped its record. 'gpu-swarm queue %s' shows its state." % (name, name))
    _write_rest(manager, task["ID"], _is_framed(service), {})
    return DONE


def follow(manager: Manager, service_id: str) -> int:
    """Show where the work is while it waits, then its log, and return the exit status of its container when it is over."""
    status = _Status()
    try:
        return _follow(manager, service_id, status)
    finally:
        status.clear()


def _follow(manager: Manager, service_id: str, status: _Status) -> int:
    shown: set[str] = set()
    while True:
        row, took = _row(manager, service_id)
        if row["state"] in (HELD, UNQUEUED):
            status.say("%s: %s." % (row["service"], row["text"].rstrip(".")))
            return UNREADABLE
        service = manager.service(service_id)
        task = one_shot.latest(service["Spec"]["TaskTemplate"], manager.tasks_of(service_id)) if row["state"] != WAITING else None
        if task and task["ID"] not in shown and _has_container(task) and row["state"] in (RUNNING, OVER):
            shown.add(task["ID"])
            if row["state"] == RUNNING:
                status.say("%s runs on %s. Its log follows." % (row["service"], row["node"]))
            _stream(manager, service_id, task["ID"], _is_framed(service), status)
            continue
        if row["state"] == OVER:
            status.say("%s is over: %s." % (row["service"], row["text"].rstrip(".")))
            return _exit_status(task, row)
        status.say(_where(row))
        status.wait(row, min(LONGEST_POLL_S, max(POLL_S, took / SHARE)))


def _row(manager: Manager, service_id: str) -> tuple[Mapping[str, Any], float]:
    """Return the work, and how long it took to read it (seconds)."""
    began = time.monotonic()
    view, _now, _warning = read_queues(manager)
    row = next((row for row in view["work"] if row["service_id"] == service_id), None)
    if row is None:
        raise GpuSwarmError("The work was removed from the swarm.")
    return row, time.monotonic() - began


def _where(row: Mapping[str, Any]) -> str:
    if row["state"] == WAITING:
        position = " at position %d" % row["position"] if row["position"] else ""
        return "%s waits%s in the queue %s: %s." % (row["service"], position, row["queue"], row["text"].rstrip("."))
    return "%s is %s on %s%s." % (row["service"], row["state"], row["node"], row["text"] and ": %s" % row["text"].rstrip("."))


def _exit_status(task: Mapping[str, Any] | None, row: Mapping[str, Any]) -> int:
    container = (task["Status"].get("ContainerStatus") or {}) if task else {}
    code = container.get("ExitCode") if container.get("ContainerID") else None
    if isinstance(code, int) and code:
        return code & 255
    return DONE if row["text"] == one_shot.COMPLETE else UNREADABLE


# -- the log of one task ---------------------------------------------------------------------------------------------


def _last_with_container(manager: Manager, service: Mapping[str, Any]) -> Mapping[str, Any] | None:
    tasks = [task for task in manager.tasks_of(service["ID"]) if _has_container(task)]
    return max(tasks, key=lambda task: (one_shot.forced(task.get("Spec") or {}), task.get("CreatedAt") or ""), default=None)


def _has_container(task: Mapping[str, Any]) -> bool:
    return bool((task["Status"].get("ContainerStatus") or {}).get("ContainerID"))


def _is_framed(service: Mapping[str, Any]) -> bool:
    return not service["Spec"]["TaskTemplate"].get("ContainerSpec", {}).get("TTY")


def _stream(manager: Manager, service_id: str, task_id: str, framed: bool, status: _Status) -> None:
    """Print what the task writes until it has ended.

    dockerd does not end the stream of a task that has ended. So this code asks for the task's state, and then reads what is still missing.
    """
    parts: queue.Queue[tuple[int, bytes] | str] = queue.Queue(1000)  # a fast writer waits for a slow terminal

    def read() -> None:
        try:
            for part in log_stream.parts_of(manager.task_output(task_id, follow=True), framed):
                parts.put(part)
        except (GpuSwarmError, ValueError, OSError) as problem:
            parts.put(getattr(problem, "message", str(problem)))

    threading.Thread(target=read, daemon=True).start()
    written: dict[int, int] = {}
    checked = time.monotonic()
    while True:
        try:
            part = parts.get(timeout=POLL_S)
            if isinstance(part, str):
                status.say("The log cannot be followed: %s" % part)
            else:
                written[part[0]] = written.get(part[0], 0) + len(part[1])
                _write(*part)
        except queue.Empty:
            pass
        if time.monotonic() - checked < POLL_S:
            continue
        checked = time.monotonic()
        if _has_ended(manager, service_id, task_id):
            break
    while not parts.empty():
        part = parts.get()
        if not isinstance(part, str):
            written[part[0]] = written.get(part[0], 0) + len(part[1])
            _write(*part)
    try:
        _write_rest(manager, task_id, framed, written)
    except (GpuSwarmError, ValueError) as problem:
        status.say("The rest of the log cannot be read: %s" % getattr(problem, "message", problem))


def _has_ended(manager: Manager, service_id: str, task_id: str) -> bool:
    try:
        task = next((task for task in manager.tasks_of(service_id) if task["ID"] == task_id), None)
    except NotFound:
        return True
    return task is None or task["Status"]["State"] in ENDED


def _write_rest(manager: Manager, task_id: str, framed: bool, written: Mapping[int, int]) -> None:
    """Print the output of a task without the first ``written`` bytes of each stream."""
    left = dict(written)
    try:
        for source, data in log_stream.parts_of(manager.task_output(task_id), framed):
            skipped = min(left.get(source, 0), len(data))
            left[source] = left.get(source, 0) - skipped
            _write(source, data[skipped:])
    except ValueError as problem:
        raise GpuSwarmError("The log cannot be read: %s." % str(problem).rstrip(".")) from problem


def _write(source: int, data: bytes) -> None:
    stream = sys.stderr if source == log_stream.STDERR else sys.stdout
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


class _Status:
    """Says on stderr where the work is. A sentence is said once. On a terminal, a line below it counts the time."""

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

    def wait(self, row: Mapping[str, Any], seconds: float) -> None:
        """Wait, and show on a terminal for how long nothing has changed."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.clear("%s: %s for %s" % (row["service"], row["state"], duration(time.monotonic() - self._since)))
            time.sleep(max(0.0, min(1.0, until - time.monotonic())))

    def clear(self, text: str = "") -> None:
        """Replace the line that counts the time."""
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K%s" % text[: screen.size()[0] - 1])
            sys.stderr.flush()
