# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs functions (in a child process) and commands with a time limit.

A process that hangs in the kernel, for example in a driver that waits for its card, does not react to any signal, not even SIGKILL. This code kills
such a process and does not wait for its end. Before that, the process has closed all files that others wait for, such as the output of the module and
the lock of the node.

Private to this collection; it may change without notice.
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

# These commands take a few seconds even on a busy machine. systemd's own limit is 90 s.
COMMAND_LIMIT_S = 120
_CHUNK = 1 << 16
_KILL_S, _POLL_S = 2, 0.01
# Python refuses to wait for more than 24 days.
_LONGEST_S = 1_000_000


class TimedOut(GpuSwarmError):
    """A command or call did not end in time. ``hangs`` is its name."""

    def __init__(self, message: str, hangs: str) -> None:
        super().__init__(message, hangs=hangs)


# -- calls -----------------------------------------------------------------------------------------------------------


def in_child(work: Callable[[], Any], limit_s: float) -> Any:
    """Run ``work()`` in a forked child and return its result, which must be plain data.

    A GpuSwarmError of the child is raised here with the same message and details. Raises TimeoutError after ``limit_s`` seconds; its message says
    whether the child was killed.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _run_in_child_and_exit(work, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb", buffering=0) as stream:
        answer = _read_to_end(stream, limit_s)
    if answer is None:
        raise TimeoutError(_describe_end(child, _kill(child)))
    os.waitpid(child, os.WNOHANG)  # the child is about to end. If it still hangs, do not wait for it
    return _decode_answer(answer)


def _describe_end(pid: int, ended: bool) -> str:
    if ended:
        return "it was killed"
    return "process %d hangs in the kernel, where no signal reaches it: only a reboot ends it" % pid


def _run_in_child_and_exit(work: Callable[[], Any], write_end: int) -> NoReturn:
    """Run ``work`` and end the process. Never return, so that the child runs no exit handler and no further code of the parent."""
    status = 1
    try:
        _close_inherited_files(write_end)
        with os.fdopen(write_end, "wb") as stream:
            stream.write(json.dumps(_outcome_of(work)).encode("utf-8"))
        status = 0
    finally:
        os._exit(status)


def _close_inherited_files(except_for: int) -> None:
    """Close all inherited files except one.

    Otherwise a child that hangs would keep the node locked and the connection to this host open.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != except_for:
            with contextlib.suppress(OSError):  # the list also contains the file that listdir() opened, which is closed by now
                os.close(int(name))


def _outcome_of(work: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": work()}
    except GpuSwarmError as problem:
        return {"message": problem.message, "details": problem.details}
    except Exception:
        return {"bug": traceback.format_exc()}


def _read_to_end(stream: IO[bytes], limit_s: float) -> bytes | None:
    """Read until the other side closes the pipe. Return None after the time limit."""
    parts: list[bytes] = []
    deadline = time.monotonic() + limit_s
    while select.select([stream], [], [], max(0, deadline - time.monotonic()))[0]:
        part = stream.read(_CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return None


def _kill(child: int) -> bool:
    """Kill the child and wait for a moment. Return whether it has ended."""
    deadline = time.monotonic() + _KILL_S
    os.kill(child, signal.SIGKILL)
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _decode_answer(answer: bytes) -> Any:
    if not answer:
        raise RuntimeError("a child process ended without a result")
    outcome = json.loads(answer.decode("utf-8"))
    if "result" in outcome:
        return outcome["result"]
    if "bug" in outcome:
        raise RuntimeError(outcome["bug"])
    raise GpuSwarmError(outcome["message"], **outcome["details"])


# -- commands --------------------------------------------------------------------------------------------------------


def run(argv: Sequence[str], limit_s: float = COMMAND_LIMIT_S) -> tuple[int, str, str]:
    """Return ``(rc, stdout, stderr)`` of a command. If the command is missing, rc is 127 and no error is raised."""
    try:
        # AnsibleModule's run_command has no time limit.
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
            "'%s' timed out after %d s; %s. Check 'journalctl --dmesg' for a disk or a driver that does not answer, "
            "and run this again." % (" ".join(argv[:3]), limit_s, _describe_end(process.pid, _stop(process))),
            hangs=os.path.basename(argv[0]),
        ) from None
    return process.returncode, out, err


def _stop(process: subprocess.Popen[str]) -> bool:
    """Kill the command and its children. Return whether the command has ended."""
    os.killpg(process.pid, signal.SIGKILL)
    process.stdout.close()
    process.stderr.close()
    try:
        process.wait(_KILL_S)
    except subprocess.TimeoutExpired:
        return False
    return True
