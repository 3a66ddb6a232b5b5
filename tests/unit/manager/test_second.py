# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The second process of the service is restarted whenever it ends. The first process continues."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.second import RESTART_SERVICE, Second


def test_the_second_process_is_always_started_again(tmp_path, capsys):
    starts, third = tmp_path / "starts", threading.Event()

    def pause(_seconds):
        if len(starts.read_text().splitlines()) == 3:
            third.set()
            threading.Event().wait()  # wait forever, in a thread that ends with this process

    script = f"import os, signal; open({str(starts)!r}, 'a').write('one\\n'); os.kill(os.getpid(), signal.SIGKILL)"
    Second([sys.executable, "-I", "-S", "-c", script], pause).start()
    assert third.wait(60)
    assert capsys.readouterr().out.count("ended (-9) and is started again") == 3


def test_a_process_that_cannot_be_started_is_logged(capsys):
    Second(["/none"]).run_once()
    assert "cannot be started" in capsys.readouterr().out


def test_the_second_process_does_not_notify_systemd(monkeypatch, tmp_path):
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/x")
    monkeypatch.setenv("WATCHDOG_USEC", "1")
    Second([sys.executable, "-I", "-c", f"import os; open({str(tmp_path / 'seen')!r}, 'w').write(repr([*os.environ]))"]).run_once()
    seen = (tmp_path / "seen").read_text()
    assert "NOTIFY_SOCKET" not in seen
    assert "WATCHDOG" not in seen


@pytest.mark.parametrize(("status", "ended"), [(RESTART_SERVICE, True), (1, False), (0, False)])
def test_the_whole_service_restarts_only_if_the_second_process_requests_it(status, ended, monkeypatch):
    ends = []
    monkeypatch.setattr(os, "kill", lambda pid, number: ends.append((pid, number)))
    Second([sys.executable, "-I", "-c", f"raise SystemExit({status})"]).run_once()
    assert ends == ([(os.getpid(), signal.SIGTERM)] if ended else [])
