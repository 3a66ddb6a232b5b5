# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace

import pytest
from fleet_lab import assessed, host, member, step_with, swarm
from host_vars import GROUPS, HostVars

from ansible_collections.fleet.gpu_swarm.plugins.action import provision_plan as action
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.inventory import HOLD, hosts_of
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import END, FETCH, LABEL, MARKED, PREPARE, WINDOW, Host
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.provision import hosts_in, plan, to_change


def hosts(variables, groups=None, results=("gpu_node_assessed",), templated=None, play=None):
    """Return the hosts. The task runs for the first host, which sees its own variables and those of the play."""
    first = next(iter(variables))
    shown = {"inventory_hostname": first, "groups": GROUPS if groups is None else groups, "hostvars": HostVars(variables, templated)}
    task_vars = {**variables[first], **(play or {}), **shown}
    return {one.name: one for one in hosts_of(task_vars, list(variables), results)}


def test_a_failed_result_does_not_replace_the_earlier_one():
    results = ("gpu_node_assessed", "gpu_node_applied")
    found = hosts(
        {
            "g1": {"gpu_node_assessed": assessed("n1"), "gpu_node_applied": {"failed": True, "msg": "dockerd did not start"}},
            "g2": {"gpu_node_assessed": assessed("n2"), "gpu_node_applied": assessed("n2", restarted=True)},
            "g3": {"gpu_node_assessed": {"failed": True, "msg": "no driver"}},
        },
        results=results,
    )
    assert {name: (one.node_id, (one.assessed or {}).get("restarted")) for name, one in found.items()} == {
        "g1": ("n1", None),
        "g2": ("n2", True),
        "g3": (None, None),
    }
    assert found["g3"].failed


def test_the_groups_of_a_host_decide_what_it_becomes():
    found = hosts({"m1": {}, "g1": {}, "both": {}, "w1": {}})
    assert {name: (one.gpu, one.manager) for name, one in found.items()} == {
        "m1": (False, True),
        "g1": (True, False),
        "both": (True, True),
        "w1": (False, False),
    }
    assert replace(hosts({"w1": {}}, groups={})["w1"], settings={}) == Host("w1", False, False, None)


@pytest.mark.parametrize(
    ("written", "toolkit", "disrupt", "move"),
    [
        ({}, None, "services", False),
        ({"nvidia_container_toolkit_version": "", "provision_disrupt": "all", "swarm_member_move": True}, None, "all", True),
        ({"nvidia_container_toolkit_version": None, "swarm_member_move": "yes"}, None, "services", True),
        ({"nvidia_container_toolkit_version": "1.20.0-1", "swarm_member_move": "false"}, "1.20.0-1", "services", False),
        ({"nvidia_container_toolkit_version": 1.2}, "1.2", "services", False),
        ({"provision_disrupt": False}, None, "False", False),  # YAML reads "off" as false; the plan refuses this value
    ],
)
def test_settings_are_read(written, toolkit, disrupt, move):
    one = hosts({"g1": written})["g1"]
    assert (one.toolkit, one.disrupt, one.move) == (toolkit, disrupt, move)


def test_each_host_has_its_own_settings():
    found = hosts({"m1": {}, "g1": {"nvidia_container_toolkit_version": "1.20.0"}, "both": {"provision_disrupt": "all"}})
    assert [(one.toolkit, one.disrupt) for one in found.values()] == [(None, "services"), ("1.20.0", "services"), (None, "all")]


def test_variables_of_the_play_count_for_all_hosts_and_others_for_one_host():
    variables = {"m1": {"provision_disrupt": "never"}, "g1": {"provision_disrupt": "all"}, "w1": {}}
    assert [one.disrupt for one in hosts(variables).values()] == ["never", "all", "services"]
    assert [one.disrupt for one in hosts(variables, play={"provision_disrupt": "services"}).values()] == ["services"] * 3
    assert [one.toolkit for one in hosts(variables, play={"nvidia_container_toolkit_version": "1.20.0"}).values()] == ["1.20.0"] * 3


@pytest.mark.parametrize(
    ("written", "leave", "packages", "kept"),
    [
        ({}, True, False, False),
        ({"deprovision_leave": "no", "deprovision_packages": "yes", "gpu_node_assessed": assessed(kept=True)}, False, True, True),
        ({"deprovision_leave": True, "gpu_node_assessed": assessed(kept=False)}, True, False, False),
    ],
)
def test_each_host_sets_what_is_removed(written, leave, packages, kept):
    one = hosts({"g1": written})["g1"]
    assert (one.leave, one.packages, one.kept) == (leave, packages, kept)


def test_only_templates_are_templated():
    written = {"g1": {"nvidia_container_toolkit_version": "{{ pinned }}"}, "w1": {"nvidia_container_toolkit_version": "1.19.0"}}
    task_vars = {"inventory_hostname": "g1", "groups": GROUPS, "hostvars": HostVars(written, {"g1": {"nvidia_container_toolkit_version": "1.20.0"}})}
    found = hosts_of(task_vars, ["g1", "w1"], ("gpu_node_assessed",))
    assert [one.toolkit for one in found] == ["1.20.0", "1.19.0"]
    assert task_vars["hostvars"].queried == ["g1"]


def test_the_latest_result_counts():
    both = {"gpu_node_assessed": {"a": 1}, "gpu_node_applied": {"a": 2}}
    results = ("gpu_node_assessed", "gpu_node_applied")
    assert hosts({"g1": both}, results=results)["g1"].assessed == {"a": 2}
    assert hosts({"g1": {"gpu_node_assessed": {"a": 1}}}, results=results)["g1"].assessed == {"a": 1}
    assert hosts({"g1": {}}, results=results)["g1"].assessed is None


# --- the plays' groups ------------------------------------------------------------------------------------------------

STEPS = {
    "done": step_with(),
    "fresh": step_with(groups=[FETCH, PREPARE, LABEL, END]),
    "drift": step_with(groups=[WINDOW, MARKED, LABEL, END]),
    "busy": step_with(groups=[END], waits_for=["container x"]),
    "stranger": step_with(groups=[END], error="in another swarm"),
    "left": step_with(groups=[MARKED, END], error="a label clash"),
    "gone": step_with(error="unreachable"),
}


def test_hosts_are_listed_by_group():
    assert hosts_in(STEPS) == {
        FETCH: ["fresh"],
        PREPARE: ["fresh"],
        LABEL: ["fresh", "drift"],
        END: ["fresh", "drift", "busy", "stranger", "left"],
        WINDOW: ["drift"],
        MARKED: ["drift", "left"],
    }
    assert hosts_in({"done": step_with()}) == {}


def test_only_hosts_with_work_need_the_lease():
    assert to_change(hosts_in(STEPS)) == ["fresh", "drift", "left"]
    assert to_change(action._check_mode_groups(STEPS)) == []


def test_a_step_sets_the_settings_that_tasks_read():
    known_swarm = swarm(member(bound="a"), member("n2", bound="b"))
    fleet = [host("a", restart_required=True), host("b", node_id="n2")]
    for one, seconds in zip(fleet, (60, 3600), strict=True):
        one.settings = {"provision_drain_timeout": seconds}
    run = {"provision_allow_pending": None, "provision_remove_finished_jobs": False}
    for args, waits in (({}, 60), ({"maintain": "runs driver.yml"}, 0)):
        steps, _lost = action._steps(fleet, known_swarm, {"state": "present", "maintain": None, **args}, run)
        assert {name: (step.settings, step.work.restart_waits) for name, step in steps.items()} == {
            "a": ({"provision_drain_timeout": 60}, waits),
            "b": ({"provision_drain_timeout": 3600}, 0),
        }


def test_check_mode_searches_packages_and_fails_if_a_host_cannot_continue():
    groups = action._check_mode_groups(STEPS)
    assert groups == {FETCH: ["fresh"], END: ["stranger", "left"]}
    assert action._check_mode_groups({name: STEPS[name] for name in ("done", "drift", "busy", "gone")}) == {}
    assert action._check_mode_groups({"last": step_with(groups=[END], remains="the swarm would end")}) == {END: ["last"]}


def test_check_mode_fails_a_host_without_docker_and_no_other():
    fleet = [host("a", restart_required=True), host("b", node_id=None, missing=["engine"]), Host("c", True, False, dict(assessed("n3"), failed=True))]
    assert action._check_mode_groups(plan(fleet, swarm(member(bound="a")))) == {END: ["b"]}


def test_evicted_tasks_by_node():
    evicted = [
        {"node": "n1", "service": "train", "slot": 2, "task": "t1", "reason": "constraint", "constraint": "node.labels.gpu.count==8"},
        {"node": "n2", "service": "train", "slot": 1, "task": "t2", "reason": "engine", "constraint": None},
        {"node": "n1", "service": "watch", "slot": None, "task": "t3", "reason": "constraint", "constraint": "node.labels.gpu.count==8"},
    ]
    lost = "(node.labels.gpu.count==8 would no longer be met)"
    assert action._by_node(evicted) == {
        "n1": {"t1": f"task train.2 {lost}", "t3": f"task watch.t3 {lost}"},
        "n2": {"t2": "task train.1 (the Docker Engine that leads the swarm may reject it)"},
    }
    assert action._by_node([]) == {}


@pytest.mark.parametrize(
    ("written", "expected"), [({}, None), ({HOLD: ""}, None), ({HOLD: None}, None), ({HOLD: "yes"}, True), ({HOLD: False}, False)]
)
def test_holding_the_toolkit_is_undecided_by_default(written, expected):
    assert hosts({"g1": written})["g1"].hold is expected


@pytest.mark.parametrize(
    ("m1", "g1", "limit"),
    [
        ({}, {}, 20),
        ({}, {"gpu_node_health": False}, None),
        ({"swarm_member_react_limit": "5"}, {"gpu_node_health": "yes"}, 5),
        ({"swarm_member_react": False}, {}, None),
        ({"gpu_node_health": True}, {"gpu_node_health": False}, None),  # a manager without GPUs has no watcher
    ],
)
def test_managers_react_if_any_gpu_node_is_watched(m1, g1, limit):
    """The GPU nodes may be outside this run."""
    variables = {"m1": m1, "g1": g1, "both": {"gpu_node_health": False}}
    shown = {**m1, "inventory_hostname": "m1", "groups": GROUPS, "hostvars": HostVars(variables)}
    found = hosts_of(shown, ["m1", "g1"], ("gpu_node_assessed",))
    assert [one.reacts for one in found] == [limit, None]
    assert [one.metrics for one in found] == ["" if limit is None else "/var/lib/prometheus/node-exporter", ""]
    assert not any(one.keeps_reacting for one in found)  # the inventory has GPU nodes, so their settings decide


@pytest.mark.parametrize(
    ("m1", "groups", "keeps"),
    [
        ({}, {}, True),
        ({}, {"gpu_nodes": []}, True),
        ({"gpu_node_health": False}, {}, False),
        ({"swarm_member_react": False}, {}, False),
    ],
)
def test_managers_keep_their_service_unless_a_gpu_node_decides_otherwise(m1, groups, keeps):
    variables = {"m1": m1, "w1": {}}
    shown = {**m1, "inventory_hostname": "m1", "groups": {"swarm_managers": ["m1"], **groups}, "hostvars": HostVars(variables)}
    found = hosts_of(shown, ["m1", "w1"], ("gpu_node_assessed",))
    assert [(one.reacts, one.keeps_reacting) for one in found] == [(None, keeps), (None, False)]
    assert [one.metrics for one in found] == ["/var/lib/prometheus/node-exporter" if keeps else "", ""]


@pytest.mark.parametrize(
    ("written", "records", "page", "address"),
    [
        ({}, True, False, ""),
        ({"gpu_swarm_record": "no", "gpu_swarm_page": "yes", "gpu_swarm_grafana_url": "https://g.example.org"}, False, True, "https://g.example.org"),
        ({"gpu_swarm_grafana_url": None}, True, False, ""),
    ],
)
def test_only_managers_record_and_have_a_page(written, records, page, address):
    found = hosts({"m1": written, "g1": written})
    assert [(one.records, one.page, one.grafana_url) for one in found.values()] == [(records, page, address), (False, False, address)]
