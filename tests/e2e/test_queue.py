# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Queues on a fleet with Docker 20.10 and 26.1: work is submitted with the Docker CLI, waits in order, and runs once, whatever fails meanwhile."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .fleet import Fleet, Run, advertised_as, of_its_own, wait_until
from .swarm import stopped, the_leader, works
from .work_in_queues import FOLDER, UNIT, Queued

MANAGERS, GPU_NODES = ["m1", "m2", "m3"], ["g1", "g2"]
# g2 has Docker 20.10. A new leader with 20.10 would reject tasks that have a GPU (docs/fix/known-issues.md), so no manager here has it.
FLEET = """
vars:
  nvidia_container_toolkit_repository: http://lab-repo/libnvidia-container
nodes:
  m1: {groups: [swarm_managers]}
  m2: {groups: [swarm_managers]}
  m3: {groups: [swarm_managers]}
  g1: {gpus: t4x4, toolkit: 1.20.0}
  g2: {gpus: t4x4, toolkit: 1.20.0, image: debian12}
"""
OLD_FLEET = """
vars:
  nvidia_container_toolkit_repository: http://lab-repo/libnvidia-container
nodes:
  m1: {groups: [swarm_managers], image: debian12}
  g1: {gpus: t4x4, toolkit: 1.20.0, image: debian12}
"""
QUEUES = {"research": {"weight": 3}, "teaching": {}, "large": {"time_limit": "none"}}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Fleet]:
    work, given = tmp_path_factory.mktemp("queue"), pytestconfig.getoption("--fleet")
    yield from [Fleet.of(given, work)] if given else of_its_own(f"{pytestconfig.getoption('--name')}-queue", FLEET, work)


@pytest.fixture(scope="module")
def inventory(fleet: Fleet) -> Path:
    return fleet.inventory(swarm_managers=MANAGERS, gpu_nodes=GPU_NODES)


@pytest.fixture(scope="module")
def first(fleet: Fleet, inventory: Path) -> Run:
    run = provision(fleet, inventory)
    assert run.rc == 0, run.output
    return run


@pytest.fixture
def queued(fleet: Fleet, first: Run) -> Iterator[Queued]:
    found = Queued(fleet, GPU_NODES, MANAGERS)
    yield found
    found.open("active")
    found.nothing_left()


def provision(fleet: Fleet, inventory: Path, *arguments: str, queues: dict[str, object] | None = None) -> Run:
    wanted = QUEUES if queues is None else queues
    return fleet.playbook(inventory, "-e", json.dumps({"gpu_swarm_queues": wanted}), *arguments)


def label(fleet: Fleet) -> str | None:
    labels = fleet["m2"].docker_json("info", "--format", "{{json .Swarm.Cluster.Spec.Labels}}")
    return labels.get("gpu-swarm.queues")


def test_provision_keeps_the_queues_in_the_swarm(fleet: Fleet, inventory: Path, first: Run) -> None:
    written = label(fleet)
    assert json.loads(written or "") == QUEUES
    checked = provision(fleet, inventory, "--check", "--diff", queues={"research": {"weight": 2}})
    assert (checked.rc, label(fleet)) == (0, written), checked.output
    assert "research changes from weight: 3 to weight: 2; large is removed, and its work waits; teaching is removed" in checked.output
    wrong = provision(fleet, inventory, queues={"research": {"weight": 0}})
    assert (wrong.rc, wrong.recap["m1"]["ok"], label(fleet)) == (2, 0, written), wrong.output
    again = provision(fleet, inventory, "--diff")
    assert (again.rc, set(again.changed().values())) == (0, {0}), again.output


def test_work_runs_once_and_its_log_stays(queued: Queued) -> None:
    queued.by = "m2"  # a manager that does not lead
    runs_once(queued)


@pytest.fixture
def old_fleet(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[Fleet]:
    yield from of_its_own(f"{pytestconfig.getoption('--name')}-queue-old", OLD_FLEET, tmp_path)


@pytest.mark.rare
def test_work_runs_once_under_an_old_leader(old_fleet: Fleet) -> None:
    run = provision(old_fleet, old_fleet.inventory(swarm_managers=["m1"], gpu_nodes=["g1"]))
    assert run.rc == 0, run.output
    runs_once(Queued(old_fleet, ["g1"], ["m1"]))


def runs_once(queued: Queued) -> None:
    queued.submit("train")
    node = queued.await_running("train", seconds=20)["train"]
    state = queued.await_state("train", "admitted attempt=1 ")
    assert f" node={queued.node_id(node)} " in state
    queued.end("train")
    queued.await_state("train", "over attempt=1 ", " result=complete")
    assert queued.manager.docker("service", "logs", "--raw", "train") == "train is done"
    assert queued.spec("train")["Mode"] == {"Replicated": {"Replicas": 1}}
    # A rollback, or anybody who scales it to 0, would have it run again. It is held instead.
    queued.manager.docker("service", "scale", "--detach", "train=0")
    queued.await_state("train", "held attempt=1 ", " result=it was scaled to 0 after it was admitted, and would run again")
    queued.submit("next")
    queued.end("next")
    queued.await_state("next", "over attempt=1 ")
    assert queued.state("train").startswith("held")
    assert Counter(queued.began()) == {"train": 1, "next": 1}
    queued.manager.run("gpu-swarm", "release", "train")
    queued.await_state("train", "over attempt=2 ", " result=complete")
    assert Counter(queued.began()) == {"train": 2, "next": 1}


def test_two_arrays_share_the_cards_by_weight_and_a_whole_machine_gets_its_machine(queued: Queued) -> None:
    """Of eight cards, the weights 3 and 1 give six to research. Then a job waits for a whole machine, and later work does not delay it."""
    queued.open("pause")
    for number in range(7):
        queued.submit(f"alice-{number}", owner="alice")
    for number in range(7):
        queued.submit(f"bob-{number}", queue="teaching", owner="bob")
    queued.open("active")
    wait_until("eight tasks", lambda: len(queued.running()) == 8, shown=queued.shown)
    before = queued.running()
    assert Counter(name.partition("-")[0] for name in before) == {"alice": 6, "bob": 2}
    assert Counter(before.values()) == {"g1": 4, "g2": 4}
    queued.remove(*(name for name in queued.names() if name not in before))

    queued.submit("whole", queue="large", gpus=4)
    kept = queued.await_state("whole", "waiting keeps=").partition("=")[2]
    (machine,) = [name for name in GPU_NODES if queued.node_id(name) == kept]
    (other,) = {*GPU_NODES} - {machine}
    queued.submit("late-0")
    queued.submit("late-1")
    # One card of each machine becomes free. Only the other machine takes one more small task.
    ended = [min(name for name, node in before.items() if node == place) for place in GPU_NODES]
    queued.end(*ended)
    wait_until("one more task", lambda: len({*queued.running()} - {*before}) == 1, shown=queued.shown)
    queued.end(*(name for name, node in before.items() if node == machine))
    running = queued.await_running("whole")
    assert [name for name, node in running.items() if node == machine] == ["whole"]
    assert Counter(name.partition("-")[0] for name, node in running.items() if node == other)["late"] == 1
    queued.end("all")
    for name in (*before, "whole", "late-0", "late-1"):
        queued.await_state(name, "over attempt=1 ", " result=complete", 90)
    assert Counter(queued.began()) == dict.fromkeys((*before, "whole", "late-0", "late-1"), 1)


# Like torchrun: rank 0 listens, rank 1 joins, and both fail if the other one is missing.
MEET = f"""
echo $0 >> {FOLDER}/began
echo "NODE_RANK=$NODE_RANK NNODES=$NNODES WORLD_SIZE=$WORLD_SIZE LOCAL_WORLD_SIZE=$LOCAL_WORLD_SIZE"
echo "MASTER_ADDR=$MASTER_ADDR NCCL_SOCKET_IFNAME=$NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME=$GLOO_SOCKET_IFNAME"
if [ "$NODE_RANK" = 0 ]; then
  heard=$(echo "rank 0" | busybox timeout 30 busybox nc -l -p "$MASTER_PORT")
else
  tries=0
  until heard=$(echo "rank $NODE_RANK" | busybox nc -w 10 "$MASTER_ADDR" "$MASTER_PORT") || [ $((tries += 1)) -gt 30 ]; do sleep 1; done
fi
echo "met: $heard"
[ -n "$heard" ]
"""


@pytest.fixture
def network(queued: Queued) -> Iterator[str]:
    queued.manager.docker("network", "create", "--driver", "overlay", "gangs")
    yield "gangs"
    queued.nothing_left()
    wait_until("the network to be unused", lambda: queued.manager.start("docker", "network", "rm", "gangs", check=False).returncode == 0)


def test_the_members_of_a_gang_start_together_and_meet(queued: Queued, fleet: Fleet, network: str) -> None:
    """On the network of the hosts, and on an overlay network. The nodes have different releases of Docker."""
    queued.submit("small", gpus=3)
    queued.await_running("small")
    ways = {"host": ("--network", "host"), "overlay": ("--network", network, "--endpoint-mode", "dnsrr")}
    for name, options in ways.items():
        for rank in (0, 1):
            queued.submit(f"{name}-{rank}", *options, "--label", f"gpu-swarm.gang={name}:{rank}/2", gpus=2, program=MEET)
    for rank in (0, 1):  # one node has room for a member of each, and no member starts
        queued.await_state(f"host-{rank}", "waiting keeps=")
    assert queued.began() == ["small"]
    queued.end("small")
    members = [f"{name}-{rank}" for name in ways for rank in (0, 1)]
    for member in members:
        queued.await_state(member, "over attempt=1 ", " result=complete")
    assert Counter(queued.began()) == Counter(["small", *members])
    logs = {member: queued.manager.docker("service", "logs", "--raw", member) for member in members}
    labels = fleet["m1"].docker_json("node", "inspect", queued.node_id("g1"))[0]["Spec"]["Labels"]
    assert f"MASTER_ADDR={labels['gpu-swarm.data-address']} NCCL_SOCKET_IFNAME==eth0 GLOO_SOCKET_IFNAME=eth0" in logs["host-1"]
    assert "MASTER_ADDR=overlay-0 NCCL_SOCKET_IFNAME= GLOO_SOCKET_IFNAME=" in logs["overlay-1"]
    for member, log in logs.items():
        rank = member[-1]
        assert f"NODE_RANK={rank} NNODES=2 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2" in log
        assert f"met: rank {1 - int(rank)}" in log

    for rank, program in enumerate((MEET, "exit 3")):
        queued.submit(f"fails-{rank}", *ways["host"], "--label", f"gpu-swarm.gang=fails:{rank}/2", gpus=4, program=program)
    queued.await_state("fails-1", "over attempt=1 ", "result=failed: task: non-zero exit (3)")
    ended = "result=stopped: fails-1 of its gang ended first (failed: task: non-zero exit (3))"
    queued.await_state("fails-0", "over attempt=1 ", ended)
    assert "met: rank" not in queued.manager.docker("service", "logs", "--raw", "fails-0")
    assert queued.manager.docker("service", "ls", "--quiet", "--filter", "label=gpu-swarm.pull") == ""


def test_work_survives_a_leader_that_is_killed_right_after_it_was_admitted(queued: Queued, fleet: Fleet) -> None:
    """The new leader places the task. The service of the former leader sees that it leads no longer, so the new one need not wait."""
    leader = the_leader(fleet)
    queued.by = next(name for name in MANAGERS if name != leader)
    queued.submit("train")
    queued.await_state("train", "admitted")
    fleet[leader].dockerd("kill --signal KILL")
    wait_until("the managers to be back", lambda: all(works(fleet, name) for name in MANAGERS), shown=queued.shown)
    queued.await_running("train")
    queued.submit("next")
    queued.await_running("next")
    queued.end("all")
    for name in ("train", "next"):
        queued.await_state(name, "over attempt=1 ", " result=complete")
    assert Counter(queued.began()) == {"train": 1, "next": 1}


def test_work_of_a_lost_node_does_not_run_elsewhere_while_its_container_may_run(queued: Queued, fleet: Fleet) -> None:
    """dockerd of the node does not answer, and its containers go on. Swarm stops the task when the node is back."""
    queued.submit("train")
    node = queued.await_running("train")["train"]
    node_id = queued.node_id(node)
    fleet[node].dockerd("kill --signal STOP")
    try:
        form = ("--format", "{{.Status.State}}")
        wait_until("the node to be lost", lambda: queued.manager.docker("node", "inspect", *form, node_id) == "down", shown=queued.shown)
        (other,) = {*GPU_NODES} - {node}
        queued.submit("next")  # its admission shows that rounds go on
        wait_until("the next work", lambda: "next" in fleet[other].docker("ps", "--format", "{{.Names}}"), shown=lambda: queued.state("next"))
        assert queued.state("train").startswith("admitted attempt=1 ")
    finally:
        fleet[node].dockerd("kill --signal CONT")
    state = queued.await_state("train", "over attempt=1 ")
    assert " result=failed: it was stopped (shutdown)" in state
    assert Counter(queued.began())["train"] == 1


@pytest.mark.rare
def test_if_the_leader_is_gone_another_manager_admits_after_three_minutes(queued: Queued, fleet: Fleet) -> None:
    leader = the_leader(fleet)
    queued.by = next(name for name in MANAGERS if name != leader)
    queued.submit("train")
    queued.await_running("train")
    queued.submit("next", gpus=4)
    queued.await_running("next")
    with stopped(fleet, leader):
        fleet[leader].run("systemctl", "stop", UNIT)
        queued.submit("later")
        queued.end("train", "next")
        queued.await_running("later", seconds=300)
        queued.await_state("train", "over attempt=1 ", " result=complete")
        fleet[leader].run("systemctl", "start", UNIT)
    queued.end("all")
    queued.await_state("later", "over attempt=1 ", " result=complete")
    assert max(Counter(queued.began()).values()) == 1


@pytest.mark.rare
def test_work_that_is_rolled_back_after_its_end_is_stopped_and_held(queued: Queued, fleet: Fleet) -> None:
    """Swarm runs ended work again after a rollback."""
    queued.submit("train")
    node = queued.await_running("train")["train"]
    queued.end("train")
    queued.await_state("train", "over attempt=1 ", " result=complete")
    fleet[node].run("rm", f"{FOLDER}/train")
    queued.manager.docker("service", "rollback", "--detach", "train")
    queued.await_state("train", "held attempt=1 ")
    wait_until("the second run to end", lambda: not queued.running(), shown=queued.shown)
    queued.submit("next")  # its admission shows that rounds go on
    queued.await_running("next")
    assert "train" not in queued.running()
    queued.end("next")


@pytest.mark.rare
def test_a_run_waits_for_queued_work_and_nothing_is_admitted_on_the_paused_node(queued: Queued, fleet: Fleet, inventory: Path) -> None:
    queued.submit("train", gpus=4)
    node = queued.await_running("train")["train"]
    run = provision(fleet, inventory, *advertised_as("OTHER"), "--extra-vars", json.dumps({"provision_wait": 5}))
    assert run.rc == os.EX_TEMPFAIL, run.output
    assert "train" in next(line for line in run.output.splitlines() if line.startswith(f"{node} ")), run.output
    queued.submit("next")  # only the paused node still has this kind
    wait_until("the reason", lambda: "take no new tasks" in why(queued, "next"), shown=lambda: why(queued, "next"))
    assert queued.running().keys() == {"train"}
    queued.end("all")
    queued.await_state("train", "over attempt=1 ", " result=complete")
    run = provision(fleet, inventory)
    assert run.rc == 0, run.output
    queued.await_state("next", "over attempt=1 ", " result=complete")
    assert Counter(queued.began()) == {"train": 1, "next": 1}


def why(queued: Queued, name: str) -> str:
    work = json.loads(queued.manager.run("gpu-swarm", "queue", name, "--json", check=False))["work"]
    return str(work[0]["text"])
