# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node that reports a fault is paused without a run.

The leader pauses the node. If the leader is lost, the next leader does this. If the leader lacks the service, another manager does this. If someone
already keeps a node out of service, the node stays unchanged. Work on healthy cards continues.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.alerts.promtool import accepts

from .fleet import Fleet, Node, of_its_own, wait_until
from .swarm import availabilities
from .watched import CALM_S, MACHINE, WITHIN_S, hanging_in_the_kernel, readers, replace, reported, status

NAME = "e2e-react"
FLEET = """
nodes:
  m1: {groups: [swarm_managers]}
  m2: {groups: [swarm_managers]}
  m3: {groups: [swarm_managers]}
  h1: {gpus: t4x4, toolkit: 1.20.0}
  h2: {gpus: rtx4090x2, toolkit: 1.20.0, image: debian12}
  h3: {gpus: a100-mig, toolkit: 1.20.0}
"""
MANAGERS, NODES = ["m1", "m2", "m3"], ["h1", "h2", "h3"]
UNIT = "gpu-swarm-manager.service"
PAUSED_FOR = "gpu-swarm.paused-for"
TURN_S = 30
# A driver that has answered before is reported as hung after this time. The pause follows at most a minute after the last answer.
HANG_S, MINUTE_S = 20, 60
TEXTFILES = "/var/lib/prometheus/node-exporter"  # swarm_member_metrics_directory
# Of three GPU nodes, two may be paused by default.
SETTINGS: dict[str, Any] = {
    "swarm_member_react_limit": 100,
    "gpu_node_advertise": [{"as": "mig"}, {"as": "gpu", "kind": "NVIDIA-GPU"}],
}


def settings(**more: Any) -> tuple[str, str]:
    return "--extra-vars", json.dumps({**SETTINGS, **more})


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from of_its_own(NAME, FLEET, tmp_path_factory.mktemp("react"))


@pytest.fixture(scope="module")
def inventory(fleet: Fleet) -> Path:
    return fleet.inventory(swarm_managers=MANAGERS, gpu_nodes=NODES)


@pytest.fixture(scope="module")
def before(fleet: Fleet, inventory: Path) -> dict[str, bytes]:
    """Return each node's machine at the beginning."""
    found = {name: fleet[name].read(MACHINE) or b"" for name in NODES}
    for name in MANAGERS[:2]:  # the third node gets the directory later
        make_textfiles(fleet[name])
    run = fleet.playbook(inventory, *settings())
    assert run.rc == 0, run.output
    return found


def make_textfiles(node: Node) -> None:
    """Create the directory of metrics. If a role has installed node_exporter, node_exporter's user owns this directory."""
    node.run("install", "--directory", "--owner", "nobody", TEXTFILES)


def spec(fleet: Fleet, name: str, by: str = "m1") -> dict[str, Any]:
    return fleet[by].docker_json("node", "inspect", name)[0]["Spec"]


def is_paused(fleet: Fleet, name: str, by: str = "m1") -> bool:
    return spec(fleet, name, by)["Availability"] == "pause"


def label(fleet: Fleet, name: str, by: str = "m1") -> str:
    return reported(fleet[by], fleet[name])


def await_pause(fleet: Fleet, name: str, began: float, seconds: float, by: str = "m1") -> dict[str, str]:
    """Wait for the pause, and return the labels of the node."""
    wait_until("the pause", lambda: is_paused(fleet, name, by), seconds, lambda: (spec(fleet, name, by), label(fleet, name, by)))
    print(f"{name} was paused {time.monotonic() - began:.1f} s after its fault")
    return spec(fleet, name, by)["Labels"]


def updates(fleet: Fleet, name: str, since: str) -> list[dict[str, str]]:
    """Return m1's events about the node since ``since``: one for each versioned update."""
    manager, node_id = fleet["m1"], fleet[name].swarm()["NodeID"]
    until = manager.run("date", "+%s.%N")
    only = ("--filter", "type=node", "--filter", f"node={node_id}", "--since", since, "--until", until)
    return [json.loads(line) for line in manager.docker("events", *only, "--format", "{{json .Actor.Attributes}}").splitlines()]


def test_the_service_runs_on_each_manager_and_a_second_run_has_nothing_to_do(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    assert {name: fleet[name].run("systemctl", "is-active", UNIT) for name in MANAGERS} == dict.fromkeys(MANAGERS, "active")
    run = fleet.playbook(inventory, *settings())
    assert (run.rc, set(run.changed().values())) == (0, {0}), run.output


def test_the_service_stays_if_the_inventory_lost_its_nodes(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """The nodes still report faults, and without the service nothing would pause them."""
    misspelt = fleet.playbook(fleet.inventory(swarm_managers=MANAGERS, gpu_node=NODES), *settings())
    assert misspelt.rc == 2, misspelt.output
    assert "The inventory has h1, h2, h3 in the group gpu_node, but not in gpu_nodes. Rename the group to gpu_nodes." in misspelt.output
    alone = fleet.inventory(swarm_managers=MANAGERS)
    run = fleet.playbook(alone, *settings())
    assert (run.rc, set(run.changed().values())) == (0, {0}), run.output
    assert "so the service gpu-swarm-manager was not removed. Put these nodes into gpu_nodes" in " ".join(run.output.split())
    role = ("--become", "--module-name", "ansible.builtin.include_role", "--args", "name=fleet.gpu_swarm.swarm_member", "swarm_managers")
    run = fleet.ansible("ansible", "--inventory", str(alone), *settings(), *role)
    assert run.rc == 0, run.output
    assert {name: fleet[name].run("systemctl", "is-active", UNIT) for name in MANAGERS} == dict.fromkeys(MANAGERS, "active")


@pytest.mark.rare
def test_a_node_that_a_run_finds_healthy_is_not_paused_for_an_old_report(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """Three nodes get a fault, and two may be paused. Their cards are restored, but the managers still see the faults while tasks run."""
    manager = fleet["m1"]
    assert fleet.playbook(inventory, *settings(swarm_member_react_limit=20)).rc == 0
    everywhere = ("--mode", "global", "--constraint", "node.role==worker")
    manager.docker("service", "create", "--detach", "--name", "hold", *everywhere, "lab/task", "sleep", "infinity")
    try:
        wait_until("a task on each node", lambda: all(fleet[name].docker("ps", "--quiet") for name in NODES))
        for name in NODES:
            fleet[name].write(MACHINE, before[name].split(b"[gpu")[0])
        wait_until("the managers to see it", lambda: all(label(fleet, name).startswith("fault") for name in NODES), 2 * WITHIN_S)
        wait_until("two pauses", lambda: sum(is_paused(fleet, name) for name in NODES) == 2, WITHIN_S)
        for name in NODES:
            fleet[name].write(MACHINE, before[name])
        wait_until("their watchers", lambda: all(status(fleet[name])["label"] == "ok" for name in NODES), CALM_S)
        assert all(label(fleet, name).startswith("fault") for name in NODES)
        (left,) = [name for name in NODES if not is_paused(fleet, name)]
        since = manager.run("date", "+%s.%N")
        run = fleet.playbook(inventory, *settings(swarm_member_react_limit=20))
        assert run.rc == 0, run.output
        stays = f"node {left} .*stays in service: it was paused for this fault before"

        def logs() -> str:
            return "".join(fleet[name].run("journalctl", "--unit", UNIT, "--since", f"@{since}") for name in MANAGERS)

        wait_until("the leader's word", lambda: re.search(stays, logs()), TURN_S, logs)
        assert {name: is_paused(fleet, name) for name in NODES} == dict.fromkeys(NODES, False)
        assert availabilities(fleet, left, since) == []
    finally:
        manager.docker("service", "rm", "hold")
    assert fleet.playbook(inventory, *settings()).rc == 0


@pytest.mark.rare
def test_a_mig_device_is_lost_while_a_run_starts(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """The service or the run pauses the node, whichever is first. The node is not paused twice."""
    node, since = fleet["h3"], fleet["m1"].run("date", "+%s.%N")
    began = replace(node, "mig-device = 1g.10gb", "#")
    lost = wait_until("its watcher", lambda: str(status(node)["label"]).startswith("fault MIG-") and status(node)["label"], WITHIN_S)
    run = fleet.playbook(inventory, *settings())
    assert run.rc == 2, run.output
    assert f"{lost.split()[1]} is gone" in run.failures("h3")[-1]
    labels = await_pause(fleet, "h3", began, WITHIN_S)
    wait_until("the managers to see it", lambda: label(fleet, "h3") == lost, WITHIN_S, lambda: label(fleet, "h3"))
    assert labels[PAUSED_FOR].startswith(f"fault {lost.split()[1]} reason=lost")
    assert labels["gpu-swarm.former-availability"] == "active"
    assert availabilities(fleet, "h3", since) == ["pause"]
    node.write(MACHINE, before["h3"])


def two_processes(node: Node) -> tuple[str, str]:
    """Return the processes of the service: one pauses nodes, the other does everything else. Return nothing if the service does not run."""
    first = node.run("systemctl", "show", "--property", "MainPID", "--value", UNIT)
    return first, node.run("pgrep", "--parent", first, check=False)


def has_another_second(node: Node, former: str) -> bool:
    """Return whether the second process runs, and is not the former second process."""
    return two_processes(node)[1] not in ("", former)


def test_a_card_is_lost_while_tasks_run(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """The node is paused in time, and the tasks keep running, even the task on the lost card. Then a second card is lost.

    Meanwhile the second process of each manager's service hangs, and is killed.
    """
    manager = fleet["m1"]
    wait_until("the former fault to be over", lambda: label(fleet, "h1") == "ok", 150, lambda: (label(fleet, "h1"), status(fleet["h1"])))
    since = manager.run("date", "+%s.%N")
    only = ("--constraint", "node.hostname==h1", "--generic-resource", "NVIDIA-GPU=1", "--replicas", "4")
    manager.docker("service", "create", "--detach", "--name", "train", *only, "lab/task", "sleep", "infinity")
    wait_until("four tasks", lambda: len(fleet["h1"].docker("ps", "--quiet").split()) == 4)
    tasks, started = fleet["h1"].docker("ps", "--quiet"), fleet["h1"].started()
    gone, processes = fleet["h1"].gpus()[-1], {name: two_processes(fleet[name]) for name in MANAGERS}
    for name, (_first, second) in processes.items():
        fleet[name].run("kill", "-STOP", second)
    began = replace(fleet["h1"], "[gpu 0-3]", "[gpu 0-2]")
    try:
        labels = await_pause(fleet, "h1", began, WITHIN_S)
    finally:
        for name, (_first, second) in processes.items():
            fleet[name].run("kill", "-KILL", second)
    for name, (first, second) in processes.items():
        wait_until("another second process", functools.partial(has_another_second, fleet[name], second), WITHIN_S)
        assert two_processes(fleet[name])[0] == first
    assert labels[PAUSED_FOR].startswith(f"fault {gone} reason=lost since=")
    assert labels["gpu-swarm.former-availability"] == "active"
    # The pause and its marks are one update of the node, the last one.
    assert [update.get("availability.new") for update in updates(fleet, "h1", since)][-1] == "pause"
    replace(fleet["h1"], "[gpu 0-2]", "[gpu 0-1]")
    assert (fleet["h1"].docker("ps", "--quiet"), fleet["h1"].started()) == (tasks, started)


def metrics(fleet: Fleet) -> dict[str, str]:
    """Return the metrics file of each manager that has such a file."""
    found = {name: fleet[name].read(f"{TEXTFILES}/gpu-swarm.prom") for name in MANAGERS}
    return {name: text.decode() for name, text in found.items() if text}


def leader(fleet: Fleet) -> str:
    nodes = [fleet["m2"].docker_json("node", "inspect", name)[0] for name in MANAGERS]
    return next(node["Description"]["Hostname"] for node in nodes if node["ManagerStatus"].get("Leader"))


@pytest.mark.rare
def test_the_leader_has_the_metrics(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """The metrics include the lost card and the paused node. Later another manager leads and has the metrics.

    A card is lost together with the former leader. The new leader pauses the node of this card.
    """
    make_textfiles(fleet["m3"])
    first = leader(fleet)
    paused = 'gpu_swarm_nodes{state="paused",by="fault"} 2'
    wait_until("its file", lambda: list(metrics(fleet)) == [first] and paused in metrics(fleet)[first], 90, lambda: metrics(fleet))
    text = metrics(fleet)[first]
    accepts(text)
    assert re.search(r'gpu_swarm_gpu_fault\{UUID="GPU-[0-9a-f-]{36}",node="h1",.*,reason="lost",xid="",pci_bus_id="[0-9A-F:.]+".*\} 1', text)
    assert re.search(r'gpu_swarm_node_resources_allocated\{node="h1",node_id="\w+",kind="NVIDIA-GPU"\} 4', text)
    assert 'gpu_swarm_run_end_timestamp_seconds{runs="changing"}' in text
    began = replace(fleet["h2"], "[gpu 0-1]", "[gpu 0]")
    fleet[first].run("systemctl", "stop", "docker.socket", "docker")
    try:
        other = wait_until("another leader", lambda: next((name for name in MANAGERS if name != first and is_leader(fleet, name)), None), 60)
        labels = await_pause(fleet, "h2", began, WITHIN_S + 20, by=other)  # the swarm needs some seconds to elect another leader
        assert labels[PAUSED_FOR].startswith("fault GPU-")
        wait_until("its file", lambda: other in metrics(fleet), 90, lambda: metrics(fleet))
    finally:
        fleet[first].dockerd("start", "docker.socket", "docker.service")
    wait_until("the old file to go", lambda: list(metrics(fleet)) == [leader(fleet)], 90, lambda: metrics(fleet))


@pytest.mark.rare
def test_another_directory_of_metrics_counts_at_once(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """systemd does not have to reload the unit of the service."""
    first, elsewhere = leader(fleet), "/srv/metrics"
    fleet[first].run("mkdir", "-p", elsewhere)
    for directory, other in ((elsewhere, TEXTFILES), (TEXTFILES, elsewhere)):
        run = fleet.playbook(inventory, "--limit", ",".join(MANAGERS), *settings(swarm_member_metrics_directory=directory))
        assert run.rc == 0, run.output
        wait_until("its file", lambda directory=directory: fleet[first].read(f"{directory}/gpu-swarm.prom"), 90)
        assert fleet[first].read(f"{other}/gpu-swarm.prom") is None


def is_leader(fleet: Fleet, name: str) -> bool:
    return bool((fleet[name].docker_json("node", "inspect", "self")[0].get("ManagerStatus") or {}).get("Leader"))


@pytest.mark.rare
def test_a_decision_of_an_operator_counts(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """If an operator returned a node to service, only another fault pauses it, even after a restart of the service. A manual drain stays."""
    manager = fleet["m1"]
    wait_until("the second card", lambda: "cards=2" in label(fleet, "h1").split(), 150, lambda: label(fleet, "h1"))
    assert "cards=" not in spec(fleet, "h1")["Labels"][PAUSED_FOR]  # the service paused the node once
    began = time.monotonic()
    manager.docker("node", "update", "--availability", "active", "h1")
    assert await_pause(fleet, "h1", began, TURN_S)[PAUSED_FOR] == label(fleet, "h1")
    manager.docker("node", "update", "--availability", "active", "h1")
    for name in MANAGERS:
        fleet[name].run("systemctl", "restart", UNIT)
    wait_until("an alarm", lambda: "returned it to service" in "".join(journal(fleet[name]) for name in MANAGERS), 30)
    shown = fleet.playbook(inventory, playbook="fleet.gpu_swarm.status", env={"COLUMNS": "400"})
    assert "stays in service, because somebody returned it" in shown.row("h1"), shown.output
    assert not is_paused(fleet, "h1")
    manager.docker("node", "update", "--availability", "drain", "h2")
    began = replace(fleet["h2"], "[gpu 0]", "[gpu 0]\nfault = lost")
    wait_until("its report", lambda: "cards=2" in label(fleet, "h2").split(), 150, lambda: label(fleet, "h2"))
    seen = manager.docker_json("node", "inspect", "h2")[0]["Version"]
    wait_until("two polls more", lambda: time.monotonic() > began + WITHIN_S, WITHIN_S)
    assert manager.docker_json("node", "inspect", "h2")[0]["Version"] == seen
    assert spec(fleet, "h2")["Availability"] == "drain"


def journal(node: Node) -> str:
    return node.run("journalctl", "--unit", UNIT, "--output", "cat", "--no-pager")


@pytest.mark.rare
def test_a_leader_without_the_service(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """Another manager acts after the leader's turn is over."""
    leading = leader(fleet)
    fleet[leading].run("systemctl", "stop", UNIT)
    began = time.monotonic()
    fleet["m1"].docker("node", "update", "--availability", "active", "h2")
    await_pause(fleet, "h2", began, WITHIN_S + 2 * TURN_S)
    fleet[leading].run("systemctl", "start", UNIT)


@pytest.mark.rare
def test_a_driver_hangs_for_longer_than_anyone_waits(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """The driver hangs in the kernel, where no signal ends the wait. The watcher starts no second process. The next run returns the node."""
    node, manager = fleet["h3"], fleet["m1"]
    wait_until("what was before to be over", lambda: label(fleet, "h3") == "ok", 150, lambda: (label(fleet, "h3"), status(node)))
    manager.docker("node", "update", "--availability", "active", "h3")
    with hanging_in_the_kernel(node):
        began = time.monotonic()
        assert await_pause(fleet, "h3", began, MINUTE_S)[PAUSED_FOR].startswith("fault reason=hang since=")
        stuck = readers(node)
        assert len(stuck) == 1
        wait_until("three more time-outs", lambda: time.monotonic() > began + MINUTE_S + 3 * HANG_S, MINUTE_S + 3 * HANG_S)
        assert (readers(node), status(node)["label"].split()[1]) == (stuck, "reason=hang")
    wait_until("another reader", lambda: not {*stuck} & {*readers(node)} and readers(node), WITHIN_S, lambda: readers(node))
    run = fleet.playbook(inventory, "--limit", "h3", *settings())
    assert run.rc == 0, run.output
    assert spec(fleet, "h3")["Availability"] == "active"
