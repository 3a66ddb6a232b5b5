# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares the program that most of these tests use with the Docker CLI: both return the same results."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.lab.lab import CHECKOUT

from .fleet import Fleet, Node, wait_until

ENTER = str(CHECKOUT / "tests" / "lab" / "enter" / "docker")
FOLDERS = [folder for folder in os.environ["PATH"].split(os.pathsep) if Path(folder) != Path(ENTER).parent]
CLI = shutil.which("docker", path=os.pathsep.join(FOLDERS))
NAMESPACES = "for name in mnt uts ipc net pid cgroup; do readlink /proc/self/ns/$name; done"


@pytest.fixture
def node(fleet: Fleet) -> Node:
    return fleet["g1"]


def call(program: str, node: Node, *words: str, path: str | None = None, stdin: str = "") -> tuple[int, str, str]:
    environment = {**os.environ, **({"PATH": path} if path else {})}
    command = [program, "--host", node.docker_host, "exec", *words]
    done = subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("hostname",), ("pwd",), ("id",), ("sh", "-c", "exit 7"), ("sh", "-c", "echo out; echo err >&2"), ("sh", "-c", NAMESPACES), ("cat",),
        ("printf", "%s|", "a b", "", "*", "$x"), ("sh", "-c", "echo $HOME $PATH; umask; ulimit -n"),
    ],
)  # fmt: skip
def test_a_command_on_a_node_gives_the_same_result_as_with_the_cli(node, tmp_path, words):
    """The CLI is not called: in this test, the docker in PATH always fails."""
    assert CLI is not None
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 99\n")
    (tmp_path / "docker").chmod(0o755)
    wanted = call(CLI, node, "--interactive", node.container, *words, stdin="some text\n")
    assert call(ENTER, node, "-i", node.container, *words, stdin="some text\n", path=f"{tmp_path}:/usr/bin:/bin") == wanted


@pytest.mark.parametrize("words", [("no.such", "true"), ("--user", "nobody", "CONTAINER", "id"), ()])
def test_everything_else_is_left_to_the_cli(node, words):
    assert CLI is not None
    words = [node.container if word == "CONTAINER" else word for word in words]
    assert call(ENTER, node, *words) == call(CLI, node, *words)


def test_killing_the_caller_does_not_kill_the_command(node):
    """The same happens over SSH. These tests check what a killed run leaves on nodes."""
    node.run("rm", "--force", "/run/began", "/run/go", "/run/ended")
    script = "touch /run/began; until [ -e /run/go ]; do sleep 0.1; done; touch /run/ended"
    command = [ENTER, "--host", node.docker_host, "exec", "-i", node.container, "sh", "-c", script]
    started = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    wait_until("its begin", lambda: node.read("/run/began") is not None)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait(60)
    node.run("touch", "/run/go")
    wait_until("its end", lambda: node.read("/run/ended") is not None)
    node.run("rm", "/run/began", "/run/go", "/run/ended")
