# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the GPUs in a child process, the only process that loads NVML. The child keeps running, because a driver without clients shuts its cards
down.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import threading
import time
from typing import Any, Callable, Iterator, Mapping, NoReturn

from .._errors import GpuSwarmError
from .._gpu.cards import card_of
from .._health import xids
from .._health.verdict import BINDING, DRIVER, HANG, LIBRARY, MISMATCH, SLOW, SLOW_S
from .._program.clock import Clock

# A driver with started cards answers at once. If the driver has answered before and now needs longer than HANG_S seconds, it hangs. If
# nvml_timeout is higher than TIMEOUT_S, this limit is higher by the same amount.
HANG_S, TIMEOUT_S = 20, 60
_CHUNK = 1 << 16
_SLICE_S = 5
_END_S = 1  # a killed child ends at once, or hangs in the kernel
_EVENTS_MS = 60000
# Requests to the child, one byte each.
_READING, _PROCESSES, _ACTIVITY = b"\n", b"p", b"a"
_DRIVER_GONE = {"error": DRIVER, "text": "the process that reads NVML ended", "gpus": []}


class Nvml:
    """NVML, as the child has it."""

    def __init__(self, settings: Mapping[str, Any], state_dir: str) -> None:
        self._path, self._state_dir = settings["nvml_path"], state_dir
        self.opened: Any = None  # the binding, once NVML is open

    def reading(self) -> dict[str, Any]:
        from .. import _libraries
        from .._gpu import binding, nvml

        names: dict[type, str] = {binding.BindingMissing: BINDING, binding.LibraryMissing: LIBRARY, binding.DriverMismatch: MISMATCH}
        try:
            if not self.opened:
                _libraries.add_to_path(None, self._state_dir)
                self.opened = nvml.open_nvml(self._path)
            reading = nvml.read_all(self._path)
        except GpuSwarmError as problem:
            return {"error": names.get(type(problem), DRIVER), "text": problem.message, "gpus": []}
        except Exception as problem:
            return {"error": DRIVER, "text": "%s: %s" % (type(problem).__name__, problem), "gpus": []}
        return {"error": None, "text": None, "gpus": [_brief(gpu) for gpu in reading["gpus"]]}

    def rows(self, request: bytes) -> list[dict[str, Any]] | None:
        """Return the processes, or what the cards are doing. None if NVML is not open or fails; the readings show why."""
        from .._gpu import activity, processes

        read: Callable[[Any], list[dict[str, Any]]] = activity.read_activity if request == _ACTIVITY else processes.read_processes
        try:
            return read(self.opened) if self.opened else None
        except Exception:  # the binding may raise any exception, and the service must continue
            return None


class Reader:
    """Reads the GPUs in a child process. Calls ``alive()`` while it waits for an answer. ``driver`` makes what the child reads."""

    def __init__(
        self,
        home: str,
        settings: Mapping[str, Any],
        alive: Callable[[], None],
        clock: Clock,
        driver: Callable[[Mapping[str, Any], str], Nvml] = Nvml,
    ) -> None:
        self._settings = settings
        self._driver = driver
        self._alive = alive
        self._clock = clock
        self._lock = os.path.join(home, "reader.lock")
        self._state = os.path.dirname(home)
        self._child: int | None = None
        self._pipes = (-1, -1)  # to the child and from the child
        self._hangs = False
        self._is_warm = False  # whether the child has read the cards before
        self._pending: bytes | None = None  # the request that the child has not answered yet
        self._sent = 0.0  # when that request was sent
        self._waited_s = settings["nvml_timeout"]  # how long this process waited for a hanging child (seconds)
        self._unfinished_line = b""  # the beginning of an unfinished line
        self._answers: list[dict[str, Any]] = []
        self._events: list[xids.Event] = []

    def read(self, patient: bool = False) -> dict[str, Any]:
        """Return a reading (see verdict.py). It has ``text`` if no GPU can be read. ``patient``: a driver may take any time to start its cards.

        Returns after SLOW_S seconds at the latest. If the child answers later, a later call returns the answer.
        """
        if self._child is not None and self._hangs and not self._reap():
            return self._hanging()
        if self._child is None and not self._start():
            return self._hanging()
        answer = self._query(_READING)
        if answer is not None:
            self._is_warm = self._is_warm or answer["error"] is None
            return answer
        if self._child is None:
            return dict(_DRIVER_GONE)
        limit_s = self._limit_s()
        if self._clock.monotonic() - self._sent < limit_s or (patient and not self._is_warm):
            return {"error": SLOW, "text": "NVML has given no answer for %d s" % SLOW_S, "gpus": []}
        self._waited_s = limit_s
        self._give_up()
        return {**self._hanging(), "slow": limit_s >= SLOW_S}

    def processes(self) -> list[dict[str, Any]] | None:
        """Return the result of _gpu/processes. None if no child can read or the child does not answer. The next reading reports such a problem."""
        return self._query_rows(_PROCESSES)

    def activity(self) -> list[dict[str, Any]] | None:
        """Return the result of _gpu/activity. None as for ``processes``."""
        return self._query_rows(_ACTIVITY)

    def waits(self) -> bool:
        """Return whether the child still has to answer."""
        return self._pending is not None and not self._answers and not self._hangs

    def handles(self) -> list[int]:
        """Return the file descriptor that becomes readable when NVML reports an error or the child ends."""
        return [] if self._child is None or self._hangs else [self._pipes[1]]

    def events(self) -> list[xids.Event]:
        """Return the errors that NVML has reported since the last call. Does not wait."""
        while self.handles() and select.select(self.handles(), [], [], 0)[0]:
            if not self._take():
                self._give_up()
        events, self._events = self._events, []
        return events

    def end(self) -> None:
        """End the child. Does not wait for a child that hangs in the kernel."""
        if self._child is None:
            return
        with _kept_pending(signal.SIGCHLD):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)
            deadline = self._clock.monotonic() + _END_S
            while not self._reap() and self._clock.monotonic() < deadline:
                signal.sigtimedwait({signal.SIGCHLD}, max(0.0, deadline - self._clock.monotonic()))

    # -- parts -------------------------------------------------------------------------------------------------

    def _hanging(self) -> dict[str, Any]:
        return {"error": HANG, "text": "NVML gave no answer within %d s" % self._waited_s, "gpus": []}

    def _limit_s(self) -> float:
        """Return after how many seconds without an answer NVML hangs. A driver without clients first has to start its cards. Each card takes some
        seconds."""
        limit: float = self._settings["nvml_timeout"]
        return min(limit, max(HANG_S, limit - (TIMEOUT_S - HANG_S))) if self._is_warm else limit

    def _start(self) -> bool:
        """Start a child. Return False if an earlier child has not ended yet, even a child of an earlier service."""
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        requests, to_child = os.pipe()
        from_child, answers = os.pipe()
        child = os.fork()
        if child == 0:
            _run_child(self._driver(self._settings, self._state), requests, answers, lock)
        for handle in (requests, answers, lock):
            os.close(handle)
        self._child, self._pipes, self._hangs = child, (to_child, from_child), False
        return True

    def _query_rows(self, request: bytes) -> list[dict[str, Any]] | None:
        answer = self._query(request) if self.handles() and self._pending is None else None
        return answer["rows"] if answer else None

    def _query(self, request: bytes) -> dict[str, Any] | None:
        """Return the child's answer. None if the child has ended or has not answered within SLOW_S."""
        try:
            while True:
                if self._pending is None:
                    os.write(self._pipes[0], request)
                    self._pending, self._sent = request, self._clock.monotonic()
                if not self._await_answer():
                    return None
                answer, late = self._answers.pop(0), self._clock.monotonic() - self._sent > SLOW_S and self._is_warm
                answered, self._pending = self._pending, None
                if answered == request:
                    return {**answer, "slow": True} if late else answer
        except BrokenPipeError:
            self._give_up()
            return None

    def _await_answer(self) -> bool:
        """Return whether the child answers in time. Raises BrokenPipeError if the child has ended."""
        deadline = self._sent + min(SLOW_S, self._limit_s())
        while not self._answers:
            self._alive()
            remaining_s = max(0.0, deadline - self._clock.monotonic())
            if self._clock.wait(min(_SLICE_S, remaining_s), [self._pipes[1]]):
                if not self._take():
                    raise BrokenPipeError
            elif not remaining_s:
                return False
        return True

    def _give_up(self) -> None:
        self._hangs = True  # until the child is reaped
        self.end()

    def _take(self) -> bool:
        """Read the child's answers and errors, one per line. Return False if the child has ended."""
        chunk = os.read(self._pipes[1], _CHUNK)
        *lines, self._unfinished_line = (self._unfinished_line + chunk).split(b"\n")
        for line in lines:
            message = json.loads(line.decode("utf-8"))
            if "xid" in message:
                self._events.append(xids.Event(xids.bus_address(message["pci"]), message["xid"], ""))
            else:
                self._answers.append(message)
        return bool(chunk)

    def _reap(self) -> bool:
        """Return whether the child has ended."""
        if os.waitpid(self._child, os.WNOHANG)[0] == 0:
            return False
        for handle in self._pipes:
            os.close(handle)
        self._child, self._hangs, self._unfinished_line = None, False, b""
        self._pending, self._answers, self._is_warm = None, [], False
        return True


@contextlib.contextmanager
def _kept_pending(number: int) -> Iterator[None]:
    """Block a signal, so that ``sigtimedwait`` receives it even if it arrives just before that call. Otherwise the kernel discards the signal."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_child(driver: Nvml, requests: int, answers: int, lock: int) -> NoReturn:
    """Answer requests until the service ends. The kernel releases the lock when this process ends for any reason."""
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and int(name) not in (requests, answers, lock):
                with contextlib.suppress(OSError):
                    os.close(int(name))
        write = _writer(answers)
        while True:
            request = os.read(requests, 1)
            if not request:
                break
            if request != _READING:
                write({"rows": driver.rows(request)})
                continue
            before = driver.opened
            write(driver.reading())
            if driver.opened and not before:
                threading.Thread(target=_await_errors, args=(driver.opened, write), daemon=True).start()
    finally:
        os._exit(0)


def _writer(answers: int) -> Callable[[Mapping[str, Any]], None]:
    lock = threading.Lock()

    def write(line: Mapping[str, Any]) -> None:
        with lock:
            os.write(answers, json.dumps(line).encode("utf-8") + b"\n")

    return write


def _await_errors(nvml: Any, write: Callable[[Mapping[str, Any]], None]) -> None:
    """Write each error as soon as NVML reports it. If the kernel's log can be read, it contains these errors too."""
    from .._gpu.xid_events import XidEvents

    try:
        events = XidEvents(nvml)
    except Exception:  # the driver or the binding does not support events
        return
    while len(events):
        try:
            event = events.wait(_EVENTS_MS)
        except Exception:  # a card is lost; the readings show the loss
            time.sleep(_SLICE_S)
            continue
        if event and event.xid != xids.RECOVERY_ACTION:  # a reading already shows the recovery action
            write({"pci": event.pci, "xid": event.xid})


def _brief(gpu: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "uuid": gpu["uuid"],
        "pci": gpu["pci_bus_id"],
        "model": gpu["model"],
        "state": gpu["health"]["state"],
        "reasons": gpu["health"]["reasons"],
        "action": gpu["health"]["recovery_action"],
        "mig": [device["uuid"] for device in gpu["mig_devices"]],
        "card": card_of(gpu),
    }
