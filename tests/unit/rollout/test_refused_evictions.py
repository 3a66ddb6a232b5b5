# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.fleet.gpu_swarm.plugins.filter.evict import FilterModule
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node_spec.refused_changes import CHOICES, forbidden
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.refused_evictions import EVICT, describe, not_written, refused_by_node
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.declaration import DISRUPTIONS

ROOT = Path(__file__).parents[3]


def record(task="t1", reason="constraint", slot=1, movable=False, **other):
    return {
        "service": "once",
        "task": task,
        "slot": slot,
        "reason": reason,
        "constraint": "node.labels.m==T4" if reason == "constraint" else None,
        "movable": movable,
        **other,
    }


def test_each_kind_of_consent_has_its_option():
    assert set(EVICT) == set(DISRUPTIONS)
    assert set(EVICT.values()) == set(CHOICES)


@pytest.mark.parametrize(("evict", "kept"), [("any", []), ("movable", ["b", "c"]), ("none", ["a", "b", "c"])])
def test_protected_tasks_may_not_be_evicted(evict, kept):
    assert [task["task"] for task in forbidden([record("a", movable=True), record("b"), record("c", movable=True, kept="k=true")], evict)] == kept


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (record(), "task once.1 (node.labels.m==T4 would no longer be met)"),
        (record(slot=None), "task once.t1 (node.labels.m==T4 would no longer be met)"),
        (record(restarts_left=0), "task once.1 (node.labels.m==T4 would no longer be met, and it has used up its restart attempts)"),
        (record(kept="k=1d"), "task once.1 (node.labels.m==T4 would no longer be met, and it is kept by its label k=1d)"),
        (record(reason="engine"), "task once.1 (the Docker Engine that leads the swarm may reject it)"),
        (record(reason="drain"), "task once.1 (started after the node was assessed, and a drain would stop it)"),
    ],
)
def test_a_task_is_reported_with_its_fate(task, words):
    assert describe(task) == words


def test_a_task_with_two_refused_calls_is_reported_once():
    first, second = {"id": "n1", "tasks": [record()]}, {"id": "n1", "tasks": [record(), record(slot=2)]}
    assert refused_by_node([first, second]) == {"n1": [describe(record()), describe(record(slot=2))]}
    assert refused_by_node([]) == {}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"nodes": []}, {}),
        ({"nodes": [], "refused": [{"id": "n2", "tasks": [record()]}]}, {}),
        ({"nodes": [], "refused": [{"id": "n1", "tasks": [record()]}]}, {"state": "waiting", "reason": describe(record())}),
        ({"failed": True, "msg": "no quorum"}, {"state": "failed", "reason": "not drained: no quorum"}),
        ({"unreachable": True}, {"state": "failed", "reason": "not drained: the manager did not say why"}),
    ],
)
def test_the_reason_for_not_writing_a_node_is_named(answer, outcome):
    assert not_written(answer, "n1", "not drained") == outcome


@pytest.mark.parametrize("file", ["promote", "demote"])
def test_a_change_of_role_evicts_only_what_the_role_may(file):
    tasks = yaml.safe_load((ROOT / f"roles/swarm_member/tasks/{file}.yml").read_text())
    write = next(number for number, task in enumerate(tasks) if "fleet.gpu_swarm.swarm_nodes" in task)
    (node,) = tasks[write]["fleet.gpu_swarm.swarm_nodes"]["nodes"]
    assert node["evict"] == "{{ swarm_member_evict }}"
    assert tasks[write + 1]["ansible.builtin.import_tasks"] == "consent.yml"


@pytest.mark.parametrize("file", ["join", "deprovision/remove"])
def test_the_playbooks_pass_on_what_a_change_of_role_may_evict(file):
    text = (ROOT / f"playbooks/tasks/{file}.yml").read_text()
    assert "disrupt | fleet.gpu_swarm.evict }}" in text


@pytest.mark.parametrize("disrupt", DISRUPTIONS)
def test_settings_decide_what_a_host_may_lose(disrupt):
    evict = FilterModule().filters()["evict"]
    assert evict(disrupt) == EVICT[disrupt]
    with pytest.raises(AnsibleFilterError, match="not 'often'"):
        evict("often")
