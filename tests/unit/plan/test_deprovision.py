# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from fleet_lab import assessed, ledger, member, swarm, task

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import (
    END,
    IDLE,
    MARKED,
    PREPARE,
    WINDOW,
    WINDOW_MANAGERS,
    Host,
    Step,
    Swarm,
)
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan import deprovision
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.deprovision import LEAVING, describe_removed

RECORD = "gpu-swarm.labels"
EMPTY = {"services": [], "secrets": [], "configs": []}
TAKEN = {"drift": ["/etc/docker/daemon.json still contains changes of this collection"], "restart_required": True}
BUSY = [("train.1.x", "train"), ("by-hand", None)]
HELD = ["nvidia-container-toolkit"]
FILES = ["/etc/apt/sources.list.d/nvidia-container-toolkit.list", "/usr/share/keyrings/nvidia.asc"]
OUTSIDE = [PREPARE, END]
WORKER = [IDLE, MARKED, END]
BUSY_WORKER = [WINDOW, MARKED, END]
MANAGER = [WINDOW_MANAGERS, MARKED, END]


def host(name="g1", node_id="n1", gpu=True, disrupt="never", leave=True, packages=False, kept=False, hold=None, **answer):
    """Return a host with an assessment for state absent. By default the host has nothing of this collection."""
    return Host(
        name, gpu, False, assessed(node_id, gpus=0, **dict({"toolkit_version": "1.20.0"}, **answer)),
        disrupt=disrupt, leave=leave, packages=packages, kept=kept, hold=hold,
    )  # fmt: skip


def entry(node_id="n1", bound=None, **other):
    return member(node_id, hostname=f"host-{node_id}", bound=bound, **other)


def bare(node_id="n1", **other):
    return entry(node_id, labels={"rack": "r1"}, shown=(), **other)


M1 = bare("m1", role="manager", leader=True)


def plan(hosts, known, contents=None):
    return deprovision.plan(hosts, known, EMPTY if contents is None else contents)


def step_of(one, known, *others, **options):
    return plan([one, *others], known, **options)[one.name]


PROVISIONED = ["labels", "configure", "restart", "state", "leave"]

# case -> (the host, the swarm, the host's steps, the host's groups)
STEPS = {
    "never provisioned": (host(node_id=None), swarm(), [], []),
    "never provisioned, and a swarm exists": (host(node_id=None), swarm(M1), [], []),
    "without Docker": (host(node_id=None, missing=["engine"]), swarm(M1), [], []),
    "without Docker, but with our files": (host(node_id=None, missing=["engine"], drift=["x"], kept=True), swarm(), ["configure", "state"], OUTSIDE),
    "a worker": (host(kept=True, **TAKEN), swarm(M1, entry()), PROVISIONED, WORKER),
    "a worker without changes of this collection": (host(), swarm(M1, bare()), ["leave"], WORKER),
    "a worker that stays in the swarm": (host(leave=False, kept=True, **TAKEN), swarm(M1, entry()), PROVISIONED[:-1], WORKER),
    "a worker without changes of this collection, which stays": (host(leave=False), swarm(M1, bare()), [], []),
    "a node of another swarm, which stays in that swarm": (host(node_id="x", leave=False, **TAKEN), swarm(M1), ["configure", "restart"], OUTSIDE),
    "half-joined": (host(swarm={"state": "error", "node_id": "x", "half_joined": True}), swarm(M1), ["leave"], OUTSIDE),
    "files of this collection, in no swarm": (host(node_id=None, **TAKEN), swarm(), ["configure", "restart"], OUTSIDE),
    "only the libraries": (host(node_id=None, kept=True), swarm(), ["state"], OUTSIDE),
    "the toolkit": (host(node_id=None, packages=True), swarm(), ["packages"], OUTSIDE),
    "a version held by this collection, and no other change": (host(node_id=None, hold=True, toolkit_held=HELD), swarm(), ["hold"], OUTSIDE),
    "a version held by someone else": (host(node_id=None, toolkit_held=HELD), swarm(), [], []),
    "a toolkit held by this collection": (host(node_id=None, packages=True, hold=True, toolkit_held=HELD), swarm(), ["hold", "packages"], OUTSIDE),
    "a toolkit whose hold the inventory forbids": (
        host(node_id=None, packages=True, hold=False, toolkit_held=HELD),
        swarm(),
        ["hold", "packages"],
        OUTSIDE,
    ),
    "the toolkit with its repository": (host(node_id=None, packages=True, toolkit_files=FILES), swarm(), ["packages", "state"], OUTSIDE),
    "a toolkit and its repository, which are kept": (host(node_id=None, toolkit_files=FILES), swarm(), [], []),
    "a repository that a failed run left": (host(node_id=None, toolkit_version=None, toolkit_files=FILES), swarm(), ["repository", "state"], OUTSIDE),
    "a repository that a failed run left, and packages are removed": (
        host(node_id=None, packages=True, toolkit_version=None, toolkit_files=FILES), swarm(), ["repository", "state"], OUTSIDE,
    ),
    "no toolkit": (host(node_id=None, packages=True, toolkit_version=None), swarm(), [], []),
    "a toolkit of a host without GPUs": (host(node_id=None, packages=True, gpu=False), swarm(), [], []),
    "a manager among others": (host(node_id="m1"), swarm(M1, bare("m2", role="manager")), ["leave"], MANAGER),
    "the last manager": (host(node_id="m1"), swarm(M1), ["leave", "dissolve"], MANAGER),
    "the last manager, which stays": (host(node_id="m1", leave=False), swarm(M1), [], []),
    "killed after the host had left": (host(node_id=None), swarm(M1, bare(state="down") | {"labels": {LEAVING: "g1"}}), ["entry"], OUTSIDE),
    "killed before the host left": (host(), swarm(M1, bare() | {"labels": {LEAVING: "g1", RECORD: LEAVING}}), ["leave"], WORKER),
    "killed before the host left, and the host stays now": (
        host(leave=False), swarm(M1, bare() | {"labels": {LEAVING: "g1", RECORD: LEAVING}}), ["labels"], WORKER,
    ),
    "drained and marked by a killed run": (host(), swarm(M1, bare(availability="drain", former_availability="active")), ["leave"], WORKER),
    "marked, and the host stays": (host(leave=False), swarm(M1, bare(availability="pause", former_availability="active")), [], [MARKED, END]),
}  # fmt: skip


@pytest.mark.parametrize(("one", "known", "needs", "groups"), STEPS.values(), ids=STEPS)
def test_these_parts_are_removed(one, known, needs, groups):
    step = step_of(one, known)
    assert (step.needs, step.groups, step.work.waits_for, step.problem) == (needs, groups, [], None)
    assert bool(step.impact) == bool(needs)


def test_remaining_packages_are_listed_with_their_removal():
    hosts = [
        host("a", toolkit_files=FILES), host("b", toolkit_files=FILES[:1]), host("c", toolkit_files=FILES), host("d"),
        host("e", packages=True, toolkit_files=FILES), host("f", toolkit_version=None, toolkit_files=FILES),
        host("g", gpu=False, toolkit_files=FILES),
    ]  # fmt: skip
    assert deprovision.remaining_toolkit(hosts) == [
        f"a, c: the NVIDIA Container Toolkit and its files ({', '.join(FILES)}) are not removed. To remove them, set deprovision_packages: true.",
        f"b: the NVIDIA Container Toolkit and its files ({FILES[0]}) are not removed. To remove them, set deprovision_packages: true.",
    ]


def test_packages_that_are_held_are_not_removed_without_consent():
    step = step_of(host(node_id=None, packages=True, kept=True, toolkit_held=HELD), swarm())
    assert "the package manager holds nvidia-container-toolkit. Set nvidia_container_toolkit_hold: false" in step.error
    assert (step.needs, step.groups) == ([], [END])


def test_packages_that_a_runtime_of_the_user_needs_are_not_removed():
    """The run changes nothing else on this host either. Otherwise, the run would end half-way with an error."""
    adopted = dict(kept=True, runtime_stays=True, **TAKEN)
    step = step_of(host(packages=True, **adopted), swarm(M1, entry()))
    assert "Docker had a runtime nvidia before the first run" in step.error
    assert "deprovision_packages: false" in step.error
    assert (step.needs, step.groups) == ([], [END])
    assert step_of(host(**adopted), swarm(M1, entry())).needs == PROVISIONED
    assert step_of(host(packages=True, toolkit_version=None, **adopted), swarm(M1, entry())).needs == PROVISIONED


def test_a_leaving_node_keeps_a_label_with_its_host():
    assert step_of(host(), swarm(M1, entry())).removal.labels == {LEAVING: "g1"}
    assert step_of(host(leave=False), swarm(M1, entry())).removal.labels == {}
    assert step_of(host(node_id=None, **TAKEN), swarm(M1)).removal.labels == {}


def test_the_entry_of_another_host_is_never_removed():
    left = bare("old", state="down") | {"labels": {LEAVING: "g1"}}
    assert step_of(host("g1", node_id=None), swarm(M1, left)).removal.entry == "old"
    assert step_of(host("g2", node_id=None), swarm(M1, left)).removal.entry is None
    # The host is a member again. The former entry belongs to another host, because this host has a new entry.
    assert step_of(host("g1"), swarm(M1, entry(), left)).removal.entry is None
    # The node is down, but the host of the node is unknown.
    assert step_of(host("g1", node_id=None), swarm(M1, bare("old", state="down"))).removal.entry is None


# --- running work ----------------------------------------------------------------------------------------------------

ALL_OF_IT = ["service train", "container by-hand"]

# case -> (what is removed, the work that the removal would stop)
STOPPED = {
    "a restart": (dict(leave=False, **TAKEN), ALL_OF_IT),
    "the packages": ({"leave": False, "packages": True}, ALL_OF_IT),
    "the membership": ({}, ["service train"]),
    "the membership and a restart": (TAKEN, ALL_OF_IT),
    "only the labels": ({"leave": False}, []),
}


@pytest.mark.parametrize(("what", "stopped"), STOPPED.values(), ids=STOPPED)
def test_work_is_stopped_only_with_consent(what, stopped):
    known = swarm(M1, entry(tasks=[task("train.1.x", "train")]))
    step = step_of(host(containers=BUSY, **what), known)
    assert (step.work.waits_for, step.work.left_alone, step.groups) == (stopped, bool(stopped), [END] if stopped else WORKER)
    step = step_of(host(containers=BUSY, disrupt="services", **what), known)
    assert step.work.waits_for == [one for one in stopped if one != "service train"]
    assert step.groups == (BUSY_WORKER if stopped else WORKER)
    step = step_of(host(containers=BUSY, disrupt="all", **what), known)
    assert (step.work.waits_for, step.groups) == ([], BUSY_WORKER if stopped else WORKER)
    assert ("moves service train" in step.impact) == ("service train" in stopped)
    assert ("stops container by-hand" in step.impact) == ("container by-hand" in stopped)


@pytest.mark.parametrize("disrupt", ["never", "services"])
def test_a_task_that_needs_a_remaining_label_keeps_the_node_unchanged(disrupt):
    """A pause would be useless, because the run does not wait for this task. The labels are not removed in either case."""
    known = swarm(M1, entry(tasks=[task("once.1", "once", movable=False)]), evicted={"n1": {"once.1": "task once.1"}})
    step = step_of(host(leave=False, disrupt=disrupt), known)
    assert (step.needs, step.work.waits_for, step.work.left_alone, step.groups) == (["labels"], ["task once.1"], True, [END])


ATTACHED = {"name": "ranks", "service": None, "task": None, "swarm_networks": ["train"]}
RANKS = "container ranks on the swarm's network train"


@pytest.mark.parametrize(
    ("disrupt", "waits_for", "groups"), [("never", [RANKS], [END]), ("services", [RANKS], BUSY_WORKER), ("all", [], BUSY_WORKER)]
)
def test_a_container_on_a_swarm_network_loses_it_when_the_node_leaves(disrupt, waits_for, groups):
    one = host(disrupt=disrupt)
    one.assessed["containers"] = [ATTACHED]
    step = step_of(one, swarm(M1, bare()))
    assert (step.work.waits_for, step.groups, step.work.left_alone) == (waits_for, groups, disrupt == "never")
    assert (f"disconnects {RANKS}" in step.impact) == (disrupt == "all")
    one.leave = False
    assert step_of(one, swarm(M1, entry())).work.waits_for == []


def test_tasks_that_need_a_label_of_this_collection_are_waited_for():
    known = swarm(M1, entry(), evicted={"n1": {"t1": "task train.1"}})
    assert step_of(host(leave=False), known).work.waits_for == ["task train.1"]
    assert step_of(host(leave=False, disrupt="all"), known).impact[-1] == "evicts task train.1"
    assert step_of(host(leave=False), swarm(M1, bare(), evicted={"n1": {"t1": "task train.1"}})).work.waits_for == []


# --- managers ---------------------------------------------------------------------------------------------------------


def three(**down):
    names = ("m1", "m2", "m3")
    return [bare(name, role="manager", leader=name == "m1", **({"reachability": "unreachable"} if name in down else {})) for name in names]


def live(*names, nodes=()):
    return Swarm({"live": list(names), "init_on": None, "error": None}, ledger(*nodes))


def managers(*names):
    return [host(name, node_id=name, gpu=False) for name in names]


def test_managers_leave_and_the_last_one_ends_the_swarm():
    steps = plan([*managers("m1", "m2", "m3"), host()], live("m1", "m2", "m3", nodes=[*three(), entry()]))
    assert {name: step.problem for name, step in steps.items()} == dict.fromkeys(steps)
    assert list(steps) == ["m1", "m2", "m3", "g1"]
    assert [name for name, step in steps.items() if "dissolve" in step.needs] == ["m1"]  # the leader
    assert steps["m1"].impact == ["ends the swarm, because it is the last manager"]
    assert steps["m2"].impact == ["leaves the swarm"]


def test_a_manager_of_three_may_leave_alone_and_never_past_quorum():
    nodes = three()
    assert step_of(managers("m1")[0], live("m1", "m2", nodes=nodes)).needs == ["leave"]
    step = step_of(managers("m1")[0], live("m1", "m2", nodes=three(m3=True)))
    assert "1 of 2 managers would be reachable and 2 are needed" in step.error
    assert (step.needs, step.groups) == ([], [END])


def test_another_manager_must_remove_it_from_the_list():
    step = step_of(managers("m1")[0], live("m1", nodes=three()))
    assert "The other managers of its swarm (host-m2, host-m3) are not in the group swarm_managers" in step.error
    # When m2 leaves, m1 has already left, so no manager can be queried any more.
    steps = plan(managers("m1", "m2"), live("m1", "m2", nodes=three()))
    assert (steps["m1"].error is None, steps["m2"].error) == (False, None)


# case -> (the other nodes, the contents of the swarm, the consent, why the last manager stays)
LAST = {
    "another node": ([bare("w9")], EMPTY, "all", "host-w9 would have no manager"),
    "a service": ([], dict(EMPTY, services=["shop"]), "never", "service shop would be lost with the swarm"),
    "everything": ([], {"services": ["a"], "secrets": ["b"], "configs": ["c"]}, "never", "service a, secret b, config c would be lost"),
    "unknown contents": ([], None, "never", "the contents of the swarm could not be read"),
    "unknown contents, with consent": ([], None, "all", "the contents of the swarm could not be read"),
}


@pytest.mark.parametrize(("others", "holds", "disrupt", "text"), LAST.values(), ids=LAST)
def test_the_last_manager_stays_in_the_swarm_but_is_deprovisioned(others, holds, disrupt, text):
    known = swarm(entry("m1", role="manager", leader=True), *others)
    step = deprovision.plan([host(node_id="m1", disrupt=disrupt, **TAKEN)], known, holds)["g1"]
    assert text in step.removal.remains
    assert (step.problem, step.error) == (step.removal.remains, None)
    assert (step.needs, step.groups, step.removal.labels) == (["labels", "configure", "restart"], MANAGER, {})
    # This is reported even if there is nothing else to do.
    step = deprovision.plan([host(node_id="m1", disrupt=disrupt)], swarm(M1, *others), holds)["g1"]
    assert (step.needs, step.groups, text in step.removal.remains) == ([], [END], True)


def test_with_consent_the_swarm_ends_with_its_contents():
    step = step_of(host(node_id="m1", disrupt="all"), swarm(M1), contents=dict(EMPTY, services=["shop"], configs=["c"]))
    assert (step.problem, step.impact) == (None, ["ends the swarm, because it is the last manager", "destroys service shop, config c"])


def test_a_node_that_does_not_leave_keeps_the_last_manager():
    known = swarm(M1, entry(), bare("n2"))
    waits, error = host(containers=BUSY, **TAKEN), host("w2", swarm={"state": "error", "node_id": "n2", "error": "expired"})
    for other, kept in ((waits, "host-n1, host-n2"), (error, "host-n1, host-n2"), (host("w2", node_id="n2"), "host-n1 would")):
        assert kept in step_of(host("m", node_id="m1"), known, other).removal.remains
    assert step_of(host("m", node_id="m1"), known, host(), host("w2", node_id="n2")).problem is None
    # A node entry that the run removes does not count.
    left = bare("old", state="down") | {"labels": {LEAVING: "g1"}}
    assert step_of(host("m", node_id="m1"), swarm(M1, left), host(node_id=None)).problem is None


# --- impossible -------------------------------------------------------------------------------------------------------

ACTIVE = {"state": "active", "node_id": "n1"}

# case -> (the answer of the host, the swarm, the error)
ERRORS = {
    "dockerd is stopped": ({"swarm": {"state": "unknown", "node_id": None}}, swarm(M1), "dockerd is not running on this host: start it"),
    "locked": ({"swarm": {"state": "locked", "node_id": ""}}, swarm(M1), "docker swarm unlock"),
    "lost": ({"swarm": {"state": "error", "node_id": "n1", "error": "expired"}}, swarm(M1), "(expired)"),
    "no manager answered": ({"swarm": ACTIVE}, swarm(), "None of its managers answered"),
    "no list": ({"swarm": ACTIVE}, Swarm({"live": ["m"]}, {"msg": "no quorum"}), "could not be queried about the swarm: no quorum"),
    "the managers run two swarms": (
        {"swarm": ACTIVE},
        replace(swarm(M1, entry()), location={"live": ["m"], "init_on": None, "error": "two swarms"}),
        "two swarms",
    ),
    "another swarm": ({"node_id": "x9"}, swarm(M1), "The manager m does not list this host"),
}


@pytest.mark.parametrize(("answer", "known", "text"), ERRORS.values(), ids=ERRORS)
def test_a_host_that_cannot_be_judged_is_left_alone(answer, known, text):
    step = step_of(host(kept=True, **TAKEN, **answer), known)
    assert text in step.error
    assert (step.needs, step.groups, step.impact) == ([], [END], [])


@pytest.mark.parametrize("answer", [None, {"unreachable": True, "msg": "no route"}, dict(assessed(), failed=True, msg="no")])
def test_a_host_that_ansible_gave_up_is_not_failed_twice(answer):
    step = plan([Host("g1", True, False, answer)], swarm(M1))["g1"]
    assert step.error
    assert step.groups == []


# --- texts ------------------------------------------------------------------------------------------------------------


def test_the_plan_and_the_table_are_described():
    step = step_of(host(kept=True, packages=True, **TAKEN), swarm(M1, entry()))
    assert step.impact == [
        "removes node labels",
        "restores its files",
        "restarts dockerd",
        "removes the NVIDIA Container Toolkit",
        "clears /var/lib/gpu-swarm",
        "leaves the swarm",
    ]
    assert describe_removed(step) == "node labels, files, generic resources, toolkit, membership"
    assert describe_removed(Step(needs=["state"])) == ""


def test_a_step_can_be_sent_as_plain_data():
    step = step_of(host(containers=BUSY, **TAKEN), swarm(M1, entry()))
    assert Step.from_plan(asdict(step)) == step


def test_the_mark_of_a_node_is_removed_with_it_or_with_the_labels():
    bound = bare(bound="g1")
    assert (step_of(host(), swarm(M1, bound)).removal.mark, step_of(host(leave=False), swarm(M1, bound)).removal.mark) == ("keep", "remove")
    assert step_of(host(leave=False), swarm(M1, bound)).needs == ["labels"]


@pytest.mark.parametrize("key", ["former-availability", "paused-since", "paused-by", "paused-for"])
def test_leftovers_of_an_ended_pause_are_removed_too(key):
    """While a node is still paused by a run, the return to service removes the marks of the pause."""
    noted = bare() | {"labels": {f"gpu-swarm.{key}": "active"}}
    assert step_of(host(leave=False), swarm(M1, noted)).needs == ["labels"]
    paused = noted | {"former_availability": "active", "availability": "pause", "set_by_run": True}
    step = step_of(host(leave=False), swarm(M1, paused))
    assert (step.needs, step.groups) == ([], [MARKED, END])


def test_a_host_that_shows_another_host_s_node_changes_nothing_there():
    for leave in (True, False):
        step = step_of(host("g7", leave=leave), swarm(M1, entry(bound="g1", former_availability="active")))
        assert "belongs to the host g1" in step.error
        assert (step.needs, step.groups, step.removal.labels) == ([], [END], {})
    steps = plan([host("g1"), host("g7"), host("g2", node_id="n2")], swarm(M1, entry(bound="g1"), entry("n2", bound="g2")))
    assert ["same node id n1" in (step.error or "") for step in steps.values()] == [True, True, False]
