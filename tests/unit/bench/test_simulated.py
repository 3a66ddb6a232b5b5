# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The benchmark's simulated manager follows the rules of a real one, for everything that this collection reads and writes."""

from __future__ import annotations

import json

import pytest
import yaml

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import OutOfSequence, SwarmError, connect
from tests.bench.simulated import hosts
from tests.bench.simulated.api import SOCKET, Api
from tests.bench.simulated.callback.bench_steps import DOCUMENTATION
from tests.bench.simulated.docker import Swarm

OPTIONS = {"tls": False, "validate_certs": False, "ca_path": None, "client_cert": None, "client_key": None, "api_version": "auto", "timeout": 60}


@pytest.fixture
def swarm(tmp_path):
    """Make a swarm of four nodes. One task runs on the second node, and one on the fourth."""
    for name in ("1", "2", "3", "4"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "daemon.json").write_text("{}")
        (tmp_path / name / "restarts").touch()
    return Swarm([tmp_path / name for name in ("1", "2", "3", "4")])


@pytest.fixture
def manager(swarm):
    first, *_others = swarm.nodes.values()
    with Api(swarm):
        yield connect({**OPTIONS, "docker_host": f"unix://{first.folder / SOCKET}"})


def write(manager, number, **changes):
    node = manager.nodes()[number]
    manager.update_node(node["ID"], node["Version"]["Index"], {**node["Spec"], **changes})


def running(manager):
    """Return the number of running tasks by host name."""
    names = [manager.node(task["NodeID"])["Description"]["Hostname"] for task in manager.tasks() if task["DesiredState"] == "running"]
    return {name: names.count(name) for name in names}


def test_a_stale_version_is_refused(swarm, manager):
    node = manager.nodes()[2]
    write(manager, 2, Labels={"a": "1"})
    with pytest.raises(OutOfSequence):
        manager.update_node(node["ID"], node["Version"]["Index"], node["Spec"])
    cluster, _clock = manager.cluster()
    manager.update_cluster(cluster["Version"]["Index"], dict(cluster["Spec"], Labels={"b": "2"}))
    with pytest.raises(OutOfSequence):
        manager.update_cluster(cluster["Version"]["Index"], cluster["Spec"])
    assert (manager.nodes()[2]["Spec"]["Labels"], manager.cluster()[0]["Spec"]["Labels"], swarm.stale) == ({"a": "1"}, {"b": "2"}, 2)


def test_a_pause_leaves_tasks_where_they_are_and_a_drain_does_not(manager):
    write(manager, 1, Availability="pause")
    assert running(manager) == {"2": 1, "4": 1}
    write(manager, 1, Availability="drain")
    assert running(manager) == {"1": 1, "4": 1}


def test_nodes_that_were_out_of_service_are_recorded(swarm, manager):
    for number, availability in ((2, "pause"), (1, "pause"), (3, "pause"), (2, "active"), (1, "drain"), (1, "active"), (3, "active")):
        write(manager, number, Availability=availability)
    assert (list(swarm.paused.values()), swarm.most_out) == ([1, 1, 1], {True: 2, False: 1})


def test_daemon_json_is_read_at_a_restart(swarm, manager):
    folder = list(swarm.nodes.values())[2].folder
    (folder / "daemon.json").write_text(json.dumps({"node-generic-resources": ["SSD=1"]}))
    before = manager.nodes()[2]
    assert "SSD" not in str(before)
    (folder / "restarts").write_text(".")
    after = manager.nodes()[2]
    assert after["Description"]["Resources"]["GenericResources"] == [{"DiscreteResourceSpec": {"Kind": "SSD", "Value": 1}}]
    assert after["Version"]["Index"] > before["Version"]["Index"]


def test_a_worker_is_no_manager_and_unsimulated_calls_are_recorded(swarm, manager):
    worker = list(swarm.nodes.values())[1].folder / SOCKET
    with pytest.raises(SwarmError, match="is a worker"):
        connect({**OPTIONS, "docker_host": f"unix://{worker}"})
    with pytest.raises(SwarmError):
        manager.networks()
    assert swarm.unknown == ["GET /networks"]
    assert swarm.calls["GET networks"] == 1


def test_the_cpu_times_of_a_shell_are_summed_up():
    assert hosts.cpu_seconds(b"0m0.010s 0m0.020s\n1m2.500s 0m1.000s\n") == pytest.approx(63.53)


def test_ansible_can_read_the_documentation_of_the_callback():
    """Ansible ends a run with a traceback if a callback's documentation is no YAML."""
    assert yaml.safe_load(DOCUMENTATION)["name"] == "bench_steps"
