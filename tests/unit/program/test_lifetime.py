# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests how a service waits and how it ends on systemd's signal. The service runs in a separate process, because signals are sent to a process."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _replace
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program import lifetime

WAITS = """
import os, sys
sys.path.insert(0, sys.argv[1])
from module_utils._program import lifetime as systemd
lifetime = systemd.Lifetime()
lifetime.begin()
{then}
"""


@pytest.fixture
def start(tmp_path):
    """Start a service that runs this code when it is ready. Return the service when it has told systemd that it is ready."""
    started = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
        ready.bind(str(tmp_path / "notify"))
        ready.settimeout(20)

        def begin(then):
            command = [sys.executable, "-c", WAITS.format(then=then), os.path.dirname(os.path.dirname(os.path.dirname(lifetime.__file__)))]
            environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
            started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stdin=subprocess.PIPE))
            assert ready.recv(100) == b"READY=1"
            return started[-1]

        yield begin
    for one in started:
        one.kill()
        one.communicate()


@pytest.mark.parametrize("then", ["lifetime.wait(600)", "lifetime.wait(600); lifetime.wait(600)", "while not lifetime.over: lifetime.wait(600, [0])"])
def test_a_wait_ends_with_the_service(start, then):
    it = start(then + "\nsys.exit(0 if lifetime.over else 3)")
    it.send_signal(signal.SIGTERM)
    assert it.wait(20) == 0


def test_a_service_that_must_end_begins_no_wait(start):
    assert start("os.kill(os.getpid(), 15); lifetime.wait(600)\nsys.exit(0 if lifetime.over else 3)").wait(20) == 0


def test_readable_data_ends_a_wait_and_is_named(start):
    it = start("there, dummy = os.pipe()\nprint(lifetime.wait(600, [there, 0]), lifetime.over)")
    assert it.communicate(b"something", timeout=20)[0].split() == [b"[0]", b"False"]


def test_a_wait_without_data_ends_in_time(start):
    it = start("print(lifetime.wait(0.01), lifetime.wait(-1), lifetime.over)")
    assert it.communicate(timeout=20)[0].split() == [b"[]", b"[]", b"False"]


FORGED = "h\n<2>ALARM: node m1 (x) stays in service\r\x1b[2K\u2028"


def test_a_log_entry_is_one_line_whatever_a_host_is_called(capsys):
    lifetime.say(f"node {FORGED} is paused")
    assert capsys.readouterr().out == "node h\\n<2>ALARM: node m1 (x) stays in service\\r\\x1b[2K\\u2028 is paused\n"


def test_a_long_name_does_not_begin_another_line(capsys):
    """The journal cuts a line after 48 KiB, and the rest becomes a new line."""
    lifetime.say("node " + 49 * 1024 * "x" + "ALARM: another")
    assert len(capsys.readouterr().out) < 5000


def test_a_name_that_the_journal_refuses_ends_no_service(start):
    it = start("sys.stdout.reconfigure(encoding='ascii'); systemd.say('node \\u00e9'); os.close(1); systemd.say('node'); os._exit(0)")
    assert (it.communicate(timeout=20)[0], it.returncode) == (b"node \\xe9\n", 0)


def full(path, *_more, **_options):
    raise OSError(errno.ENOSPC, "No space left on device", path)


def test_a_status_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "status.json"
    for status in ({"a": 1}, {}):
        assert lifetime.publish(str(path), status) == ""
        assert (json.loads(path.read_text()), [one.name for one in tmp_path.iterdir()]) == (status, ["status.json"])


def test_on_a_full_disk_an_outdated_status_is_removed(tmp_path, monkeypatch):
    """Otherwise, a reader would treat the outdated status as the current state."""
    path = tmp_path / "status.json"
    path.write_text("{}")
    with monkeypatch.context() as patched:
        patched.setattr(_replace, "open", full, raising=False)
        assert lifetime.publish(str(path), {"a": 1}) == f"{path}: No space left on device"
    assert list(tmp_path.iterdir()) == []
    assert lifetime.publish(str(tmp_path / "none" / "status.json"), {}).endswith("No such file or directory")


def test_the_space_of_the_former_status_may_be_enough(tmp_path, monkeypatch):
    path = tmp_path / "status.json"
    path.write_text("{}")

    def opened(handle, mode, **more):
        if path.exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return open(handle, mode, **more)

    monkeypatch.setattr(_replace, "open", opened, raising=False)
    assert lifetime.publish(str(path), {"a": 1}) == ""
    assert (json.loads(path.read_text()), path.is_symlink()) == ({"a": 1}, False)
