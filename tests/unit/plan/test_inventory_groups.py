# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible import context

from ansible_collections.fleet.gpu_swarm.plugins.filter.no_hosts_reason import FilterModule
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.inventory_groups import are_all_of_this_collection, no_hosts_reason

WANTED = ["swarm_managers", "gpu_nodes", "swarm_workers"]
RIGHT = {"all": ["m1", "g1", "w1"], "ungrouped": [], "swarm_managers": ["m1"], "gpu_nodes": ["g1"], "web": ["w1"]}
NONE = "none of the groups swarm_managers, gpu_nodes and swarm_workers has a host"


@pytest.mark.parametrize(("limited", "groups"), [(None, RIGHT), (["g1"], RIGHT), (["w1", "m1"], RIGHT), (None, dict(RIGHT, gpu_nodes=[]))])
def test_a_run_with_hosts_starts(limited, groups):
    assert no_hosts_reason(groups, WANTED, limited) == ""


@pytest.mark.parametrize(
    ("groups", "wanted", "text"),
    [
        ({"all": [], "ungrouped": []}, WANTED, f"{NONE}. The inventory has no hosts at all. Give one with -i."),
        (
            {"all": ["g1"], "ungrouped": ["g1"]}, WANTED,
            f"{NONE}. It has no groups. Put hosts into swarm_managers, gpu_nodes and swarm_workers, and run this again.",
        ),
        ({"all": ["g1"], "gpunodes": ["g1"]}, WANTED, f"{NONE}. It has the groups gpunodes. Did you mean gpu_nodes by gpunodes? Put"),
        ({"all": ["g1"], "GPU-Nodes": ["g1"], "manager": ["g1"]}, WANTED, "Did you mean gpu_nodes by GPU-Nodes? Put"),
        (
            {"all": ["g1"], "gpu": ["g1"], "swarm_manager": ["g1"], "workers": []}, WANTED,
            "It has the groups gpu, swarm_manager, workers. Did you mean swarm_managers by swarm_manager? Put",
        ),
        (dict(RIGHT, gpu_nodes=[]), ["gpu_nodes"], "the group gpu_nodes is empty. It has the groups swarm_managers, web. Put hosts into gpu_nodes,"),
        ({"all": ["m1"], "swarm_managers": ["m1"]}, ["gpu_nodes"], "the group gpu_nodes is not in the inventory. It has the groups swarm_managers."),
    ],
)  # fmt: skip
def test_the_reason_for_no_hosts_is_named(groups, wanted, text):
    assert no_hosts_reason(groups, wanted).startswith("There is no host to work on: ")
    assert text in no_hosts_reason(groups, wanted)


@pytest.mark.parametrize(("limited", "text"), [(["w1"], "it leaves w1"), ([], "it leaves no host at all")])
def test_a_limit_without_hosts_is_an_error(limited, text):
    assert f"--limit leaves none of swarm_managers, gpu_nodes and swarm_workers; {text}." in no_hosts_reason(RIGHT, WANTED, limited)


@pytest.mark.parametrize(
    ("playbooks", "own"),
    [
        (["fleet.gpu_swarm.provision"], True),
        (["fleet.gpu_swarm.provision", "fleet.gpu_swarm.verify"], True),
        (["/c/ansible_collections/fleet/gpu_swarm/playbooks/provision.yml"], True),
        (["site.yml"], False),
        (["fleet.gpu_swarm.provision", "site.yml"], False),
        (["/srv/playbooks/provision.yml"], False),
        ([], False),
    ],
)
def test_the_started_playbook_is_named(playbooks, own):
    assert are_all_of_this_collection(playbooks) is own


@pytest.mark.parametrize(("limited", "reported"), [(None, False), ("", False), ([], True), (["g1"], False)])
def test_older_releases_of_ansible_core_have_an_empty_limit(monkeypatch, limited, reported):
    monkeypatch.setattr(context, "CLIARGS", {"args": ["fleet.gpu_swarm.provision"]})
    assert bool(FilterModule().filters()["no_hosts_reason"](RIGHT, WANTED, limited)) == reported
