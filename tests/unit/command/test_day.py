# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands tell one story about a day on a fleet, from the record that the recorder wrote."""

from __future__ import annotations

import json

import pytest
from day_on_a_fleet import BROKEN, H100, at, play

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._command import command


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("record")
    play(folder)
    return folder


@pytest.fixture
def answer(directory, capsys, monkeypatch):
    monkeypatch.setattr(command.time, "time", lambda: at(8) + 12)

    def run(*argv):
        command.main([*argv, "--json"], command.Places(str(directory), str(directory / "cards.json")))
        return json.loads(capsys.readouterr().out)

    return run


def test_usage_counts_what_each_owner_had_and_estimates_only_what_nobody_saw(answer):
    rows = {row["name"]: row for row in answer("usage")["rows"]}
    assert {name: round(row["hours"], 2) for name, row in rows.items()} == {"alice": 7.5 + 2.6 + 0.67, "bob": 7 + 3, "": 1.0}
    # The sweep ran while the manager was away. Its begin is bounded by the time when swarm created its task.
    assert {name: round(row["estimated"], 2) for name, row in rows.items()} == {"alice": 0.67, "bob": 0, "": 0}
    assert {name: row["running"] for name, row in rows.items()} == {"alice": 1, "bob": 1, "": 1}


def test_each_way_of_counting_has_the_same_sum(answer):
    sums = {by: round(sum(row["cards"] for row in answer("usage", "--by", by)["rows"]), 6) for by in ("owner", "service", "model", "node")}
    assert len(set(sums.values())) == 1


def test_the_events_name_the_fault_the_pause_the_return_and_the_gap(answer):
    events = [(row["what"], row["hostname"], row["card"], row["since"]) for row in reversed(answer("events", "--since", "1d")["rows"])]
    assert events == [
        ("fault", "gpu-1", BROKEN, at(3, 6)),
        ("node-paused", "gpu-1", "", at(3, 7)),
        ("node-returned", "gpu-1", "", at(5)),
        ("fault-ended", "gpu-1", BROKEN, at(5)),
        ("gap", "", "", at(5, 10)),
    ]
    assert [row["what"] for row in answer("events", "--since", "2026-11-20", "--node", "gpu-2")["rows"]] == []


def test_the_history_of_the_broken_card_has_both_of_its_tasks_and_its_fault(answer):
    card = answer("card", BROKEN[:12])
    assert [(row["service"], row["begin_known"], row["end"], row["how"]) for row in card["allocations"]] == [
        ("sweep", False, at(6, 10), "complete"),
        ("train", True, at(3, 6), "failed"),
    ]
    assert [row["what"] for row in card["events"]] == ["fault-ended", "fault"]


def test_who_has_a_card_now_agrees_with_the_history_of_the_card(answer):
    (now,) = answer("who", H100[0])["rows"]
    newest = answer("card", H100[0])["allocations"][0]
    assert (now["service"], now["owner"], now["state"]) == (newest["service"], newest["owner"], "allocated")
    assert newest["end"] is None
