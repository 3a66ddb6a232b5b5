# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node that reports a fault is paused while nobody runs anything: by the leader, by another manager where that has no such service, and by
none where somebody keeps work away from it already. What runs on healthy cards goes on."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.alerts.promtool import accepts

from .fleet import DAEMON_JSON, Fleet, Node, lab, wait_until

NAME = "e2e-react"
FLEET = """
nodes:
  m1: {groups: [swarm_managers]}
  m2: {groups: [swarm_managers]}
  m3: {groups: [swarm_managers]}
  h1: {gpus: t4x4, toolkit: 1.20.0}
  h2: {gpus: rtx4090x2, toolkit: 1.20.0, image: debian12}
"""
MANAGERS, NODES = ["m1", "m2", "m3"], ["h1", "h2"]
UNIT = "gpu-swarm-react.service"
MACHINE = "/etc/gpu-lab/nvml.conf"
PAUSED_FOR = "gpu-swarm.paused-for"
WITHIN_S, TURN_S = 40, 30
TEXTFILES = "/var/lib/prometheus/node-exporter"  # swarm_member_metrics_directory
# Of two GPU nodes, one may be paused by default.
SETTINGS: dict[str, Any] = {"swarm_member_react_limit": 100}


def settings(**more: Any) -> tuple[str, str]:
    return "--extra-vars", json.dumps({**SETTINGS, **more})


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    work = tmp_path_factory.mktemp("react")
    (work / "fleet.yml").write_text(FLEET)
    lab("up", str(work / "fleet.yml"), "--name", NAME)
    yield Fleet.of(NAME, work)
    lab("down", NAME)


@pytest.fixture(scope="module")
def inventory(fleet: Fleet) -> Path:
    return fleet.inventory(swarm_managers=MANAGERS, gpu_nodes=NODES)


@pytest.fixture(scope="module")
def before(fleet: Fleet, inventory: Path) -> dict[str, bytes | None]:
    found = {name: fleet[name].read(DAEMON_JSON) for name in NODES}
    for name in MANAGERS[:2]:  # on the third one it comes later
        fleet[name].run("mkdir", "-p", TEXTFILES)
    run = fleet.playbook(inventory, *settings())
    assert run.rc == 0, run.output
    return found


def spec(fleet: Fleet, name: str) -> dict[str, Any]:
    return fleet["m1"].docker_json("node", "inspect", name)[0]["Spec"]


def is_paused(fleet: Fleet, name: str) -> bool:
    return spec(fleet, name)["Availability"] == "pause"


def replace(node: Node, old: str, new: str) -> float:
    node.write(MACHINE, (node.read(MACHINE) or b"").replace(old.encode(), new.encode()))
    return time.monotonic()


def reported(fleet: Fleet, name: str) -> str:
    node = fleet["m1"].docker_json("node", "inspect", name)[0]
    return (node["Description"]["Engine"].get("Labels") or {}).get("fleet.gpu-swarm.health", "")


def test_it_runs_on_each_manager_and_a_second_run_has_nothing_to_do(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    assert {name: fleet[name].run("systemctl", "is-active", UNIT) for name in MANAGERS} == dict.fromkeys(MANAGERS, "active")
    run = fleet.playbook(inventory, *settings())
    assert (run.rc, set(run.changed().values())) == (0, {0}), run.output


def test_a_card_is_lost_while_tasks_run(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """The node is paused in time, and the tasks go on, also that of the lost card: nothing is stopped."""
    manager = fleet["m1"]
    only = ("--constraint", "node.hostname==h1", "--generic-resource", "NVIDIA-GPU=1", "--replicas", "4")
    manager.docker("service", "create", "--detach", "--name", "train", *only, "lab/task", "sleep", "infinity")
    wait_until("four tasks", lambda: len(fleet["h1"].docker("ps", "--quiet").split()) == 4)
    tasks, started = fleet["h1"].docker("ps", "--quiet"), fleet["h1"].started()
    gone = fleet["h1"].gpus()[-1]
    began = replace(fleet["h1"], "[gpu 0-3]", "[gpu 0-2]")
    wait_until("the pause", lambda: is_paused(fleet, "h1"), WITHIN_S, lambda: (spec(fleet, "h1"), reported(fleet, "h1")))
    print(f"paused {time.monotonic() - began:.1f} s after the card was lost")
    labels = spec(fleet, "h1")["Labels"]
    assert labels[PAUSED_FOR].startswith(f"fault {gone} reason=lost since=")
    assert labels["gpu-swarm.former-availability"] == "active"
    assert (fleet["h1"].docker("ps", "--quiet"), fleet["h1"].started()) == (tasks, started)


def metrics(fleet: Fleet) -> dict[str, str]:
    """The file, by the managers that have one."""
    found = {name: fleet[name].read(f"{TEXTFILES}/gpu-swarm.prom") for name in MANAGERS}
    return {name: text.decode() for name, text in found.items() if text}


def leader(fleet: Fleet) -> str:
    nodes = [fleet["m2"].docker_json("node", "inspect", name)[0] for name in MANAGERS]
    return next(node["Description"]["Hostname"] for node in nodes if node["ManagerStatus"].get("Leader"))


def test_the_leader_has_the_metrics(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """With the card that is lost and the node that is paused for it, and on another manager when that leads."""
    fleet["m3"].run("mkdir", "-p", TEXTFILES)
    first = leader(fleet)
    paused = 'gpu_swarm_nodes{state="paused",by="fault"} 1'
    wait_until("its file", lambda: list(metrics(fleet)) == [first] and paused in metrics(fleet)[first], 90, lambda: metrics(fleet))
    text = metrics(fleet)[first]
    accepts(text)
    assert re.search(r'gpu_swarm_gpu_fault\{UUID="GPU-[0-9a-f-]{36}",node="h1",node_id="\w+",reason="lost",xid=""\} 1', text)
    assert re.search(r'gpu_swarm_node_resources_allocated\{node="h1",node_id="\w+",kind="NVIDIA-GPU"\} 4', text)
    assert 'gpu_swarm_run_end_timestamp_seconds{runs="changing"}' in text
    fleet[first].run("systemctl", "stop", "docker.socket", "docker")
    try:
        other = wait_until("another leader", lambda: next((name for name in MANAGERS if name != first and leads(fleet, name)), None), 60)
        wait_until("its file", lambda: other in metrics(fleet), 90, lambda: metrics(fleet))
    finally:
        fleet[first].run("systemctl", "start", "docker.socket", "docker")
    wait_until("the old file to go", lambda: list(metrics(fleet)) == [leader(fleet)], 90, lambda: metrics(fleet))


def test_another_directory_of_metrics_counts_at_once(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """Without systemd reading its unit anew."""
    first, elsewhere = leader(fleet), "/srv/metrics"
    fleet[first].run("mkdir", "-p", elsewhere)
    for directory, other in ((elsewhere, TEXTFILES), (TEXTFILES, elsewhere)):
        run = fleet.playbook(inventory, "--limit", ",".join(MANAGERS), *settings(swarm_member_metrics_directory=directory))
        assert run.rc == 0, run.output
        wait_until("its file", lambda directory=directory: fleet[first].read(f"{directory}/gpu-swarm.prom"), 90)
        assert fleet[first].read(f"{other}/gpu-swarm.prom") is None


def leads(fleet: Fleet, name: str) -> bool:
    return bool((fleet[name].docker_json("node", "inspect", "self")[0].get("ManagerStatus") or {}).get("Leader"))


def test_what_an_operator_says_counts(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """Returned to service by hand, the node stays there, also for a service that is started anew. A drain by hand is left alone."""
    manager = fleet["m1"]
    manager.docker("node", "update", "--availability", "active", "h1")
    for name in MANAGERS:
        fleet[name].run("systemctl", "restart", UNIT)
    wait_until("an alarm", lambda: "returned to service" in "".join(journal(fleet[name]) for name in MANAGERS), 30)
    assert not is_paused(fleet, "h1")
    manager.docker("node", "update", "--availability", "drain", "h2")
    began = replace(fleet["h2"], "[gpu 0-1]", "[gpu 0]")
    wait_until("its report", lambda: reported(fleet, "h2").startswith("fault"), WITHIN_S, lambda: reported(fleet, "h2"))
    seen = manager.docker_json("node", "inspect", "h2")[0]["Version"]
    wait_until("two polls more", lambda: time.monotonic() > began + WITHIN_S, WITHIN_S)
    assert manager.docker_json("node", "inspect", "h2")[0]["Version"] == seen
    assert spec(fleet, "h2")["Availability"] == "drain"


def journal(node: Node) -> str:
    return node.run("journalctl", "--unit", UNIT, "--output", "cat", "--no-pager")


def test_a_leader_without_the_service(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """Another manager acts, when the leader's turn is over."""
    fleet["m1"].docker("node", "update", "--availability", "active", "h2")
    leader = next(name for name in MANAGERS if fleet["m1"].docker_json("node", "inspect", name)[0]["ManagerStatus"].get("Leader"))
    fleet[leader].run("systemctl", "stop", UNIT)
    wait_until("the pause", lambda: is_paused(fleet, "h2"), WITHIN_S + 2 * TURN_S, lambda: spec(fleet, "h2"))


def test_deprovision_leaves_no_trace(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    for name, cards in (("h1", "0-3"), ("h2", "0-1")):
        replace(fleet[name], f"[gpu 0{'-2' if name == 'h1' else ''}]", f"[gpu {cards}]")
    run = fleet.playbook(inventory, *settings(provision_disrupt="all"), playbook="fleet.gpu_swarm.deprovision")
    assert run.rc == 0, run.output
    for name in MANAGERS:
        assert fleet[name].run("find", "/etc", "/run", "/var/lib", "-xdev", "-path", "*gpu-swarm*") == ""  # the metrics neither
        shown = fleet[name].run("systemctl", "show", "--property", "LoadState,ActiveState", UNIT).split()
        assert shown == ["LoadState=not-found", "ActiveState=inactive"]
