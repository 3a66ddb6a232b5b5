# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gpu-swarm on a terminal, and the command as it is installed on a manager."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from docker_daemon import Daemon
from manager_files import write_snapshot
from queue_daemon import QueueDaemon
from queue_swarm import Driver, QueueSwarm
from queued import GPU, gpu_node, queued
from swarm_api import cluster, named, node, pending, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._command import command
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program.code import Code

LONGEST_S = 60
RUN = "import sys; sys.path.insert(0, %r); from gpu_swarm._command import command as c; sys.exit(c.main(sys.argv[1:], c.Places(%r, %r)))"


class Terminal:
    """The command on a terminal of 24 lines of 80 characters."""

    def __init__(self, code, *argv, stderr=subprocess.PIPE):
        self.master, self._slave = pty.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self._slave)
        environ = {**os.environ, "TERM": "xterm"}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environ.pop(name, None)
        streams = {"stdin": self._slave, "stdout": self._slave, "stderr": self._slave if stderr is None else stderr}
        # A shell starts background processes with SIGINT ignored, and the tests may run in the background.
        reset = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        self.process = subprocess.Popen([sys.executable, "-I", "-c", code, *argv], env=environ, preexec_fn=reset, **streams)

    def read_until(self, text):
        """Return what was written until this text."""
        data, end = b"", time.monotonic() + LONGEST_S
        while text.encode() not in data:
            assert select.select([self.master], [], [], max(0.0, end - time.monotonic()))[0], f"{text} is missing in {data!r}"
            data += os.read(self.master, 65536)
        return data.decode("utf-8", "replace")

    def press(self, keys):
        os.write(self.master, keys.encode())

    def end(self):
        """Return the exit status and stderr, and whether the terminal is as before."""
        _out, err = self.process.communicate(timeout=LONGEST_S)
        return self.process.returncode, (err or b"").decode(), termios.tcgetattr(self._slave) == self.before

    def close(self):
        self.process.kill()
        self.process.communicate()
        os.close(self.master)
        os.close(self._slave)


@pytest.fixture
def installed(tmp_path):
    """Install the code as on a manager, and return code that starts it with the files in ``tmp_path``."""
    home, record = tmp_path / "home", tmp_path / "record"
    home.mkdir()
    record.mkdir()
    write_snapshot(record, at=time.time())
    Code("_command/command.py").make_current(str(home))
    return record, RUN % (str(home / "current"), str(record), str(tmp_path / "cards.json"))


@pytest.fixture
def terminal(installed):
    with contextlib.ExitStack() as stack:

        def start(*argv):
            made = Terminal(installed[1], *argv)
            stack.callback(made.close)
            return made

        yield start


def test_top_redraws_and_leaves_the_terminal_as_it_was(terminal, installed):
    top = terminal("top")
    assert "\x1b[?1049h" in top.read_until("by node")
    top.press("s")
    assert "\x1b[31mhost-g1" in top.read_until("by state")  # the faulty card is red
    top.press("/bob")
    top.read_until("filter: bob_")
    top.press("\r")
    write_snapshot(installed[0], at=time.time(), manager="m9")
    assert "host-g1" not in top.read_until("by m9").partition("by m9")[2]
    top.press("q")
    assert top.read_until("\x1b[?1049l").endswith("\x1b[?25h\x1b[?1049l")
    assert top.end() == (0, "", True)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_the_terminal_as_it_was(terminal, number, status):
    top = terminal("top")
    top.read_until("by node")
    top.process.send_signal(number)
    top.read_until("\x1b[?1049l")
    assert top.end() == (status, "", True)


def test_top_ends_with_a_message_if_the_record_is_removed(terminal, installed):
    top = terminal("top")
    top.read_until("by node")
    (installed[0] / "snapshot.json").unlink()
    top.read_until("\x1b[?1049l")
    status, err, is_restored = top.end()
    assert (status, is_restored) == (1, True)
    assert "snapshot.json does not exist" in err


def test_status_has_colours_and_the_width_of_the_terminal(terminal):
    status = terminal("status")
    lines = status.read_until("Read ").replace("\r", "").split("\n")
    assert any(line.startswith("\x1b[31m") for line in lines)
    assert max(len(line) for line in lines if "\x1b" not in line) <= 80


def test_work_is_followed_on_a_terminal_and_ctrl_c_leaves_it(installed, tmp_path):
    swarm = QueueSwarm([queued("first", {GPU: 8})], nodes=[gpu_node("n1")])
    run, daemon = Driver(swarm), QueueDaemon(str(tmp_path / "docker.sock"), swarm)
    run.rounds(2)
    host = "'unix://%s'" % (tmp_path / "docker.sock")
    code = installed[1].replace("))", ", %s))" % host)
    words = ("run", "--queue", "research", "--gpus", "8", "--name", "mine", "--follow", "my/image")
    followed = Terminal(code, *words, stderr=None)
    try:
        shown = followed.read_until("mine: waiting for 2 s")
        assert "gpu-swarm: mine waits" in shown
        assert shown.count("\r\x1b[K") >= 2  # the same line counts the time
        followed.process.send_signal(signal.SIGINT)
        shown = followed.read_until("cancels it.")
        assert "\r\ngpu-swarm: The work goes on. 'gpu-swarm queue mine' shows it" in shown
        assert followed.end() == (130, "", True)
        assert "idmine" in swarm.services_now
    finally:
        followed.close()
        daemon.close()


# -- why -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def why(tmp_path, capsys):
    """Return a function that calls 'gpu-swarm why' on a manager where 'train' is pending. Its options replace the manager's answers by path."""
    nodes = [node("g1", resources=named("GPU-1"))]
    tasks = [task("t1", "g1", named("GPU-1")), pending("t2", {"NVIDIA-GPU": 1}, service="s2")]
    services = [service("s1", "chat"), service("s2", "train\x1b[2K", reserves={"NVIDIA-GPU": 1})]
    swarm = {"LocalNodeState": "active", "ControlAvailable": True, "NodeID": "m1", "Cluster": cluster()}
    answers = {"/info": {"Swarm": swarm, "SystemTime": "2026-11-20T14:00:00Z"}, "/nodes": nodes, "/tasks": tasks, "/services": services}

    def ask(*argv, **others):
        daemon = Daemon(str(tmp_path / "docker.sock"), {"Api-Version": "1.41"}, {"/_ping": (200, "OK"), **answers, **others})
        try:
            status = command.main(["why", *argv], command.Places(docker_host=f"unix://{tmp_path}/docker.sock"))
        finally:
            daemon.close()
            (tmp_path / "docker.sock").unlink()
        return (status, *capsys.readouterr())

    return ask


def test_why_asks_the_manager_and_explains(why):
    status, out, err = why("s2")
    assert (status, err) == (75, "")
    assert out.startswith("train\\x1b[2K: needs 1 NVIDIA-GPU on one node: host-g1 has 0 NVIDIA-GPU free")
    assert '"waiting": ["train\\u001b[2K"]' in why("s2", "--json")[1]
    assert why("chat")[0] == 0


def test_why_names_a_missing_service(why):
    assert why("sweep")[2].startswith("gpu-swarm: The swarm has no service sweep.")


def test_why_on_a_worker_says_that_it_is_no_manager(why):
    swarm = {"LocalNodeState": "active", "ControlAvailable": False, "NodeID": "w1", "RemoteManagers": [{"Addr": "192.0.2.1:2377"}]}
    status, out, err = why("train", **{"/info": {"Swarm": swarm}})
    assert (status, out) == (1, "")
    assert "manager" in err
