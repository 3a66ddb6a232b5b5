# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status that people on a manager read: complete, for them only, and with one clear sentence if it cannot be written."""

from __future__ import annotations

import json
import os

import pytest
from read_manager import ReadManager, nodes
from swarm_api import A

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.reading import read
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.fleet_view import FleetView
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.snapshot import Snapshot


@pytest.fixture
def reading():
    return read(ReadManager(), nodes(), True)


def test_the_snapshot_says_what_was_read_when_and_by_whom(tmp_path, reading):
    tmp_path.chmod(0o2750)
    assert Snapshot(str(tmp_path), FleetView(20)).observe(reading) == []
    (file,) = tmp_path.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("snapshot.json", 0o640)
    found = json.loads(file.read_text())
    assert (found["version"], found["at"], found["manager"], found["swarm"], found["leads"]) == (1, reading.at, "host-n1", "c1", True)
    assert found["status"]["nodes"][0]["node"] == "host-n1"
    assert [card["card"] for card in found["cards"]] == [A]


def test_a_new_snapshot_replaces_the_old_one(tmp_path, reading):
    for at in (1, 2):
        Snapshot(str(tmp_path), FleetView(20)).observe(reading._replace(at=at))
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text())["at"] == 2


def test_a_directory_for_root_only_is_reported(tmp_path, reading):
    tmp_path.chmod(0o700)
    (line,) = Snapshot(str(tmp_path), FleetView(20)).observe(reading)
    assert line == f"only root can read {tmp_path}, because this machine has no group docker"


def test_a_missing_directory_is_an_error_with_its_remedy(tmp_path, reading):
    with pytest.raises(GpuSwarmError, match=f"{tmp_path}/record/snapshot.json could not be written: No such file or directory. Run fleet"):
        Snapshot(os.path.join(tmp_path, "record"), FleetView(20)).observe(reading)
