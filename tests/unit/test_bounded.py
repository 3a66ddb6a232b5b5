# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import checkout
import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _bounded
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._bounded import TimedOut, in_child, run
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError

SOON_S = 0.3
LONG_S = 60


def raises(problem):
    raise problem


def there(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def alive(process):
    """Return whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


# --- calls ------------------------------------------------------------------------------------------------------------


def test_a_call_runs_in_another_process_and_returns_its_result():
    result = {"gpus": [{"index": 0, "uuid": None, "ratio": 1.5, "name": "é"}] * 5000, "driver_version": "580"}
    assert in_child(lambda: result, LONG_S) == result
    assert in_child(os.getpid, LONG_S) != os.getpid()


def test_an_error_keeps_its_text_and_details():
    class Missing(GpuSwarmError):
        pass

    with pytest.raises(GpuSwarmError, match="no pynvml here") as raised:
        in_child(lambda: raises(Missing("no pynvml here", missing=["nvml_binding"])), LONG_S)
    assert raised.value.details == {"missing": ["nvml_binding"]}


def test_an_internal_error_has_its_location():
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*in raises.*KeyError: 'gpus'"):
        in_child(lambda: raises(KeyError("gpus")), LONG_S)


def test_a_call_may_kill_its_process():
    with pytest.raises(RuntimeError, match="ended without a result"):
        in_child(lambda: os.kill(os.getpid(), signal.SIGSEGV), LONG_S)


def test_a_hung_call_is_given_up(monkeypatch):
    began, forked, fork = time.monotonic(), [], os.fork
    monkeypatch.setattr(_bounded.os, "fork", lambda: forked.append(fork()) or forked[-1])
    with pytest.raises(TimeoutError, match="it was killed"):
        in_child(lambda: time.sleep(LONG_S), SOON_S)
    assert time.monotonic() - began < LONG_S / 2
    assert not there(forked[0])


def test_a_call_that_ignores_signals_is_not_waited_for(monkeypatch):
    """For example, a process in uninterruptible sleep ignores signals."""
    sent, kill = [], os.kill
    monkeypatch.setattr(_bounded.os, "kill", lambda process, number: sent.append((process, number)))
    monkeypatch.setattr(_bounded, "_KILL_S", 0.05)
    with pytest.raises(TimeoutError, match=r"process \d+ hangs in the kernel, where no signal reaches it: only a reboot ends it"):
        in_child(lambda: time.sleep(LONG_S), SOON_S)
    child = sent[0][0]
    assert sent == [(child, signal.SIGKILL)]
    kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


ABANDONS = """
import fcntl, sys, time
sys.path.insert(0, sys.argv[1])
import checkout
from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _bounded
_bounded.os.kill = lambda *_: None
_bounded._KILL_S = 0
lock = open(sys.argv[2], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
try:
    _bounded.in_child(lambda: time.sleep(600), 0.2)
except TimeoutError as problem:
    print(problem, flush=True)
"""


def test_an_abandoned_call_keeps_neither_the_connection_nor_the_lock(tmp_path):
    lock = tmp_path / "lock"  # without a time-out, the output would stay open until the child has ended
    done = subprocess.run([sys.executable, "-c", ABANDONS, checkout.SUPPORT, str(lock)], capture_output=True, text=True, check=True, timeout=LONG_S)
    child = int(done.stdout.split()[1])
    assert there(child)
    subprocess.run(["flock", "--nonblock", str(lock), "true"], check=True)
    os.kill(child, signal.SIGKILL)


# --- commands -----------------------------------------------------------------------------------------------------------


def test_the_output_of_a_command_is_returned():
    assert run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == (3, "out\n", "err\n")
    assert run(["sh", "-c", r"printf '\377'"])[1] == "\N{REPLACEMENT CHARACTER}"
    assert run(["cat"]) == (0, "", "")  # empty input
    assert run(["true"], 10**9) == (0, "", "")  # 30 years
    code, out, err = run(["/nonexistent/systemctl", "show"])
    assert (code, out) == (127, "")
    assert err == "/nonexistent/systemctl: No such file or directory"


def test_a_hung_command_is_given_up_with_its_children(tmp_path):
    began, noted = time.monotonic(), tmp_path / "child"
    script = f"sleep {LONG_S} & echo $! > {noted}; wait"
    with pytest.raises(TimedOut, match=r"'sh -c .*' timed out after .* s; it was killed\. .*run this again") as raised:
        run(["sh", "-c", script], SOON_S)
    assert raised.value.details == {"hangs": "sh"}
    assert time.monotonic() - began < LONG_S / 2
    child = int(noted.read_text())
    deadline = time.monotonic() + 5
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(child)
