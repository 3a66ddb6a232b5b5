# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one process that loads NVML: it lives long, since a driver without clients shuts its cards down, and is given up where it hangs.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import time
from typing import Any, Callable, Mapping, NoReturn

from .._errors import GpuSwarmError
from .._health.verdict import BINDING, DRIVER, HANG, LIBRARY, MISMATCH

_CHUNK = 1 << 16
_SLICE_S = 5
_DRIVER_GONE = {"error": DRIVER, "text": "the process that reads NVML ended", "gpus": []}


class Reader:
    """Reads the GPUs in a child. ``alive()`` is called while it waits."""

    def __init__(self, home: str, settings: Mapping[str, Any], alive: Callable[[], None]) -> None:
        self._settings = settings
        self._alive = alive
        self._lock = os.path.join(home, "reader.lock")
        self._state = os.path.dirname(home)
        self._child: int | None = None
        self._pipes = (-1, -1)  # to the child, and from it
        self._hangs = False

    def read(self) -> dict[str, Any]:
        """A reading, see verdict.py, with ``text`` where something is wrong with all."""
        if self._child is not None and self._hangs and not self._reap():
            return self._hanging()
        if self._child is None and not self._start():
            return self._hanging()
        try:
            os.write(self._pipes[0], b"\n")
            answer = self._answer()
        except BrokenPipeError:
            answer = b""
        if answer is None:
            self._hangs = True
            self.end()
            return self._hanging()
        if not answer:
            self.end()
            return dict(_DRIVER_GONE)
        return json.loads(answer.decode("utf-8"))

    def end(self) -> None:
        """Ends the child; one that hangs in the kernel is not waited for."""
        if self._child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
        deadline = time.monotonic() + 1
        while not self._reap() and time.monotonic() < deadline:
            time.sleep(0.01)

    # -- parts -------------------------------------------------------------------------------------------------

    def _hanging(self) -> dict[str, Any]:
        text = "NVML gave no answer within %d s" % self._settings["nvml_timeout"]
        return {"error": HANG, "text": text, "gpus": []}

    def _start(self) -> bool:
        """Whether there is a child now: none is started while an earlier one, of an earlier service even, has not ended."""
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        there, to_child = os.pipe()
        from_child, here = os.pipe()
        child = os.fork()
        if child == 0:
            _be_child(self._settings, self._state, there, here, lock)
        for handle in (there, here, lock):
            os.close(handle)
        self._child, self._pipes, self._hangs = child, (to_child, from_child), False
        return True

    def _answer(self) -> bytes | None:
        """A line; b"" where the child has ended, None where it does not answer in time."""
        found, deadline = b"", time.monotonic() + self._settings["nvml_timeout"]
        while time.monotonic() < deadline:
            self._alive()
            left = min(_SLICE_S, max(0.0, deadline - time.monotonic()))
            if select.select([self._pipes[1]], [], [], left)[0]:
                part = os.read(self._pipes[1], _CHUNK)
                found += part
                if not part or found.endswith(b"\n"):
                    return found if part else b""
        return None

    def _reap(self) -> bool:
        """Whether the child is gone."""
        if os.waitpid(self._child, os.WNOHANG)[0] == 0:
            return False
        for handle in self._pipes:
            os.close(handle)
        self._child, self._hangs = None, False
        return True


def _be_child(settings: Mapping[str, Any], state_dir: str, questions: int, answers: int, lock: int) -> NoReturn:
    """Answers each line with a reading until the service is gone. The lock ends with this process, however that is."""
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and int(name) not in (questions, answers, lock):
                with contextlib.suppress(OSError):
                    os.close(int(name))
        held = False
        while os.read(questions, 1):
            reading, held = _reading(settings, state_dir, held)
            os.write(answers, json.dumps(reading).encode("utf-8") + b"\n")
    finally:
        os._exit(0)


def _reading(settings: Mapping[str, Any], state_dir: str, held: bool) -> tuple[dict[str, Any], bool]:
    """What NVML says, and whether it is held open by now."""
    from .. import _libraries
    from .._gpu import binding, nvml

    words: dict[type, str] = {binding.BindingMissing: BINDING, binding.LibraryMissing: LIBRARY, binding.DriverMismatch: MISMATCH}
    try:
        if not held:
            _libraries.use(None, state_dir)
            nvml.hold(settings["nvml_path"])
            held = True
        found = nvml.read_all(settings["nvml_path"])
    except GpuSwarmError as problem:
        return {"error": words.get(type(problem), DRIVER), "text": problem.message, "gpus": []}, held
    except Exception as problem:
        return {"error": DRIVER, "text": "%s: %s" % (type(problem).__name__, problem), "gpus": []}, held
    return {"error": None, "text": None, "gpus": [_brief(gpu) for gpu in found["gpus"]]}, held


def _brief(gpu: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "uuid": gpu["uuid"],
        "pci": gpu["pci_bus_id"],
        "state": gpu["health"]["state"],
        "reasons": gpu["health"]["reasons"],
        "mig": [device["uuid"] for device in gpu["mig_devices"]],
    }
