# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts are lost: an unreachable manager, and a node in the middle of its window. The run continues for the others.

Ansible's connection to a node is cut, not the node's network. Swarm still sees the node, as when SSH fails.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .cutting import Cutter, meanwhile
from .fleet import Fleet, advertised_as, wait_until
from .swarm import MARK, availabilities, availability_of, shown
from .work import by_hand, containers, service


@pytest.fixture
def cutter(fleet: Fleet, as_before: None, tmp_path: Path) -> Cutter:
    return Cutter(fleet, tmp_path)


def test_an_unreachable_manager_is_skipped(fleet: Fleet, cutter: Cutter) -> None:
    inventory = cutter.inventory("m0")  # its name is the first in the order of names, so a run queries this manager first
    cutter.cut("m0")
    since = fleet["m1"].run("date", "+%s.%N")
    run = cutter.run(inventory, "--limit", "g1", *advertised_as("PASSED"))
    assert run.rc == 0, run.output
    assert shown(fleet, "g1") == {"PASSED": sorted(fleet["g1"].gpus())}
    assert availabilities(fleet, "g1", since) == ["pause", "active"]


def test_a_node_lost_in_its_window_stays_paused_and_the_others_are_changed(fleet: Fleet, cutter: Cutter, tmp_path: Path) -> None:
    inventory, tasks = cutter.inventory(), tmp_path / "driver.yml"
    tasks.write_text(json.dumps([
        {"name": "What this node needed", "ansible.builtin.command": {"argv": ["touch", "/run/maintained"]}},
        cutter.task("g1", fleet["g1"].container),
    ]))  # fmt: skip
    since = fleet["m1"].run("date", "+%s.%N")
    options = ("--limit", "gpu_nodes", "--extra-vars", json.dumps({"maintain_tasks": str(tasks), "maintain_timeout": 5, "provision_max_failed": 2}))

    run = cutter.run(inventory, *options, playbook="fleet.gpu_swarm.maintain")
    assert run.rc == 2, run.output
    assert run.failed() == ["g1"]
    assert "lost: " in run.failures("g1")[-1]
    assert availabilities(fleet, "g1", since) == ["pause"]
    assert availabilities(fleet, "g2", since) == ["pause", "active"]
    assert [fleet[name].run("ls", "/run/maintained") for name in ("g1", "g2")] == ["/run/maintained"] * 2

    cutter.cut()
    run = cutter.run(inventory)
    assert run.rc == 0, run.output
    assert availability_of(fleet, "g1") == ("active", None)


def done(name: str) -> dict[str, Any]:
    return {"name": f"Do {name}", "ansible.builtin.command": {"argv": ["touch", f"/run/{name}"]}}


@pytest.mark.rare
def test_a_lost_call_says_nothing_about_the_node(fleet: Fleet, cutter: Cutter, tmp_path: Path) -> None:
    """For g1, the answer about remaining work is lost. For g2, a task of the maintenance is lost. Both nodes answer again right after that."""
    inventory, tasks, busy, idle = cutter.inventory(), tmp_path / "driver.yml", fleet["g1"], fleet["g2"]
    tasks.write_text(json.dumps([done("first"), cutter.task("g2", f"{idle.container}:once"), done("second"), done("third")]))
    for node in (busy, idle):
        node.run("rm", "--force", "/run/first", "/run/second", "/run/third")
    grace = ("--stop-signal", "SIGWINCH", "--stop-grace-period", "20s", "--constraint", f"node.id=={busy.swarm()['NodeID']}")
    settings = json.dumps({"maintain_tasks": str(tasks), "maintain_timeout": 5, "provision_max_failed": 9})
    since = fleet["m1"].run("date", "+%s.%N")
    with service(fleet, "slow", 1, *grace):
        options = ("--limit", "gpu_nodes", "--extra-vars", settings)
        going = meanwhile(lambda: cutter.run(inventory, *options, playbook="fleet.gpu_swarm.maintain"))
        wait_until("g1 to be drained", lambda: availability_of(fleet, "g1") == ("drain", "active/drain"), 120)
        assert containers(busy)
        cutter.cut(f"{busy.container}:once")
        run = going.result()
    assert run.rc == 2, run.output
    assert "its containers could not be read (" in run.failures("g1")[-1], run.output
    assert "the connection was lost during the task 'Do second': no route to host" in run.failures("g2")[-1], run.output
    ran = {name: fleet[name].run("sh", "-c", "cd /run; ls first second third", check=False).split() for name in ("g1", "g2")}
    assert ran == {"g1": [], "g2": ["first"]}
    assert availabilities(fleet, "g1", since) == ["pause", "drain", "active"]  # the run changed nothing on this node
    assert availability_of(fleet, "g2") == ("pause", "active")


@pytest.mark.rare
def test_when_blocking_work_has_ended_the_rest_is_moved_in_the_same_run(fleet: Fleet, cutter: Cutter) -> None:
    manager, busy, inventory = fleet["m1"], fleet["g1"], cutter.inventory()
    since = manager.run("date", "+%s.%N")
    with by_hand(busy) as notebook, service(fleet, "web", 2, "--constraint", "node.role==worker"):
        going = meanwhile(lambda: cutter.run(inventory, "--limit", "g1", *advertised_as("MOVED")))
        wait_until("g1 to be paused", lambda: availability_of(fleet, "g1") == ("pause", "active"))
        assert notebook in containers(busy)
        busy.docker("stop", "--time", "1", "notebook")
        run = going.result()
        assert run.rc == 0, run.output
        assert availabilities(fleet, "g1", since) == ["pause", "drain", "active"]
        assert shown(fleet, "g1") == {"MOVED": sorted(busy.gpus())}
    assert MARK not in manager.docker("node", "inspect", "g1")
