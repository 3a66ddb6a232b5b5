# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Work that may never end, with a time limit: calls into a driver in a child process, commands.

Whoever hangs in the kernel (uninterruptible sleep, as in a driver that waits for its card) acts on no signal, not even SIGKILL: it is
killed and not waited for. It keeps nothing open that others wait for: no output of the module, no lock of the node.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
import traceback
from typing import IO, Any, Callable, NoReturn, Sequence

from ._errors import GpuSwarmError

# What a command here does takes seconds at most, also on a machine with much to do; systemd's own limit is 90.
COMMAND_LIMIT_S = 120
_CHUNK = 1 << 16
_KILL_S, _POLL_S = 2, 0.01
# Python refuses to wait for more than 24 days.
_LONGEST_S = 1_000_000


class TimedOut(GpuSwarmError):
    """Something did not end in time. Its ``hangs`` says what."""

    def __init__(self, message: str, hangs: str) -> None:
        super().__init__(message, hangs=hangs)


# -- calls -----------------------------------------------------------------------------------------------------------


def in_child(work: Callable[[], Any], limit_s: float) -> Any:
    """What ``work()`` returns, plain data, done in a child of this process that loads nothing anew.

    A GpuSwarmError comes out as one with the same message and details. Raises TimeoutError where it takes longer; its message says
    what became of the child.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _be_child(work, writer)
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as stream:
        answer = _read(stream, limit_s)
    if answer is None:
        raise TimeoutError(_fate(child, _end(child)))
    os.waitpid(child, os.WNOHANG)  # it is about to end, or hangs even over that: not waited for
    return _taken(answer)


def _fate(process: int, ended: bool) -> str:
    if ended:
        return "it was killed"
    return "process %d hangs in the kernel, where no signal reaches it: only a reboot ends it" % process


def _be_child(work: Callable[[], Any], writer: int) -> NoReturn:
    """Never returns: no handler of the parent's, at exit or above on the stack, is to run here too."""
    status = 1
    try:
        _close_inherited(writer)
        with os.fdopen(writer, "wb") as stream:
            stream.write(json.dumps(_outcome(work)).encode("utf-8"))
        status = 0
    finally:
        os._exit(status)


def _close_inherited(kept: int) -> None:
    """Otherwise the connection to this host would stay open as long as this process lives, and the node locked."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != kept:
            with contextlib.suppress(OSError):  # the one with which this list was read is gone
                os.close(int(name))


def _outcome(work: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": work()}
    except GpuSwarmError as problem:
        return {"message": problem.message, "details": problem.details}
    except Exception:
        return {"bug": traceback.format_exc()}


def _read(stream: IO[bytes], limit_s: float) -> bytes | None:
    """All that comes until the other side closes; None where that takes too long."""
    parts: list[bytes] = []
    deadline = time.monotonic() + limit_s
    while select.select([stream], [], [], max(0, deadline - time.monotonic()))[0]:
        part = stream.read(_CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return None


def _end(child: int) -> bool:
    """Kills it; whether it is gone. It is not waited for longer than for a moment."""
    deadline = time.monotonic() + _KILL_S
    os.kill(child, signal.SIGKILL)
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _taken(answer: bytes) -> Any:
    if not answer:
        raise RuntimeError("a process that read for this one ended without a word")
    outcome = json.loads(answer.decode("utf-8"))
    if "result" in outcome:
        return outcome["result"]
    if "bug" in outcome:
        raise RuntimeError(outcome["bug"])
    raise GpuSwarmError(outcome["message"], **outcome["details"])


# -- commands --------------------------------------------------------------------------------------------------------


def run(argv: Sequence[str], limit_s: float = COMMAND_LIMIT_S) -> tuple[int, str, str]:
    """``(rc, stdout, stderr)`` of a command; one that is not there, as in a container without systemd, is no end."""
    try:
        # AnsibleModule's run_command has no limit of time.
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
            start_new_session=True,
        )  # fmt: skip
    except OSError as problem:
        return 127, "", "%s: %s" % (argv[0], problem.strerror)
    try:
        out, err = process.communicate(timeout=min(limit_s, _LONGEST_S))
    except subprocess.TimeoutExpired:
        raise TimedOut(
            "'%s' timed out after %d s; %s. Check 'journalctl --dmesg' for what it waits for, such as a disk or a "
            "driver that does not answer, and run this again." % (" ".join(argv[:3]), limit_s, _fate(process.pid, _stop(process))),
            hangs=os.path.basename(argv[0]),
        ) from None
    return process.returncode, out, err


def _stop(process: subprocess.Popen[str]) -> bool:
    """Whether it is gone, and what it had started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.stdout.close()
    process.stderr.close()
    try:
        process.wait(_KILL_S)
    except subprocess.TimeoutExpired:
        return False
    return True
