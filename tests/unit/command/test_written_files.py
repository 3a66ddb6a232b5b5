# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command reads what the services of this machine write."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from readings import T, reading
from swarm_api import A

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._command import written_files
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._command.written_files import read_cards, read_snapshot
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.fleet_view import FleetView
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.snapshot import Snapshot
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import manager_state, watcher_state
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch.card_readings import CardReadings


def test_the_snapshot_of_the_managers_service_is_read(tmp_path):
    Snapshot(str(tmp_path), FleetView(20)).observe(reading())
    found = read_snapshot(str(tmp_path))
    assert (found.at, found.manager, found.leads) == (T, "host-n1", True)
    assert [card["card"] for card in found.cards] == [A]
    assert [node["node"] for node in found.status["nodes"]] == ["host-n1"]


def test_the_readings_of_the_watcher_are_read(tmp_path):
    path = tmp_path / watcher_state.CARDS
    path.parent.mkdir(parents=True)
    row = {"uuid": A, "temperature_c": 71}
    assert CardReadings({}, str(tmp_path), SimpleNamespace(time=lambda: T + 0.9)).write([row]) == []
    assert read_cards(str(path), T + 1) == {A: row}
    assert read_cards(str(path), T + 3600) == {}


def test_the_files_are_where_the_services_write_them():
    assert f"/{watcher_state.CARDS}" == written_files.CARDS
    assert written_files.SNAPSHOT == manager_state.SNAPSHOT
    assert f"/var/lib/gpu-swarm/{manager_state.SHARED[manager_state.RECORD]}" == written_files.RECORD


SNAPSHOT = {"version": 1, "at": T, "manager": "m1", "leads": True, "status": {}, "cards": []}


@pytest.mark.parametrize(
    "content",
    [[], "x", None, {}, {**SNAPSHOT, "version": 2}, {**SNAPSHOT, "at": "soon"}, {**SNAPSHOT, "status": 7}, {**SNAPSHOT, "cards": None},
     {key: value for key, value in SNAPSHOT.items() if key != "manager"}],
)  # fmt: skip
def test_a_file_of_another_form_is_an_error(tmp_path, content):
    (tmp_path / "snapshot.json").write_text(json.dumps(content))
    with pytest.raises(GpuSwarmError, match=r"snapshot\.json"):
        read_snapshot(str(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"version": 1, "at": "x", "cards": []}', '{"version": 1, "at": 1, "cards": 7}', "[" * 99999])
def test_unreadable_readings_of_cards_are_ignored(tmp_path, text):
    (tmp_path / "cards.json").write_text(text)
    assert read_cards(str(tmp_path / "cards.json"), T) == {}
