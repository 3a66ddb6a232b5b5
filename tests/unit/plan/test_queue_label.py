# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""provision keeps the queues of the setting in the swarm's label, and says what changes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fleet_lab import host, ledger, member

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan import queue_label

RESEARCH = {"research": {"weight": 3}}
KEPT = {"research": {"weight": 3}, "old": {}}


def shows(label, *nodes):
    """Return a manager's ledger with this label of the swarm."""
    text = label if isinstance(label, str) else json.dumps(label)
    return {**ledger(*(nodes or [member()])), "swarm": {"queues": text}}


def change_of(setting, label):
    return queue_label.update(queue_label.wanted_queues(setting), shows(label))


@pytest.mark.parametrize(
    ("setting", "label", "change"),
    [
        (None, "", {}),
        (None, KEPT, {}),
        ({}, "", {}),
        ({}, KEPT, {"queues": {}}),
        (RESEARCH, "", {"queues": RESEARCH}),
        (RESEARCH, RESEARCH, {}),
        ({"research": {"weight": 3, "priority": 0, "time_limit": "1440m"}}, RESEARCH, {}),
        (RESEARCH, KEPT, {"queues": RESEARCH}),
        (RESEARCH, "{", {"queues": RESEARCH}),
        (RESEARCH, "[" * 100_000, {"queues": RESEARCH}),
        ({}, "{", {"queues": {}}),
        ({1: None}, "", {"queues": {"1": {}}}),
        ({1: None}, {"1": {}}, {}),
    ],
)
def test_the_setting_becomes_the_label_of_the_swarm(setting, label, change):
    assert change_of(setting, label) == change


def test_the_label_of_a_swarm_that_does_not_exist_yet_is_written_when_it_begins():
    wanted = queue_label.wanted_queues(RESEARCH)
    assert queue_label.update(wanted, None) == {}
    assert queue_label.initial_labels(wanted) == {"gpu-swarm.queues": '{"research":{"weight":3}}'}
    assert queue_label.initial_labels(None) == queue_label.initial_labels({}) == {}


def test_an_invalid_setting_is_an_error():
    with pytest.raises(GpuSwarmError, match="weight of the queue research is 0"):
        queue_label.wanted_queues({"research": {"weight": 0}})


@pytest.mark.parametrize(
    ("setting", "label", "text"),
    [
        (RESEARCH, RESEARCH, ""),
        (RESEARCH, "", "The queues of the swarm change: research is new (weight: 3)."),
        ({"research": {}}, "", "The queues of the swarm change: research is new (with the defaults)."),
        (
            {"research": {"weight": 2, "max": {"GPU": 8}}, "night": {}},
            KEPT,
            (
                "The queues of the swarm change: night is new (with the defaults); research changes from weight: 3 to max: {'GPU': 8}, weight: 2; "
                "old is removed, and its work waits."
            ),
        ),
        ({}, RESEARCH, "The queues of the swarm change: research is removed, and its work waits."),
        ({}, "{", "The label of the swarm with its queues is written again."),
        (RESEARCH, {"research": 7}, "The queues of the swarm change: research changes from 7 to weight: 3."),
        ({}, {"\x1b[2J": {}}, "The queues of the swarm change: \\x1b[2J is removed, and its work waits."),
    ],
)
def test_the_impact_says_which_queues_change(setting, label, text):
    assert queue_label.describe_change(change_of(setting, label), shows(label)) == text


@pytest.mark.parametrize(("bound", "change"), [("g1", {}), (False, {"queues": {}})])
def test_the_queues_are_removed_with_the_last_node(bound, change):
    assert queue_label.update_after_removal(shows(KEPT, member("n1", bound=False), member("n2", bound=bound))) == change


MANAGERS = [host("m1", manager=True, gpu=False), host("m2", manager=True, gpu=False)]


@pytest.mark.parametrize(("wanted", "label"), [(RESEARCH, ""), (None, KEPT)])
def test_queues_without_the_service_that_starts_their_work_are_an_error(wanted, label):
    with pytest.raises(GpuSwarmError, match="no manager would have the service gpu-swarm-manager, which starts their work. Set gpu_swarm_record to"):
        queue_label.check_service(wanted, shows(label), MANAGERS, ["m1", "m2"])


@pytest.mark.parametrize(
    ("wanted", "label", "hosts", "managers"),
    [
        ({}, KEPT, MANAGERS, ["m1", "m2"]),
        (None, "", MANAGERS, ["m1", "m2"]),
        (RESEARCH, "", MANAGERS, ["m1", "m2", "m3"]),  # --limit leaves out m3
        (RESEARCH, "", [host("g1")], []),
        (RESEARCH, "", [MANAGERS[0], replace(MANAGERS[1], records=True)], ["m1", "m2"]),
    ],
)
def test_otherwise_it_is_none(wanted, label, hosts, managers):
    queue_label.check_service(wanted, shows(label), hosts, managers)


def test_the_part_that_removes_jobs_is_enough():
    one = host("m1", manager=True, gpu=False)
    one.assessed["react"] = {"settings": {"jobs": {}, "docker_socket": "/var/run/docker.sock"}}
    queue_label.check_service(RESEARCH, shows(""), [one], ["m1"])
