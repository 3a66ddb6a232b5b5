# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Docker releases of all managers decide what the watchers report. The run shows this decision once."""

from __future__ import annotations

import pytest
from fleet_lab import host, member, swarm

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import IDLE, WINDOW
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan import watchers
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.provision import plan

NEW = {"drift": ["the watcher of the GPUs is not installed"], "watcher_missing": True}


def manager(version, name="m"):
    return member(name, role="manager", engine_version=version, shown=())


@pytest.mark.parametrize(
    ("versions", "report"),
    [
        (["29.6.0"], "all"),
        (["30.0.1", "29.6.2"], "all"),
        (["29.6.0", "29.5.9"], "faults"),  # the older manager may become the leader
        (["26.1.5"], "faults"),
        (["20.10.24+dfsg1"], "faults"),
        ([None], "faults"),
        (["dev"], "faults"),
    ],
)
def test_the_oldest_manager_decides(versions, report):
    nodes = [manager(version, f"m{place}") for place, version in enumerate(versions)]
    assert watchers.report_of([], swarm(*nodes, member(engine_version="20.10.24"))) == report


JOB = {"service": "old", "node": "id-1", "kind": "NVIDIA-GPU", "values": None, "amount": 1, "clash": True}


@pytest.mark.parametrize(
    ("versions", "jobs", "may"),
    [
        (["29.6.0"], [], True),
        (["26.1.5"], [], True),
        (["26.1.5"], [JOB], False),  # swarm would run the job again
        (["26.1.5", "25.0.2"], [], False),  # the manager with 25.0.2 may become the leader
        (["20.10.24+dfsg1"], [], False),
        (["dev"], [], False),
        ([], [], False),
    ],
)
def test_a_repair_is_reported_while_tasks_run_if_an_update_is_harmless(versions, jobs, may):
    found = swarm(*(manager(version, f"m{place}") for place, version in enumerate(versions)), member())
    one = host()
    found.ledger["finished_jobs"] = [dict(job, node=one.node_id) for job in jobs]
    assert watchers.may_report_now(one, found) is may


def test_only_configured_watchers_report():
    repaired = host(drift=["swarm-resource is not set"], shown=host().assessed["resources"])
    found = swarm(manager("26.1.5"), member())
    assert plan([repaired], found)["gpu-1"].target.report_now is True
    assert plan([host(shown=host().assessed["resources"])], found)["gpu-1"].target.report_now is False


def test_without_a_manager_it_is_unknown():
    assert watchers.report_of([host()], swarm()) == "faults"


def test_a_future_manager_counts():
    one = host(manager=True, engine={"version": "26.1.5", "generic_resources": []})
    assert watchers.report_of([one], swarm(manager("29.6.0"))) == "faults"
    assert watchers.report_of([host(manager=True, engine={"version": "29.6.0"})], swarm()) == "all"


@pytest.mark.parametrize(("version", "report", "changes"), [("26.1.5", "faults", False), ("29.6.0", "faults", True), ("26.1.5", "all", True)])
def test_other_managers_change_the_watchers_without_harm(version, report, changes):
    one = host(health={"label": "ok", "blocked": None, "reasons": [], "report": report}, shown=host().assessed["resources"])
    step = plan([one], swarm(manager(version), member()))["gpu-1"]
    assert step.needs == (["configure"] if changes else [])
    assert step.target.report == (("all" if version == "29.6.0" else "faults") if changes else None)
    assert [text for text in step.impact if "watcher" in text] == step.impact
    assert bool(step.impact) is changes


def test_a_member_without_a_watcher_gets_one_without_a_window():
    step = plan([host(**NEW, shown=host().assessed["resources"])], swarm(manager("26.1.5"), member()))["gpu-1"]
    assert (step.needs, step.impact, step.target.report) == (["configure"], ["installs the watcher of its GPUs"], "faults")
    assert not {IDLE, WINDOW} & set(step.groups)


def test_a_new_watcher_is_reported_once():
    hosts = [host(name, node_id=name, **NEW) for name in ("g1", "g2")] + [host("g3", node_id="g3", shown=host().assessed["resources"])]
    nodes = [member(name) for name in ("g1", "g2", "g3")]
    old, new = swarm(manager("26.1.5"), *nodes), swarm(manager("29.6.0"), *nodes)
    said = watchers.warnings(hosts, plan(hosts, old), old)
    assert len(said) == 1
    assert said[0].startswith("g1, g2: a manager has Docker Engine 26.1.5")
    assert watchers.warnings(hosts, plan(hosts, new), new) == []
    assert watchers.warnings(hosts[2:], plan(hosts[2:], old), old) == []


def test_the_node_decides_about_a_new_watcher_and_not_its_texts():
    old, node = swarm(manager("26.1.5"), member()), host().assessed["resources"]
    for missing in (True, False):
        hosts = [host(drift=["it is as it was delivered"], watcher_missing=missing, shown=node)]
        assert bool(watchers.warnings(hosts, plan(hosts, old), old)) is missing
