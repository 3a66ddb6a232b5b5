# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from fleet_lab import assessed
from host_vars import HostVars

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm import owned_labels
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.identity import LABEL_PREFIX
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.swarm_answers import CONTENTS, EVICTIONS, LEDGER, read

RUNS = {"state": "active", "node_id": "m1", "control_available": True, "error": "", "managers": [], "half_joined": False}
T4 = {"gpu.model": "T4"}
# The labels that an earlier run wrote.
LABELS = owned_labels.mark(owned_labels.compute({}, T4, LABEL_PREFIX, ())[0], "m1", owned_labels.SET, LABEL_PREFIX)
LEDGER_OF_M1 = {"nodes": [{"id": "m1", "labels": LABELS}]}


def manager(labels=None, **more):
    return assessed("m1", swarm=RUNS, labels=labels or T4, **more)


def variables(hosts, managers=("m1",), playing=None, **registered):
    return {
        "groups": {"swarm_managers": list(managers)},
        "hostvars": HostVars({name: {"gpu_node_assessed": answer} if answer else {} for name, answer in hosts.items()}),
        "ansible_play_hosts": list(hosts if playing is None else playing),
        **registered,
    }


def test_the_ledger_from_the_assessment_counts():
    found = read(variables({"m1": manager(ledger=LEDGER_OF_M1), "g1": None}), None)
    assert (found.manager, found.ledger) == ("m1", LEDGER_OF_M1)


def test_a_newer_ledger_counts_first():
    assert read(variables({"m1": manager(ledger=LEDGER_OF_M1)}), {"nodes": []}).ledger == {"nodes": []}


@pytest.mark.parametrize("queried", ["gpu_swarm_manager_answers", "gpu_swarm_external_answers"])
def test_a_manager_outside_the_play_was_queried(queried):
    results = {"results": [{"item": "m1", **manager()}]}
    found = read(variables({"g1": None, "m1": None}, playing=["g1"], **{queried: results}), None)
    assert (found.manager, found.ledger) == ("m1", None)


def test_an_earlier_answer_does_not_count_for_a_host_of_the_play():
    """A run may have several playbooks, and variables still exist after each playbook."""
    results = {"results": [{"item": "m1", **manager()}]}
    stopped = assessed("m1", swarm=dict(RUNS, state="unknown", control_available=False))
    assert read(variables({"m1": stopped}, gpu_swarm_manager_answers=results), None).manager == ""


OTHER = {"gpu.model": "H100"}


@pytest.mark.parametrize(
    ("answer", "absent", "unread"),
    [
        pytest.param(manager(ledger=LEDGER_OF_M1), False, [], id="a complete answer"),
        pytest.param(manager(), False, [LEDGER], id="an answer without a ledger"),
        pytest.param(manager(OTHER, ledger=LEDGER_OF_M1), False, [EVICTIONS], id="labels change"),
        pytest.param(manager(ledger=LEDGER_OF_M1), True, [CONTENTS], id="contents that end with the last manager"),
        pytest.param(manager(), True, [LEDGER, CONTENTS], id="an answer without a ledger, in deprovision"),
        pytest.param(assessed("m1", swarm=dict(RUNS, state="inactive", control_available=False)), True, [], id="no swarm"),
    ],
)
def test_missing_answers_are_requested(answer, absent, unread):
    assert read(variables({"m1": answer}), None).unread(absent) == unread
