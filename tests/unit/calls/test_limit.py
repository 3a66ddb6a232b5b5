# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import signal
import subprocess
from types import SimpleNamespace

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._calls.delegation import answer_of
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._calls.limit import within


def hangs():
    """Hang like a connection plugin. No exception ends this function."""
    while True:
        try:
            subprocess.run(["sleep", "60"], check=True)
        except Exception:
            continue


def test_a_host_that_hangs_counts_as_unreachable():
    answer = answer_of(hangs, "m1", 0.2)
    assert answer["failed"]
    assert answer["msg"].startswith("m1 gave no answer within 0 s: the machine or the connection to it hangs.")


def test_no_temporary_files_are_removed_over_a_hung_connection():
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/tmp/there"))
    answer_of(hangs, "m1", 0.2, connection)
    assert connection._shell.tmpdir is None


def test_the_limit_leaves_no_alarm_behind():
    before = signal.getsignal(signal.SIGALRM)
    assert within(60, lambda: signal.getitimer(signal.ITIMER_REAL)[0]) > 50
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 / 0)
    assert (signal.getitimer(signal.ITIMER_REAL)[0], signal.getsignal(signal.SIGALRM)) == (0, before)


def test_a_task_s_own_timeout_counts():
    signal.setitimer(signal.ITIMER_REAL, 30)
    try:
        assert 20 < within(60, lambda: signal.getitimer(signal.ITIMER_REAL)[0]) <= 30
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 20
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
