# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.warnings import (
    add_host_name,
    even_managers,
    long_runners,
    merge_noted,
    unreadable_keep_labels,
)

OLD = "Docker Engine 20.10.24: upgrade it."
AS_ANSIBLE_KEEPS_IT = SimpleNamespace(event=SimpleNamespace(msg=OLD))


@pytest.mark.parametrize("warning", [OLD, AS_ANSIBLE_KEEPS_IT])
def test_a_warning_names_its_host(warning):
    assert add_host_name({"warnings": [warning], "changed": False}, "g1") == {"warnings": [f"g1: {OLD}"], "changed": False}


def test_an_earlier_warning_is_not_repeated():
    assert add_host_name({"warnings": [OLD, "g1: label x is dropped"]}, "g1", noted=[OLD]) == {"warnings": ["g1: label x is dropped"]}
    assert add_host_name({"warnings": [OLD]}, "g1", noted=[OLD]) == {}


def test_the_plan_has_one_warning_for_all_hosts():
    answers = {name: add_host_name({"warnings": texts}, name, later=True) for name, texts in {"g1": [OLD], "g2": [], "g3": [OLD, "other"]}.items()}
    assert merge_noted({**answers, "gone": None, "bare": {}}) == [f"g1, g3: {OLD}", "g3: other"]


def test_a_warning_of_a_host_is_not_a_warning_of_the_plan():
    assert add_host_name({"noted": "anything"}, "g1") == {}


@pytest.mark.parametrize(
    ("count", "words"),
    [(1, None), (2, "2 managers can lose none of them, like a swarm of 1"), (3, None), (4, "4 managers can lose 1 of them, like a swarm of 3")],
)
def test_an_even_number_of_managers_is_mentioned_when_one_is_added(count, words):
    managers = [f"m{number}" for number in range(count)]
    text = even_managers(managers, {"m0": ["join"], "g1": ["join"]})
    assert (words in text[0]) if words else text == []
    assert even_managers(managers, {"m0": ["restart"], "g1": ["join"]}) == []


def test_an_unreadable_label_has_one_warning_for_its_service():
    labels = {"train": "gpu-swarm.keep=soon", "web": "gpu-swarm.keep=true", "job": None, "api": "gpu-swarm.keep=12h"}
    tasks = [{"service": service, "kept": kept} for service, kept in labels.items()]
    (text,) = unreadable_keep_labels([{"tasks": tasks}, {"tasks": tasks}, {}])
    assert text == (
        "service train: its label gpu-swarm.keep=soon is not true, false or an age such as 12h or 2d, so it is treated as true. Its tasks are not "
        "moved until you correct the label: docker service update --label-add gpu-swarm.keep=12h train"
    )


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ({"g1": [], "g2": []}, None),
        ({"g1": ["a.1 (2 d)", "b.1 (1 d 1 h)"], "g2": ["a.2 (3 d)"]}, "moved: a.1 (2 d) on g1, b.1 (1 d 1 h) on g1, a.2 (3 d) on g2. To keep"),
        ({"g1": [f"a.{number} (2 d)" for number in range(7)]}, "a.4 (2 d) on g1 and 2 more. To keep"),
    ],
)
def test_long_running_tasks_that_move_are_warned_of(tasks, words):
    text = long_runners(tasks, "team.keep")
    assert (words in text[0] and text[0].endswith("--label-add team.keep=true SERVICE")) if words else text == []
