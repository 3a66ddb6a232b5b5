# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from fleet_lab import ledger, member
from node_lab import resources

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node_spec.held_back import held_back

JOB = {"service": "job", "node": "n1", "clash": True}


def reasons(want, node=None, jobs=()):
    found = held_back([{"id": "n1", **want}], lambda: {**ledger(member("n1", hostname="gpu-1", **(node or {}))), "finished_jobs": list(jobs)})
    return [(missing["id"], missing["hostname"], missing["reason"]) for missing in found]


@pytest.mark.parametrize(
    ("node", "jobs", "reason"),
    [
        ({}, [], None),
        ({}, [{**JOB, "clash": False}], None),
        ({}, [{**JOB, "node": "n2"}], None),
        ({}, [JOB], "finished job job would run again"),
        ({"state": "down"}, [], "it is not ready"),
        ({"reachability": "unreachable"}, [JOB], "it is not ready"),
        ({"resources": {}}, [], "the manager shows 0 of 2 NVIDIA-GPU"),
    ],
)
def test_a_node_waits_until_swarm_shows_the_wanted_resources(node, jobs, reason):
    expected = [("n1", "gpu-1", reason)] if reason else []
    assert reasons({"if_shown": resources(0, 1)}, node, jobs) == expected


def test_without_a_condition_no_ledger_is_read():
    assert held_back([{"id": "n1"}, {"id": "n2", "if_shown": None}], lambda: pytest.fail("it was read")) == []


def test_having_no_resources_is_also_a_condition():
    assert reasons({"if_shown": []}, {"state": "down"}) == [("n1", "gpu-1", "it is not ready")]


def test_an_unknown_node_is_reported_elsewhere():
    assert held_back([{"id": "n9", "if_shown": []}], lambda: {**ledger(member("n1")), "finished_jobs": []}) == []
