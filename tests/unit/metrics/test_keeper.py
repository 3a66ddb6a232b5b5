# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The leader writes the metrics file after each reading, and another manager removes the file."""

from __future__ import annotations

import pytest
from read_manager import ReadManager, nodes
from swarm_api import A, pending, service

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.reading import read
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._metrics.keeper import Keeper
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._placement import explain


@pytest.fixture
def manager():
    return ReadManager()


@pytest.fixture
def logged():
    return []


@pytest.fixture
def keeper(tmp_path, logged):
    return Keeper(str(tmp_path), logged.append)


def test_the_leader_writes_the_file(keeper, manager, tmp_path, logged):
    assert keeper.observe(read(manager, nodes(), True)) == []
    text = (tmp_path / "gpu-swarm.prom").read_text()
    assert 'gpu_swarm_info{swarm="c1",leader="host-n1",leader_version="26.1.5+dfsg1",source="reactor"} 1' in text
    assert 'gpu_swarm_run_hosts{outcome="done"} 3' in text
    assert f'gpu_swarm_gpu_allocated{{UUID="{A}"' in text
    assert logged == []


def test_of_many_pending_services_only_those_in_the_file_are_explained(keeper, manager, tmp_path, monkeypatch):
    # Each explained service is compared with every node.
    explained = []
    real = explain.explain
    monkeypatch.setattr(explain, "explain", lambda service, *more: explained.append(service["Spec"]["Name"]) or real(service, *more))
    names = [f"service-{number:02}" for number in range(60)]
    manager.services = lambda: [service(name, name, reserves={"NVIDIA-GPU": 1}) for name in names]
    manager.tasks = lambda: [
        pending(f"task-{name}", {"NVIDIA-GPU": 1}, service=name, since=f"2026-11-20T12:{59 - number:02}:00Z") for number, name in enumerate(names)
    ]
    keeper.observe(read(manager, nodes(), True))
    text = (tmp_path / "gpu-swarm.prom").read_text()
    assert explained == names[10:]
    assert [name for name in names if f'gpu_swarm_pending_possible{{service="{name}"}} 1' in text] == names[10:]
    assert 'gpu_swarm_pending_tasks{service="(others)"} 10' in text


def test_a_manager_removes_the_file_when_it_stops_leading(keeper, manager, tmp_path, logged):
    keeper.observe(read(manager, nodes(), True))
    keeper.remove_former(manager, nodes(), True)
    assert len(list(tmp_path.iterdir())) == 1
    for _each in range(2):
        keeper.remove_former(manager, nodes(), False)
        keeper.observe(read(manager, nodes(), False))  # a record needs readings of this manager too
    assert list(tmp_path.iterdir()) == []
    assert logged == [f"this manager does not lead: {tmp_path}/gpu-swarm.prom is removed"]


@pytest.mark.parametrize("directory", ["", "none"])
def test_without_a_directory_no_reading_is_needed_and_nothing_is_written(manager, tmp_path, logged, directory):
    keeper = Keeper(directory and str(tmp_path / directory), logged.append)
    for leads in (True, False):
        assert not keeper.is_needed(leads)
        keeper.observe(read(manager, nodes(), leads))
        keeper.remove_former(manager, nodes(), leads)
    assert (logged, list(tmp_path.iterdir())) == ([], [])


def test_a_file_that_cannot_be_written_is_an_error(keeper, manager, tmp_path):
    (tmp_path / "gpu-swarm.prom").mkdir()
    with pytest.raises(GpuSwarmError, match="could not be written to"):
        keeper.observe(read(manager, nodes(), True))
