# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Problems of a swarm: two runs at once, shared, changed and reused names, and lost managers.

Each test advertises the GPUs as a different kind. So both nodes need a change, and no test has to restore the former kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from .cutting import Cutter, meanwhile
from .fleet import Fleet, Node, Run, advertised_as, at_hand, wait_until
from .swarm import availability_of, describe_managers, member, shown, stopped, the_leader, works

MANAGERS, GPU_NODES = ["m1", "m2", "m3"], ["g1", "g2"]
# A message of systemd's journal: a unit was started.
STARTED = "MESSAGE_ID=39f53479d3a045ac8e11786248231fbf"
ANOTHER_RUN = re.compile(r"the run stopped before this node, because another run changes this swarm: \S+@\S+ pid \d+ ")


@pytest.fixture(scope="module")
def fleet(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    given = pytestconfig.getoption("--swarm-fleet")
    yield from at_hand("swarm-faults", Path(__file__).with_name("swarm_faults.yml"), given, tmp_path_factory.mktemp("swarm-faults"))


@pytest.fixture(scope="module")
def inventory(fleet: Fleet) -> Path:
    """Return the inventory of a provisioned swarm."""
    path = fleet.inventory(swarm_managers=MANAGERS, gpu_nodes=GPU_NODES)
    run = fleet.playbook(path)
    assert run.rc == 0, run.output
    return path


def all_done(fleet: Fleet, kind: str) -> None:
    for name in GPU_NODES:
        assert shown(fleet, name) == {kind: sorted(fleet[name].gpus())}
        assert availability_of(fleet, name) == ("active", None)


def nothing_is_left(fleet: Fleet, inventory: Path, kind: str) -> None:
    run = fleet.playbook(inventory, *advertised_as(kind))
    assert run.rc == 0, run.output
    assert set(run.changed().values()) == {0}
    assert set(run.changed()) == {*MANAGERS, *GPU_NODES}


def as_it_is(fleet: Fleet) -> dict[str, Any]:
    return {name: (fleet[name].started(), fleet[name].files()) for name in GPU_NODES}


def entries(fleet: Fleet) -> dict[str, str]:
    """Return the manager's list: host names by node id."""
    return dict(line.split() for line in fleet["m1"].docker("node", "ls", "--format", "{{.ID}} {{.Hostname}}").splitlines())


def state(fleet: Fleet, node_id: str) -> str:
    return fleet["m1"].docker_json("node", "inspect", node_id)[0]["Status"]["State"]


def in_one_line(run: Run) -> str:
    """Return the output without Ansible's line breaks in warnings."""
    return " ".join(run.output.split())


# -- two runs ----------------------------------------------------------------------------------------------------------


def starts(node: Node, since: str) -> int:
    """Return how often dockerd was started since ``since``."""
    words = node.run("journalctl", "--quiet", "--since", since, "--output", "cat", STARTED, "UNIT=docker.service", check=False)
    return len(words.splitlines())


@pytest.mark.rare
def test_of_two_runs_at_a_time_one_changes_the_swarm(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    since = {name: "@" + fleet[name].run("date", "+%s") for name in GPU_NODES}
    going = []
    for name in ("alice", "bob"):
        controller = tmp_path / name
        controller.mkdir()
        its_own = replace(fleet, work=controller)
        home = {"ANSIBLE_HOME": str(controller / "home")}
        going.append(meanwhile(lambda its_own=its_own, home=home: its_own.playbook(inventory, *advertised_as("ONCE"), env=home)))
    one, other = sorted((run.result() for run in going), key=lambda run: run.rc)

    assert one.rc == 0, one.output
    # The second run failed because it was too late, or had nothing left to do.
    words = [ANOTHER_RUN.search(other.failures(name)[-1]) for name in other.failed()]
    assert other.rc == (2 if words else 0), other.output
    assert all(words), other.output
    assert {name: starts(fleet[name], since[name]) for name in GPU_NODES} == dict.fromkeys(GPU_NODES, 1)
    all_done(fleet, "ONCE")
    nothing_is_left(fleet, inventory, "ONCE")


# -- names -------------------------------------------------------------------------------------------------------------


@contextmanager
def called(fleet: Fleet, name: str, host_name: str) -> Iterator[None]:
    """Give a node another host name, which its manager sees after the next start of dockerd."""
    node, before = fleet[name], fleet[name].run("hostname")
    try:
        rename(fleet, node, host_name)
        yield
    finally:
        rename(fleet, node, before)


def rename(fleet: Fleet, node: Node, host_name: str) -> None:
    node.run("hostname", host_name)
    node.dockerd("restart")
    there = node.swarm()["NodeID"]
    wait_until("the manager to see the new name", lambda: entries(fleet)[there] == host_name and state(fleet, there) == "ready")


@pytest.mark.rare
def test_a_member_that_takes_another_one_s_host_name_is_still_itself(fleet: Fleet, inventory: Path) -> None:
    before, labels = entries(fleet), {name: member(fleet, name)["Spec"]["Labels"] for name in GPU_NODES}
    assert labels["g1"]["gpu.model"] != labels["g2"]["gpu.model"]
    with called(fleet, "g2", "g1"):
        for name in GPU_NODES:
            fleet["m1"].docker("node", "update", "--label-rm", "gpu.model", member(fleet, name)["ID"])
        run = fleet.playbook(inventory, *advertised_as("SAME-NAME"))
        assert run.rc == 0, run.output
        assert entries(fleet) == {**before, member(fleet, "g2")["ID"]: "g1"}
        assert {name: member(fleet, name)["Spec"]["Labels"] for name in GPU_NODES} == labels
        all_done(fleet, "SAME-NAME")
        for name in GPU_NODES:
            assert run.row(name).split()[-1] == "ready"
        nothing_is_left(fleet, inventory, "SAME-NAME")


@pytest.mark.rare
def test_a_reinstalled_node_joins_and_its_former_entry_is_reported(fleet: Fleet, inventory: Path) -> None:
    manager, node, before = fleet["m1"], fleet["g2"], member(fleet, "g2")
    node.leave()
    node.run("systemctl", "stop", "docker.socket", "docker.service")
    node.run("rm", "-r", "/var/lib/docker/swarm")
    node.dockerd("start")
    wait_until("the manager to miss it", lambda: state(fleet, before["ID"]) == "down")

    run = fleet.playbook(inventory, *advertised_as("ANEW"), "--limit", "g2")
    try:
        assert run.rc == 0, run.output
        assert member(fleet, "g2")["ID"] != before["ID"]
        assert shown(fleet, "g2") == {"ANEW": node.gpus()}
        assert member(fleet, "g2")["Spec"]["Labels"] == before["Spec"]["Labels"]
        assert run.row("g2").split()[-1] == "ready"
        assert manager.docker_json("node", "inspect", before["ID"])[0]["Spec"] == before["Spec"]
        assert f"g2: the swarm lists a second node with the host name g2, and this node is down (id {before['ID']}, " in in_one_line(run)
        assert f"'docker node rm {before['ID']}'" in in_one_line(run)
    finally:
        manager.docker("node", "rm", "--force", before["ID"])


# -- managers that are lost --------------------------------------------------------------------------------------------


@pytest.mark.rare
def test_a_dead_manager_does_not_prevent_other_changes(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    cutter, dead = Cutter(fleet, tmp_path), next(name for name in MANAGERS if name != the_leader(fleet))
    cuttable = {name: {"ansible_connection": "cuttable"} for name in fleet.hosts}
    cutter.cut(fleet[dead].container)
    with stopped(fleet, dead):
        run = cutter.run(fleet.inventory(cuttable, swarm_managers=MANAGERS, gpu_nodes=GPU_NODES), *advertised_as("ONE-IS-DEAD"))
    assert run.rc != 0
    assert run.failed() == [dead]
    assert "failed: unreachable: " in run.row(dead)
    all_done(fleet, "ONE-IS-DEAD")


def test_managers_are_maintained_last_and_one_at_a_time_and_the_leader_at_the_end(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    """Each manager restarts its dockerd, so the queried manager sometimes does not answer."""
    leader, tasks = the_leader(fleet), tmp_path / "restart.yml"
    seen = "docker node ls --format '{% raw %}{{.Hostname}} {{.Availability}}{% endraw %}' > /run/seen"  # a worker cannot list the nodes
    restart = f"date +%s%N > /run/restarted; {seen}; systemctl reset-failed docker.service; systemctl restart docker.service"
    tasks.write_text(json.dumps([{"name": "Restart dockerd", "ansible.builtin.shell": restart}]))
    run = fleet.playbook(inventory, "--extra-vars", f"maintain_tasks={tasks}", playbook="fleet.gpu_swarm.maintain")
    assert run.rc == 0, run.output + describe_managers(fleet, MANAGERS)
    order = sorted([*MANAGERS, *GPU_NODES], key=lambda name: int(fleet[name].run("cat", "/run/restarted")))
    assert set(order[:2]) == set(GPU_NODES)
    assert order[-1] == leader
    for name in MANAGERS:
        assert sorted(fleet[name].run("cat", "/run/seen").splitlines()) == sorted(
            f"{other} {'Pause' if other == name else 'Active'}" for other in fleet.hosts
        )
        wait_until("the manager to be back", partial(works, fleet, name), shown=partial(describe_managers, fleet, MANAGERS))


def test_without_a_quorum_nothing_is_changed_and_with_one_the_run_continues(fleet: Fleet, inventory: Path) -> None:
    alive = the_leader(fleet)
    back, dead = (name for name in MANAGERS if name != alive)
    before = as_it_is(fleet)
    with stopped(fleet, dead):
        with stopped(fleet, back):
            run = fleet.playbook(inventory, *advertised_as("QUORUM"))
            assert run.rc == 2, run.output
            assert set(run.changed().values()) == {0}
            for name in GPU_NODES:
                assert re.search("no quorum.* start managers until more than half of them answer", run.failures(name)[-1], re.IGNORECASE)
            for name in (back, dead):
                assert "dockerd is not running on this host: start it" in run.failures(name)[-1]
        assert as_it_is(fleet) == before

        run = fleet.playbook(inventory, *advertised_as("QUORUM"))
        assert run.rc == 2, run.output
        assert run.failed() == [dead]
        assert "dockerd is not running on this host: start it" in run.failures(dead)[-1]
    all_done(fleet, "QUORUM")
    nothing_is_left(fleet, inventory, "QUORUM")


@pytest.mark.rare
def test_a_roll_continues_when_the_queried_leader_dies(fleet: Fleet, inventory: Path) -> None:
    leader = the_leader(fleet)
    others = [name for name in MANAGERS if name != leader]
    leader_first = fleet.inventory(swarm_managers=[leader, *others], gpu_nodes=GPU_NODES)  # this manager is queried
    ids = [member(fleet, name)["ID"] for name in GPU_NODES]

    with ExitStack() as locks:
        for name in GPU_NODES:  # otherwise the canary's window may be over before this notices it
            locks.enter_context(fleet[name].locked())
        going = meanwhile(lambda: fleet.playbook(leader_first, *advertised_as("LEADERLESS")))
        wait_until("the canary to be paused", lambda: "pause" in {node["Spec"]["Availability"] for node in inspected(fleet[others[0]], ids)})
        fleet[leader].dockerd("kill --signal KILL")
    with stopped(fleet, leader):
        run = going.result()
        assert run.rc == 2, run.output  # the run reports the lost manager, even if it had nothing to change
        assert re.search(rf"^failed: {leader}$", run.output, re.MULTILINE), run.output
        for name in GPU_NODES:
            assert run.row(name).split()[-1] == "ready"
    all_done(fleet, "LEADERLESS")
    nothing_is_left(fleet, inventory, "LEADERLESS")


# The swarm has three GPUs.
THREE = """
services:
  waits:
    image: lab/task
    stop_grace_period: 1s
    gpus: [{count: 1}]
    deploy: {replicas: 3}
"""


@pytest.mark.rare
def test_the_next_manager_continues_the_wait_for_a_stack(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    """A task is pending. When a GPU becomes free for this task, another manager is already the leader."""
    run = fleet.playbook(inventory, *advertised_as("HANDED-OVER"))
    assert run.rc == 0, run.output
    reserves = ("--generic-resource", "HANDED-OVER=1", "lab/task")
    fleet["m1"].docker("service", "create", "--detach", "--no-resolve-image", "--name", "holder", *reserves)
    wait_until("its task", lambda: "Running" in fleet["m1"].docker("service", "ps", "holder"))
    compose, log = tmp_path / "compose.yml", tmp_path / "ansible.log"
    compose.write_text(THREE)
    log.touch()
    settings = {"compose": str(compose), "stack": "handed", "gpu_stack_kind": "HANDED-OVER", "gpu_stack_allow_pending": True}
    arguments = ("-e", json.dumps({**settings, "gpu_stack_wait_timeout": 200}))
    deploy = partial(fleet.playbook, inventory, *arguments, playbook="fleet.gpu_swarm.deploy", env={"ANSIBLE_LOG_PATH": str(log)})
    going = meanwhile(deploy)
    wait_until("the wait", lambda: "2 of 3 running" in log.read_text(), shown=log.read_text)
    with stopped(fleet, "m1"):
        wait_until("the run to notice", lambda: "no answer; retrying for up to 60 s" in log.read_text(), shown=log.read_text)
        wait_until("another leader", lambda: works(fleet, "m2"))
        fleet["m2"].docker("service", "rm", "holder")
        run = going.result()
    assert run.rc == 0, run.output
    assert "handed_waits: 3 of 3 running" in run.output
    fleet["m1"].docker("stack", "rm", "handed")


def inspected(manager: Node, ids: list[str]) -> list[dict[str, Any]]:
    return manager.docker_json("node", "inspect", *ids)


@pytest.mark.rare
def test_a_manager_of_an_autolocked_swarm_that_is_locked_gets_the_command_that_unlocks_it(fleet: Fleet, inventory: Path) -> None:
    queried, locked = fleet["m1"], fleet["m3"]
    queried.docker("swarm", "update", "--autolock=true")
    try:
        key = queried.docker("swarm", "unlock-key", "--quiet")
        locked.dockerd("restart")
        before = as_it_is(fleet)
        run = fleet.playbook(inventory, *advertised_as("LOCKED"), "--limit", "m3")
        locked.start("docker", "swarm", "unlock", text=key.encode() + b"\n")
    finally:
        queried.docker("swarm", "update", "--autolock=false")
    assert run.rc == 2, run.output
    assert "run 'docker swarm unlock' there" in run.failures("m3")[-1]
    assert as_it_is(fleet) == before
    wait_until("the manager to be back", lambda: works(fleet, "m3"))
