# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of a run about hosts are read without templating. With templating, Ansible would template all results and the plan of every host."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from fleet_lab import assessed, ledger, member, step_with
from host_vars import HostVars

from ansible_collections.fleet.gpu_swarm.plugins.filter.label_updates import FilterModule as LabelUpdates
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.raw_variables import RawVariables
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.member import view


@pytest.fixture
def hostvars():
    """Return the variables of two hosts with one shared plan."""
    steps = {"a": asdict(step_with(stops="containers", node_id="n1")), "b": asdict(step_with(stops="containers", node_id="n2"))}
    found = {"a": assessed("n1", containers=[("by-hand", None)]), "b": assessed("n2")}
    return HostVars({name: {"gpu_swarm_plan": {"steps": steps}, "gpu_node_assessed": answer} for name, answer in found.items()})


def test_variables_are_read_as_they_are(hostvars):
    found = RawVariables(hostvars)
    assert {name: found[name]["gpu_node_assessed"]["swarm"]["node_id"] for name in found} == {"a": "n1", "b": "n2"}
    assert (len(found), hostvars.queried) == (2, [])


def test_a_filter_templates_no_plan(hostvars):
    book = ledger(member("n1", bound="a"), member("n2", bound="b"))
    labels = LabelUpdates().filters()["label_updates"]
    assert view(["a", "b"], RawVariables(hostvars), book).blocking() == ["container by-hand"]
    assert view(["a", "b"], RawVariables(hostvars), book).blocking([]) == []
    assert [update["host"] for update in labels(["a", "b"], hostvars, planned=False)] == ["a", "b"]
    assert hostvars.queried == []
