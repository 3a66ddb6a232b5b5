# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet that Ansible reaches like most fleets: over SSH, as a user with sudo, with checked host keys.

Each test continues with the state after the previous test.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.lab import output
from tests.lab.ssh import PASSWORD, PROMPTED

from .fleet import BIN, DAEMON_JSON, LIMIT_S, Fleet, Node, Run, of_its_own, wait_until

FLEET = """\
nodes:
  m1: {groups: [swarm_managers], ssh: true}
  g1: {gpus: rtx4090x2, toolkit: 1.20.0, ssh: true}
  g2: {gpus: t4x4, image: debian12, toolkit: 1.20.0, ssh: true}
"""
NODES = ["m1", "g1", "g2"]
REQUIRETTY = "/etc/sudoers.d/requiretty"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from of_its_own("ssh", FLEET, tmp_path_factory.mktemp("ssh"))


@pytest.fixture
def over_ssh(fleet: Fleet) -> Fleet:
    return fleet.over_ssh()


def play(fleet: Fleet, *arguments: str, playbook: str = "provision", every: dict[str, Any] | None = None, **hosts: dict[str, Any]) -> Run:
    """Run a playbook with additional variables for all hosts, or for some."""
    more = {name: {**(every or {}), **hosts.get(name, {})} for name in NODES}
    inventory = fleet.inventory(more, swarm_managers=["m1"], gpu_nodes=["g1", "g2"])
    return fleet.playbook(inventory, *arguments, playbook=f"fleet.gpu_swarm.{playbook}")


def logins(node: Node, since: str) -> list[str]:
    """Return the addresses that opened sessions at sshd."""
    lines = node.run("journalctl", "--unit", "ssh.service", "--since", f"@{since}", "--output", "cat", "--grep", "Accepted publickey", check=False)
    return [line.split(" from ")[1].split()[0] for line in lines.splitlines() if " from " in line]


def apart(work: Path) -> dict[str, str]:
    """Return variables for a run that must not use existing connections."""
    return {"ansible_control_path_dir": str(work / "cp")}


def test_a_fleet_is_provisioned(fleet: Fleet, over_ssh: Fleet) -> None:
    """All tasks of a node share one connection. A second run changes nothing."""
    since = fleet["m1"].run("date", "+%s")
    run = play(over_ssh)
    assert run.rc == 0, run.output
    assert {name: run.row(name).split()[-1] for name in NODES} == dict.fromkeys(NODES, "ready")
    assert {name: len(logins(fleet[name], since)) for name in NODES} == dict.fromkeys(NODES, 1)
    run = play(over_ssh)
    assert (run.rc, run.changed()) == (0, dict.fromkeys(NODES, 0)), run.output


def test_sudo_that_needs_a_terminal_is_named_and_works_without_pipelining(fleet: Fleet, over_ssh: Fleet) -> None:
    fleet["g1"].write(REQUIRETTY, b"Defaults requiretty\n")
    try:
        run = play(over_ssh)
        assert (run.rc, run.failed()) == (2, ["g1"]), run.output
        assert run.row("g1").endswith("or add -e ansible_pipelining=false")
        assert run.failures("g1")[0].startswith("g1: the task cannot become root: sudo requires a terminal (requiretty in sudoers)")
        assert (run.row("m1").split()[-1], run.row("g2").split()[-1]) == ("ready", "ready")
        run = play(over_ssh, "--extra-vars", "ansible_pipelining=false")
        assert (run.rc, run.changed()) == (0, dict.fromkeys(NODES, 0)), run.output
    finally:
        fleet["g1"].run("rm", REQUIRETTY)


def test_a_host_with_another_key_is_sent_nothing(fleet: Fleet, over_ssh: Fleet, tmp_path: Path) -> None:
    """g2 answers at g1's address, with another host key."""
    g1, g2, since = fleet["g1"], fleet["g2"], fleet["g2"].run("date", "+%s")
    keys = dict(line.split(" ", 1) for line in (output(fleet.name) / "known_hosts").read_text().splitlines())
    (tmp_path / "known_hosts").write_text(f"{g2.address} {keys[g1.address]}\n")
    known = {"ansible_ssh_extra_args": f"-o UserKnownHostsFile={tmp_path}/known_hosts", **apart(tmp_path)}
    run = play(over_ssh, g1={**known, "ansible_host": g2.address})
    assert (run.rc, run.failed()) == (4, ["g1"]), run.output
    assert f"failed: unreachable: Host key for {g2.address} has changed: nothing was sent there." in run.row("g1")
    assert logins(g2, since) == []


def test_the_fleet_is_verified(over_ssh: Fleet) -> None:
    run = play(over_ssh, playbook="verify")
    assert run.rc == 0, run.output
    assert "proved by a task: 2" in run.output


def test_a_node_is_maintained_and_returns_over_a_new_connection(fleet: Fleet, over_ssh: Fleet, tmp_path: Path) -> None:
    node, since = fleet["g1"], fleet["g1"].run("date", "+%s")
    booted = node.run("cat", "/proc/sys/kernel/random/boot_id")
    (tmp_path / "tasks.yml").write_text(
        json.dumps(
            [
                {"name": "Who am I", "ansible.builtin.command": "id -un", "register": "me"},
                {"name": "Say it", "ansible.builtin.debug": {"var": "me.stdout"}},
            ]
        )
    )
    settings = json.dumps({"maintain_tasks": str(tmp_path / "tasks.yml"), "maintain_reboot": True, "maintain_timeout": 120})
    run = play(over_ssh, "--limit", "g1", "--extra-vars", settings, playbook="maintain")
    assert run.rc == 0, run.output
    assert '"me.stdout": "root"' in run.output
    assert node.run("cat", "/proc/sys/kernel/random/boot_id") != booted
    assert logins(node, since)
    assert fleet["m1"].docker("node", "inspect", "--format", "{{.Spec.Availability}} {{.Status.State}}", node.swarm()["NodeID"]) == "active ready"


@pytest.mark.rare
def test_sudo_needs_a_password(over_ssh: Fleet, tmp_path: Path) -> None:
    """With -K or similar options, the run works. Without a password, or with a wrong one, the run changes nothing and names the reason."""
    admin = {"ansible_user": PROMPTED}
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    run = play(over_ssh, "--become-password-file", str(tmp_path / "password"), every=admin)
    assert (run.rc, run.changed()) == (0, dict.fromkeys(NODES, 0)), run.output
    given, runs = {**admin, "ansible_become_password": PASSWORD}, []

    def shown() -> bool:
        """Wait for the watcher: a node that has just rebooted is unwatched until its watcher has read the GPUs."""
        runs.append(play(over_ssh, every=given, playbook="status"))
        return runs[-1].rc == 0

    wait_until("the status of a fleet with nothing wrong", shown, shown=lambda: runs[-1].output)
    assert not any(PASSWORD in run.output for run in runs)
    run = play(over_ssh, every=admin, g2={"ansible_become_password": "wrong"}, m1={"ansible_become_password": PASSWORD})
    assert (run.rc, run.failed()) == (2, ["g1", "g2"]), run.output
    assert "Missing sudo password" in run.row("g1")
    assert "Incorrect sudo password" in run.row("g2")


@pytest.mark.rare
def test_the_password_of_sudo_is_typed(over_ssh: Fleet) -> None:
    """The password is typed at the prompt of -K. The terminal does not show it."""
    inventory = over_ssh.inventory({name: {"ansible_user": PROMPTED} for name in NODES}, swarm_managers=["m1"], gpu_nodes=["g1", "g2"])
    run = typed(over_ssh, "BECOME password: ", PASSWORD, "--inventory", str(inventory), "-K", "fleet.gpu_swarm.provision")
    assert (run.rc, run.changed()) == (0, dict.fromkeys(NODES, 0)), run.output
    assert PASSWORD not in run.output


def typed(fleet: Fleet, prompt: str, answer: str, *arguments: str) -> Run:
    """Run a playbook at a pseudo-terminal. The answer is typed when the prompt appears."""
    command = shlex.join([*fleet.network, str(BIN / "ansible-playbook"), *arguments])
    words = ["script", "--quiet", "--return", "--command", command, "/dev/null"]
    with subprocess.Popen(
        words, cwd=fleet.work, env=fleet.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout
        shown = b""
        while prompt.encode() not in shown:
            assert select.select([process.stdout], [], [], LIMIT_S)[0], shown
            part = os.read(process.stdout.fileno(), 4096)
            assert part, shown
            shown += part
        process.stdin.write(f"{answer}\n".encode())
        process.stdin.flush()
        rest, _errors = process.communicate(timeout=LIMIT_S)
    return Run(process.returncode, (shown + rest).decode().replace("\r\n", "\n"))


@pytest.mark.rare
def test_nodes_are_behind_a_jump_host(fleet: Fleet, over_ssh: Fleet, tmp_path: Path) -> None:
    """The controller logs in directly only to the manager, and from there to g1 and g2. ssh checks the keys of these nodes too."""
    manager, since = fleet["m1"], fleet["m1"].run("date", "+%s")
    through = {**apart(tmp_path), "ansible_ssh_extra_args": f"-J {over_ssh.vars['ansible_user']}@{manager.address}"}
    run = play(over_ssh, "--extra-vars", json.dumps({"gpu_node_extra_resources": ["SSD=1"]}), g1=through, g2=through)
    assert run.rc == 0, run.output
    assert run.recap["g1"]["changed"]
    assert run.recap["g2"]["changed"]
    assert {name: set(logins(fleet[name], since)) for name in ("g1", "g2")} == {name: {manager.address} for name in ("g1", "g2")}


@pytest.mark.rare
def test_a_fleet_is_deprovisioned(fleet: Fleet, over_ssh: Fleet) -> None:
    run = play(over_ssh, playbook="deprovision")
    assert run.rc == 0, run.output
    assert {name: fleet[name].swarm()["LocalNodeState"] for name in NODES} == dict.fromkeys(NODES, "inactive")
    assert [fleet[name].read(DAEMON_JSON) for name in ("g1", "g2")] == [None, None]
