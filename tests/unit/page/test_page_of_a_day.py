# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page that the managers' service writes tells the same story about a day on a fleet as the commands (tests/unit/command/test_day.py)."""

from __future__ import annotations

import json
import re

import pytest
from day_on_a_fleet import BROKEN, at, readings

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.fleet_view import FleetView
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.page_file import PageFile
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.recorder import Recorder
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._page_template.page_template import page_template


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The data of the page during the fault, and at the end of the day."""
    record, folder = tmp_path_factory.mktemp("record"), tmp_path_factory.mktemp("page")
    (folder / "template").write_text(page_template(), encoding="utf-8")
    recorder, writer = Recorder(str(record)), PageFile(str(folder), str(folder / "template"), str(record), FleetView(20), "")
    found = {}
    for one in readings():
        recorder.observe(one)
        if one.at in (at(4), at(8)):
            assert writer.observe(one) == []
            text = (folder / "index.html").read_text(encoding="utf-8")
            found[one.at] = json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)[0])
    return found


def test_the_verdict_and_the_tile_name_the_fault(pages):
    data = pages[at(4)]
    assert (data["verdict"]["level"], data["verdict"]["headline"]) == ("red", "1 wrong")
    assert data["verdict"]["reasons"][0]["name"] == "gpu-1"
    states = {row[1]: data["names"][row[4]] for row in data["cards"]}
    assert states[BROKEN] == "faulty"
    assert sorted(states.values()) == ["allocated", "allocated", "faulty", "free", "free", "free"]


def test_the_usage_and_the_events_are_those_of_the_commands(pages):
    data = pages[at(8)]
    assert data["verdict"]["level"] == "green"
    assert {row["name"]: round(row["hours"], 2) for row in data["usage"]} == {"alice": 7.5 + 2.6 + 0.67, "bob": 7 + 3, "": 1.0}
    assert data["days"]["days"][-1] == "2026-11-20"
    assert sum(sum(row) for row in data["days"]["hours"]) == pytest.approx(7.5 + 2.6 + 0.67 + 7 + 3 + 1, abs=0.05)
    assert [event["what"] for event in reversed(data["events"])] == ["fault", "node-paused", "node-returned", "fault-ended", "gap"]
