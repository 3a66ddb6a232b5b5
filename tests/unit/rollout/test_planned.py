# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run of Ansible may contain several playbooks. The plays of each playbook use only the plan of this playbook."""

from __future__ import annotations

import re
from pathlib import Path

import fleet_lab
import pytest
import yaml
from fleet_lab import LABELS, assessed
from host_vars import HostVars

from ansible_collections.fleet.gpu_swarm.plugins.action import report
from ansible_collections.fleet.gpu_swarm.plugins.filter.label_updates import FilterModule as LabelUpdates
from ansible_collections.fleet.gpu_swarm.plugins.filter.planned import FilterModule
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.inventory import FAILED_BEFORE, current_answer, with_current_answers
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import END, FETCH, WINDOW, Host
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.outcome import outcome_of
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.member import member_of
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.planned import planned

ROOT = Path(__file__).parents[3]
FIRST = {"made": 1, "hosts_in": {WINDOW: ["a", "b"], END: ["a", "b"]}, "batches": [["a"], ["b"]]}
NOTHING = {"made": 2, "hosts_in": {}, "batches": []}
SECOND = {"made": 3, "hosts_in": {FETCH: ["b"], WINDOW: ["c", "b"], END: ["a", "b", "c"]}, "batches": [["c", "b"]]}


def fleet(**plans):
    return {name: {"gpu_swarm_plan": plan} if plan else {} for name, plan in plans.items()}


@pytest.mark.parametrize(
    ("holders", "fleet", "found"),
    [
        ([], fleet(a=None, b=None), {"batches": []}),  # nothing to do yet
        (["a"], fleet(a=FIRST, b=FIRST), {WINDOW: ["a", "b"], END: ["a", "b"], "batches": [1, 1]}),
        (["a"], fleet(a=NOTHING, b=NOTHING), {"batches": []}),  # the second playbook has nothing to do
        (["a"], fleet(a=FIRST, b=NOTHING), {WINDOW: ["a"], END: ["a"], "batches": [1]}),  # b has a newer plan, and nothing to do
        (["a", "b"], fleet(a=SECOND, b=SECOND, c=SECOND), {**SECOND["hosts_in"], "batches": [2]}),
        (["a", "b"], fleet(a=FIRST, b=SECOND, c=SECOND), {FETCH: ["b"], WINDOW: ["c", "b"], END: ["b", "c"], "batches": [2]}),
    ],
)
def test_plays_are_for_the_hosts_of_the_newest_plan(holders, fleet, found):
    assert planned(holders, fleet.__getitem__) == found


@pytest.mark.parametrize(
    ("lease", "groups"),
    [({}, [WINDOW, END]), ({"acquired": True}, [WINDOW, END]), ({"acquired": False}, [END]), ({"failed": True}, [END])],
)
def test_if_another_run_has_the_lease_only_the_last_play_has_hosts(lease, groups):
    known = {name: {"gpu_swarm_plan": FIRST, "gpu_swarm_lease": lease} for name in "ab"}
    assert [group for group in planned(["a"], known.__getitem__) if group != "batches"] == groups


def test_a_skipped_host_moves_no_other_host_into_another_batch():
    """Otherwise, two managers could be in one batch."""
    cut = [["a", "b"], ["c"], ["m1"], ["m2"], ["m3"]]
    made = {"made": 5, "hosts_in": {WINDOW: [name for batch in cut for name in batch]}, "batches": cut}
    known = fleet(**dict.fromkeys(("a", "m1", "m2", "m3"), made), b=FIRST, c=FIRST)
    assert planned(["a"], known.__getitem__) == {WINDOW: ["a", "m1", "m2", "m3"], "batches": [1, 1, 1, 1]}


def test_before_the_first_plan_no_variables_are_read():
    assert FilterModule().filters()["planned"]({"gpu_nodes": ["a"]}, {}) == {}


@pytest.mark.parametrize(
    ("answer", "alive", "found"),
    [
        (assessed("n1"), True, assessed("n1")),
        (assessed("n1"), False, {"failed": True, "msg": FAILED_BEFORE}),  # this answer is from an earlier playbook
        ({"unreachable": True, "msg": "no route"}, False, {"unreachable": True, "msg": "no route"}),
        ({"failed": True, "msg": "no driver"}, False, {"failed": True, "msg": "no driver"}),
        (None, False, None),
    ],
)
def test_the_answer_of_a_host_that_an_earlier_task_failed_on_is_not_used(answer, alive, found):
    assert current_answer(answer, alive) == found
    [one] = with_current_answers([Host("a", True, False, answer)], ["a"] if alive else ["b"])
    assert (one.assessed, one.failed) == (found, not alive)


def test_without_a_plan_labels_are_as_found():
    """Plans, results and labels of an earlier playbook in the same run do not count."""
    kept = {
        **fleet_lab.planned("a", node_id="n9", labels={"gpu-swarm-leaving": "a"}, mark="keep"),
        "gpu_node_applied": {"labels": {"gpu.count": "8"}},
        "swarm_member_state": {"state": "inactive"},
        "gpu_swarm_outcome": {"state": "waiting", "reason": "container x"},
        "gpu_swarm_lease": {"acquired": False, "holder": "bob"},
    }
    variables = HostVars({"a": {"gpu_node_assessed": assessed("n1"), **kept}})
    label_updates = LabelUpdates().filters()["label_updates"]
    assert label_updates(["a"], variables) == []
    assert label_updates(["a"], variables, planned=False) == [{"id": "n1", "host": "a", "labels": LABELS, "mark": "set"}]


def test_forgotten_values_have_no_effect():
    assert outcome_of({"gpu_swarm_outcome": {}}) is None
    assert member_of("a", {"gpu_swarm_lease": {}}).lost_lease == ""


def test_a_report_ignores_what_a_lost_host_kept_from_an_earlier_playbook():
    known = HostVars(fleet(a=FIRST, b=SECOND))
    read = report._variables_of_plan({"hostvars": known, "gpu_swarm_plan": SECOND}, ["a", "b"])
    assert read == {"a": {}, "b": known.raw_get("b")}


# --- the tasks --------------------------------------------------------------------------------------------------------

[FORGOTTEN] = [task["ansible.builtin.set_fact"] for task in yaml.safe_load((ROOT / "playbooks/tasks/plan/reset.yml").read_text())]
TASKS = [path for part in ("playbooks", "roles") for path in (ROOT / part).rglob("*.yml")]


@pytest.mark.parametrize("name", FORGOTTEN)
def test_no_task_tests_whether_a_variable_that_starts_empty_is_defined(name):
    """A list of hosts may filter by 'defined' if it also skips empty values, because hosts of another play lack the variable."""
    tests = re.compile(rf"(?<![\w.]){name} is (not )?defined|rejectattr\('{name}', 'defined'\)|'{name}', 'defined'\)(?!\s*\|\s*\w+attr\('{name})")
    assert [(str(path.relative_to(ROOT)), found[0]) for path in TASKS for found in tests.finditer(path.read_text())] == []


def facts_set_by(tasks):
    """Yield the facts that these tasks set for one host, and not for all hosts."""
    for task in tasks:
        for block in ("block", "rescue", "always"):
            yield from facts_set_by(task.get(block) or ())
        if not task.get("run_once"):
            yield from task.get("ansible.builtin.set_fact") or ()


def test_facts_of_a_playbook_are_forgotten_before_the_next_one():
    tasks = [task for path in (ROOT / "playbooks/tasks").rglob("*.yml") for task in yaml.safe_load(path.read_text())]
    assert set(facts_set_by(tasks)) == {"gpu_swarm_outcome"}
    assert set(FORGOTTEN) >= {"gpu_swarm_outcome"}
