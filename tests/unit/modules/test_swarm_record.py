# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module swarm_record, and the playbook's report of its answers."""

from __future__ import annotations

import json

import pytest
from manager_files import NOW, A, allocation, event, write_record

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.schema import BY
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.record_text import ANSWERS, FIELDS, text_of
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.status_text import SECTIONS
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.times import WANTED
from ansible_collections.fleet.gpu_swarm.plugins.modules import swarm_record as module
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._calls.managers import as_manager_answer
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.declaration import PLAYBOOKS

SETTINGS = {setting.name: setting for setting in PLAYBOOKS}


@pytest.fixture
def run(tmp_path):
    def call(**params):
        defaults = {name: option.get("default") for name, option in module.OPTIONS.items()}
        return module.run({**defaults, "directory": str(tmp_path), **params}, NOW)

    return call


@pytest.mark.parametrize("params", [{"what": "usage"}, {"what": "events"}, {"what": "card", "card": A[:14]}])
def test_an_answer_has_only_known_fields_and_a_text(run, tmp_path, params):
    write_record(tmp_path, [allocation(2)], [event(1)])
    answer = run(**params)
    assert set(answer) <= set(FIELDS)
    assert json.loads(json.dumps(answer)) == answer
    assert "NVIDIA-GPU" in text_of(answer, 100) or params["what"] == "events"
    of_manager = as_manager_answer("swarm_record", {**answer, "changed": False}, "m1")
    assert of_manager["answered"] is True
    assert "Recorded on m1 since 2026-10-21 14:00 UTC." in text_of(of_manager, 100)


def test_the_page_gets_the_usage_of_a_week_and_the_events_of_a_day(run, tmp_path):
    write_record(tmp_path, [allocation(30, 1, "t0", "chat"), allocation(2)], [event(30, "leader"), event(20)])
    answer = run(what="page")
    assert json.loads(json.dumps(answer)) == answer
    assert sum(row["hours"] for row in answer["usage_rows"]) == pytest.approx(sum(row["hours"] for row in run(what="usage")["rows"]))
    assert sum(row["cards"] for row in answer["usage_by_day"]) == pytest.approx(sum(row["cards"] for row in answer["usage_rows"]))
    assert [row["what"] for row in answer["events"]] == ["fault"]


def test_usage_and_events_begin_when_the_user_says(run, tmp_path):
    write_record(tmp_path, [allocation(30, 1, "t0", "chat"), allocation(2)], [event(20, "leader"), event(1)])
    assert [row["name"] for row in run(what="usage", by="service", since="1d")["rows"]] == ["train"]
    assert [row["what"] for row in run(what="events", since="1d", node="host-g1")["rows"]] == ["fault", "leader"]
    assert [row["what"] for row in run(what="events")["rows"]] == ["fault"]


@pytest.mark.parametrize("params", [{"what": "usage", "since": "soon"}, {"what": "card", "card": ""}, {"what": "events", "directory": "/nowhere"}])
def test_a_problem_is_an_error_that_is_no_answer(run, tmp_path, params):
    write_record(tmp_path)
    with pytest.raises(GpuSwarmError) as caught:
        run(**params)
    assert as_manager_answer("swarm_record", {"failed": True, "msg": caught.value.message}, "m1")["answered"] is False


def test_the_settings_of_status_allow_what_the_module_allows():
    """The settings repeat these values, because loading the code that has them would slow down each run."""
    assert SETTINGS["status_what"].choices == (*SECTIONS, *ANSWERS)
    assert [*ANSWERS, "page"] == module.OPTIONS["what"]["choices"]
    assert SETTINGS["status_by"].choices == BY == tuple(module.OPTIONS["by"]["choices"])
    assert SETTINGS["status_since"].wants == WANTED
    assert [SETTINGS["status_since"].fits(text) for text in ("7d", "2026-11-20", "soon")] == [True, True, False]
