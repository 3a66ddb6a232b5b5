# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts that are lost: a manager that cannot be reached, a node in the middle of its window. The run goes on for the others.

Ansible's way to a node is cut, not the node: swarm still sees it, as when SSH fails.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from .fleet import Fleet, Run, advertised_as, wait_until
from .test_provision import MARK, availabilities, away, by_hand, containers, service, shown

# Appended to the connection plugin of the lab's inventory: it loses the hosts that the file LAB_CUT lists.
CUT = """

def unless_cut(exec_command):
    def run(self, *arguments, **options):
        with open(os.environ["LAB_CUT"], encoding="utf-8") as cut:
            if self.get_option("remote_addr") in cut.read().split():
                raise AnsibleConnectionFailure("no route to host")
        return exec_command(self, *arguments, **options)
    return run


Connection.exec_command = unless_cut(Connection.exec_command)
"""


class Cutter:
    """An inventory whose hosts can be cut off, and the environment in which they can."""

    def __init__(self, fleet: Fleet, work: Path) -> None:
        spec = importlib.util.find_spec("ansible_collections.community.docker")
        assert spec is not None
        assert spec.submodule_search_locations
        plugin = Path(spec.submodule_search_locations[0]) / "plugins" / "connection" / "docker.py"
        (work / "connection").mkdir()
        (work / "connection" / "cuttable.py").write_text(plugin.read_text() + CUT)
        self.fleet, self.list = fleet, work / "cut"
        self.env = {"ANSIBLE_CONNECTION_PLUGINS": str(work / "connection"), "LAB_CUT": str(self.list)}
        self.cut()

    def cut(self, *hosts: str) -> None:
        self.list.write_text(" ".join(hosts))

    def inventory(self, *more_managers: str) -> Path:
        groups = {"swarm_managers": ["m1", *more_managers], "gpu_nodes": ["g1", "g2"]}
        names = [name for members in groups.values() for name in members]
        more = {name: {"ansible_connection": "cuttable", **({} if name in self.fleet.hosts else {"ansible_host": name})} for name in names}
        return self.fleet.inventory(more, **groups)

    def run(self, inventory: Path, *arguments: str, playbook: str = "fleet.gpu_swarm.provision") -> Run:
        return self.fleet.playbook(inventory, *arguments, playbook=playbook, env=self.env)


@pytest.fixture
def cutter(fleet: Fleet, as_before: None, tmp_path: Path) -> Cutter:
    return Cutter(fleet, tmp_path)


def meanwhile(run: Callable[[], Run]) -> Future[Run]:
    return ThreadPoolExecutor(1).submit(run)


def test_a_manager_that_cannot_be_reached_is_passed_over(fleet: Fleet, cutter: Cutter) -> None:
    inventory = cutter.inventory("m0")  # the first to be asked, by its name
    cutter.cut("m0")
    since = fleet["m1"].run("date", "+%s.%N")
    run = cutter.run(inventory, "--limit", "g1", *advertised_as("PASSED"))
    assert run.rc == 0, run.output
    assert shown(fleet, "g1") == {"PASSED": sorted(fleet["g1"].gpus())}
    assert availabilities(fleet, "g1", since) == ["pause", "active"]


def test_a_node_that_is_lost_in_its_window_stays_away_and_the_others_go_on(fleet: Fleet, cutter: Cutter, tmp_path: Path) -> None:
    inventory, tasks = cutter.inventory(), tmp_path / "driver.yml"
    cut = {"dest": str(cutter.list), "content": fleet["g1"].container, "mode": "0600"}
    local = {"delegate_to": "localhost", "vars": {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}}
    tasks.write_text(json.dumps([
        {"name": "What this node needed", "ansible.builtin.command": {"argv": ["touch", "/run/maintained"]}},
        {"name": "The way to it is lost", "ansible.builtin.copy": cut, "when": "inventory_hostname == 'g1'", **local},
    ]))  # fmt: skip
    since = fleet["m1"].run("date", "+%s.%N")
    options = ("--limit", "gpu_nodes", "--extra-vars", json.dumps({"maintain_tasks": str(tasks), "maintain_timeout": 5}))

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
    assert away(fleet, "g1") == ("active", None)


def test_once_what_held_a_node_has_ended_the_rest_is_moved_in_the_same_run(fleet: Fleet, cutter: Cutter) -> None:
    manager, busy, inventory = fleet["m1"], fleet["g1"], cutter.inventory()
    since = manager.run("date", "+%s.%N")
    with by_hand(busy) as notebook, service(fleet, "web", 2, "--constraint", "node.role==worker"):
        going = meanwhile(lambda: cutter.run(inventory, "--limit", "g1", *advertised_as("MOVED")))
        wait_until("g1 to be paused", lambda: away(fleet, "g1") == ("pause", "active"))
        assert notebook in containers(busy)
        busy.docker("stop", "--time", "1", "notebook")
        run = going.result()
        assert run.rc == 0, run.output
        assert availabilities(fleet, "g1", since) == ["pause", "drain", "active"]
        assert shown(fleet, "g1") == {"MOVED": sorted(busy.gpus())}
    assert MARK not in manager.docker("node", "inspect", "g1")
