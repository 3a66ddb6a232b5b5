# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run that can be killed at any moment, as when memory or power fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tests.e2e.fleet import BIN, LIMIT_S, Fleet, Node, Run
from tests.lab import nodes
from tests.lab.lab import Lab

MARK = "GPU_SWARM_CHAOS_RUN"
# Kills processes that were started on a node from outside, and their children. Their first ancestor is not the node's init.
KILL_MODULES = """
import os, signal
parents = {}
for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
    try:
        parents[pid] = int(open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        pass
def first(pid):
    while pid > 1:
        pid = parents.get(pid, 1)
    return pid
for pid in parents:
    if first(pid) == 0 and pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
"""


class UnderWay:
    """A running ansible-playbook."""

    def __init__(self, fleet: Fleet, *arguments: str) -> None:
        self.id = uuid.uuid4().hex
        self.log = fleet.work / f"run-{self.id}.log"
        self.began = time.monotonic()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(BIN / "ansible-playbook"), *arguments],
                cwd=fleet.work, env={**fleet.env, MARK: self.id}, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def task(self) -> str:
        """Return the task that the run has reached."""
        return (re.findall(r"^(?:TASK|PLAY) \[(.*?)\] \*", self.output, re.MULTILINE) or ["before the first task"])[-1]

    def lasts(self, seconds: float) -> bool:
        """Return whether the run still runs this many seconds after its start."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, seconds - self.seconds))
        return self.process.poll() is None

    def kill(self) -> None:
        """Kill all processes of the run. Ansible's workers have their own sessions."""
        self.process.kill()
        while found := self._processes():
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def _processes(self) -> list[int]:
        word = f"{MARK}={self.id}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if word in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found

    def end(self) -> Run:
        return Run(self.process.wait(LIMIT_S), self.output)


def kill_modules(hosts: list[Node]) -> None:
    """Kill the processes that a dead run started on the nodes."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda node: node.run("python3", "-c", KILL_MODULES), hosts))


def lose(node: Node) -> None:
    """Simulate a power failure of the node, and boot the node again."""
    container = nodes.get(Lab.from_environment(), node.container)
    container.kill()
    container.start()


def await_boot(node: Node) -> None:
    nodes.await_boot(nodes.get(Lab.from_environment(), node.container))
