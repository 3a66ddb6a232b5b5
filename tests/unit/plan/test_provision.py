# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from fleet_lab import LABELS, assessed, host, ledger, member, named, step_with, swarm, task
from node_lab import resources

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.health import reported
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine.packages import PACKAGES
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager import installed_command
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.parts import CODE
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import (
    END,
    FETCH,
    IDLE,
    JOIN,
    LABEL,
    MARKED,
    PREPARE,
    WINDOW,
    WINDOW_MANAGERS,
    Host,
    Step,
    Swarm,
)
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan import managers_service
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.impact import leader_warnings, toolkit_warnings
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.provision import (
    cleared,
    hosts_in,
    in_batches,
    label_change,
    only_paused,
    plan,
    to_pause,
)  # fmt: skip
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.toolkit_version import DEFAULT

DRIFT = ["2 GPUs not advertised as NVIDIA-GPU: a, b"]
RESTART = {"restart_required": True, "drift": DRIFT}
RELOAD = {"drift": ["the default runtime is runc, not nvidia"], "shown": resources(0, 1)}
FRESH = {"node_id": None, "toolkit_version": None, **RESTART}
BUSY = [("train.1.x", "train"), ("train.2.y", "train"), ("by-hand", None)]
BUSY_WORDS = ["service train (2 tasks)", "container by-hand"]
RECORD = "gpu-swarm.labels"

WINDOWED = [IDLE, MARKED, LABEL, END]
EMPTIED = [WINDOW, MARKED, LABEL, END]
# The manager's view of the tasks in BUSY.
TASKS = [task("train.1.x", "train"), task("train.2.y", "train")]
JOB = task("sweep.1.z", "sweep", movable=False, age=90)


def step_of(one, known, *others):
    return plan([one, *others], known)[one.name]


# case -> (the host, the swarm, the host's steps, the host's groups)
STEPS = {
    "nothing to do": (host(), swarm(member()), [], []),
    "a manager without GPU": (host(gpu=False, manager=True), swarm(member(role="manager", labels={})), [], []),
    "labels of others are nothing to do": (host(gpu=False), swarm(member(labels={"a": "b"}, shown=())), [], []),
    "fresh": (host(toolkit="1.20.0", **FRESH), swarm(), ["toolkit", "configure", "restart", "join"], [FETCH, PREPARE, JOIN, LABEL, END]),
    "fresh without GPU": (host(gpu=False, node_id=None), swarm(), ["join"], [JOIN, LABEL, END]),
    "only to join": (host(node_id=None), swarm(member("other")), ["join"], [JOIN, LABEL, END]),
    "half-joined": (
        host(swarm={"state": "error", "node_id": "x", "half_joined": True}),
        swarm(member("other")),
        ["join"],
        [JOIN, LABEL, END],
    ),
    "moves from another swarm": (host(node_id="elsewhere", move=True), swarm(member()), ["join", "move"], [JOIN, LABEL, END]),
    "moves into a swarm that this run creates": (host(node_id="elsewhere", move=True), swarm(), ["join", "move"], [JOIN, LABEL, END]),
    "member with drift": (host(**RESTART), swarm(member()), ["configure", "restart"], WINDOWED),
    "manager with drift": (
        host(manager=True, **RESTART),
        swarm(member(role="manager")),
        ["configure", "restart"],
        [WINDOW_MANAGERS, MARKED, LABEL, END],
    ),
    "a manager that becomes a worker is still changed as a manager": (
        host(**RESTART),
        swarm(member(role="manager"), member("n2", role="manager"), member("n3", role="manager")),
        ["configure", "restart", "role"],
        [WINDOW_MANAGERS, MARKED, JOIN, LABEL, END],
    ),
    "a reload hurts nobody": (host(containers=BUSY, **RELOAD), swarm(member()), ["configure"], [PREPARE, LABEL, END]),
    "another toolkit": (host(toolkit="1.20.0", toolkit_version="1.19.0"), swarm(member()), ["toolkit"], [FETCH, *WINDOWED]),
    "the toolkit, half-installed": (host(missing=["toolkit_packages"]), swarm(member()), ["toolkit"], [FETCH, *WINDOWED]),
    "a host that joins": (host(node_id=None), swarm(member()), ["join"], [JOIN, LABEL, END]),
    "a TOML parser to keep": (host(missing=["toml_parser"]), swarm(member()), ["configure"], [PREPARE, LABEL, END]),
    "to promote": (host(manager=True), swarm(member()), ["role"], [JOIN, LABEL, END]),
    "to demote": (host(), swarm(member(role="manager"), member("n2", role="manager")), ["role"], [JOIN, LABEL, END]),
    "labels": (host(), swarm(member(labels={})), ["labels"], [LABEL, END]),
    "a host that left gpu_nodes": (host(gpu=False), swarm(member(shown=())), ["labels"], [LABEL, END]),
}


@pytest.mark.parametrize(("one", "known", "needs", "groups"), STEPS.values(), ids=STEPS)
def test_a_host_needs_these_steps(one, known, needs, groups):
    step = step_of(one, known)
    assert (step.needs, step.groups, step.work.waits_for, step.error) == (needs, groups, [], None)
    assert bool(step.impact) == bool(needs)


PAUSED_FOR = "gpu-swarm.paused-for"
UNFIT = {"fault": "fault GPU-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30 reason=lost"}


def shown(value):
    """Return the ledger's record of the health of a node with this report."""
    return reported({"Description": {"Engine": {"Labels": {"fleet.gpu-swarm.health": value}}}, "Spec": {"Availability": "active"}}, "gpu-swarm.")


NO_DRIVER = {"failed": True, "msg": "NVML: mismatch", "fault": "fault reason=mismatch"}


@pytest.mark.parametrize(
    ("answer", "settings", "node", "pauses", "returns"),
    [
        (UNFIT, {}, {}, True, False),
        (NO_DRIVER, {}, {}, True, False),
        ({"fault": None}, {}, {}, False, False),
        ({"fault": "\x1b[31mall is well"}, {}, {}, False, False),
        (UNFIT, {"gpu_node_on_loss": "shrink"}, {}, True, False),
        (UNFIT, {"gpu_node_on_loss": "report"}, {}, False, False),
        # An operator keeps work away from the node already, or the node is down.
        (UNFIT, {}, {"availability": "drain"}, False, False),
        (UNFIT, {}, {"availability": "pause"}, False, False),
        (UNFIT, {}, {"state": "down"}, False, False),
        # An operator returned the node to service, and the label is still on the node. A later fault is a different fault.
        (UNFIT, {}, {"labels": {PAUSED_FOR: UNFIT["fault"] + " since=1795380328"}}, False, False),
        (UNFIT, {}, {"labels": {PAUSED_FOR: UNFIT["fault"] + " since=100"}, "health": shown(UNFIT["fault"] + " since=100")}, False, False),
        (UNFIT, {}, {"labels": {PAUSED_FOR: UNFIT["fault"] + " since=100"}, "health": shown(UNFIT["fault"] + " since=200")}, True, False),
        (UNFIT, {}, {"labels": {PAUSED_FOR: UNFIT["fault"] + " since=100"}, "health": shown("ok")}, False, False),
        (NO_DRIVER, {}, {"labels": {PAUSED_FOR: UNFIT["fault"]}}, True, False),
        ({"fault": UNFIT["fault"] + " since=5"}, {}, {"labels": {PAUSED_FOR: UNFIT["fault"] + " since=4"}}, True, False),
        # A run paused the node before. If the fault has ended, the node returns to service.
        (UNFIT, {}, {"availability": "pause", "former_availability": "active", "paused_for": UNFIT["fault"]}, False, False),
        (NO_DRIVER, {}, {"availability": "pause", "former_availability": "active", "paused_for": NO_DRIVER["fault"]}, False, False),
        ({}, {}, {"availability": "pause", "former_availability": "active", "paused_for": UNFIT["fault"]}, False, True),
        (UNFIT, {"gpu_node_on_loss": "report"}, {"availability": "pause", "former_availability": "active", "paused_for": "x"}, False, True),
    ],
)
def test_a_node_with_a_fault_is_paused(answer, settings, node, pauses, returns):
    step = step_of(replace(host(**answer), settings=settings), swarm(member(**node)))
    assert (step.fault.pauses, MARKED in step.groups, step.fault.paused_for) == (pauses, returns, node.get("paused_for", ""))
    assert to_pause({"a": step}) == ({"a": answer["fault"]} if pauses else {})
    if step.fault.text and not answer.get("failed"):
        assert END in step.groups
        assert "unfit for work: " in step.problem


def unfit_fleet(many, others=(), limit=20):
    """Plan a run with ``many`` hosts whose driver cannot be read. Return the nodes to pause, the warnings, and the steps."""
    names = [f"g{number:02}" for number in range(many)]
    hosts = [replace(host(name, node_id=name, **NO_DRIVER), fault_limit=limit) for name in names]
    known = swarm(*(member(name) for name in names), *others)
    steps = plan(hosts, known)
    return to_pause(steps), leader_warnings(hosts, steps, known), steps


HEALTHY = [member(f"w{number}") for number in range(10)]
# A discrete kind, for example a disk. It is the memory of GPUs only if a label says that the node has GPUs.
AMOUNT = {"type": "discrete", "total": 1, "values": None, "free": 1, "held": []}


@pytest.mark.parametrize(
    ("many", "others", "limit", "paused"),
    [
        (1, [], 20, 1),
        (2, [], 20, 1),
        (5, [], 20, 2),
        (20, [], 20, 4),
        (20, [], 50, 10),
        (10, HEALTHY, 20, 4),
        # Nodes that the service on the managers has paused use up the limit too.
        (10, [*HEALTHY[2:], *(member(f"p{number}", availability="pause", paused_for="fault reason=hang") for number in range(2))], 20, 2),
        (10, [*HEALTHY[5:], *(member(f"p{number}", availability="pause", paused_for="fault reason=hang") for number in range(5))], 20, 0),
        # Nodes without a GPU and nodes that are down do not raise the limit.
        (10, [member(f"c{number}", shown=()) for number in range(90)], 20, 2),
        (10, [member(f"d{number}", state="down") for number in range(90)], 20, 2),
        (10, [member(f"s{number}", labels={}, shown=(), resources={"SSD": AMOUNT}) for number in range(90)], 20, 2),
        (10, [member(f"v{number}", shown=(), resources={"VRAM": AMOUNT}) for number in range(10)], 20, 4),
        (10, [member(f"c{number}", shown=(), health={"state": "ok"}) for number in range(10)], 20, 4),
    ],
)
def test_a_run_does_not_pause_a_whole_fleet(many, others, limit, paused):
    pauses, warned, steps = unfit_fleet(many, others, limit)
    assert list(pauses) == list(steps)[:paused]
    left = list(steps)[paused:]
    assert [step.fault.too_many for step in steps.values()] == [False] * paused + [True] * len(left)
    assert [text.partition(":")[0] for text in warned] == ([", ".join(left)] if left else [])
    assert all(step.problem for step in steps.values())


def test_how_many_may_be_paused_is_a_setting_of_the_managers():
    names = [f"g{number:02}" for number in range(20)]
    hosts = [host(name, node_id=name, **NO_DRIVER) for name in names] + [replace(host("m", gpu=False, manager=True, node_id="m"), fault_limit=10)]
    assert len(to_pause(plan(hosts, swarm(member("m", role="manager", labels={}, shown=()), *(member(name) for name in names))))) == 2


@pytest.mark.parametrize(
    ("node", "stands"),
    [
        ({}, False),  # this run pauses the node
        ({"state": "down"}, True),
        ({"availability": "drain"}, True),
        ({"availability": "pause", "former_availability": "active", "set_by_run": True, "paused_for": UNFIT["fault"]}, False),
        ({"availability": "pause", "former_availability": "active", "set_by_run": True}, False),
        # An operator returned the node to service. The record of the pause still exists.
        ({"labels": {PAUSED_FOR: UNFIT["fault"]}, "former_availability": "active", "set_by_run": False}, True),
    ],
)
def test_a_node_that_stayed_in_service_with_its_fault_returns_after_a_window(node, stands):
    assert step_of(replace(host(**UNFIT, **RESTART), settings={}), swarm(member(**node))).fault.left_in_service is stands
    assert not step_of(replace(host(**RESTART), settings={}), swarm(member(**node))).fault.left_in_service


def test_nodes_beyond_the_limit_return_after_a_window():
    assert [step.fault.left_in_service for step in unfit_fleet(3)[2].values()] == [False, False, True]


PAUSES = {"limit": 20, "metrics_directory": ""}
REACT = {"version": CODE.name(), "command": installed_command.CODE.name(), "settings": {"pause": PAUSES}, "running": True}
RECORDS = {**REACT, "settings": {"record": {}}}


@pytest.mark.parametrize(
    ("limit", "records", "found", "impact"),
    [
        (None, False, None, None),
        (None, False, REACT, "removes"),
        (20, False, None, "installs"),
        (20, False, REACT, None),
        (10, False, REACT, "changes"),
        (20, False, {**REACT, "running": False}, "changes"),
        (20, False, {**REACT, "version": "code-0"}, "changes"),
        (20, False, {**REACT, "command": ""}, "changes"),  # somebody removed it
        (20, False, {**REACT, "settings": {}}, "changes"),
        (20, False, {**REACT, "settings": {"pause": {**PAUSES, "metrics_directory": "/srv"}}}, "changes"),
        (None, True, None, "installs"),
        (None, True, RECORDS, None),
        (None, False, RECORDS, "removes"),
        (20, True, RECORDS, "changes"),
        (20, True, REACT, "changes"),
        (20, True, {**REACT, "settings": {"pause": PAUSES, "record": {}}}, None),
    ],
)
def test_managers_get_the_service_with_the_wanted_parts(limit, records, found, impact):
    one = replace(host(gpu=False, manager=True, react=found), reacts=limit, records=records)
    step = step_of(one, swarm(member(role="manager", labels={})))
    assert (step.needs, step.groups) == (["service"] if impact else [], [JOIN, LABEL, END] if impact else [])
    assert (step.target.reacts, step.target.records) == (limit is not None, records)
    assert step.impact == ([f"{impact} the managers' service"] if impact else [])
    assert plan([one], swarm(member(role="manager", labels={})), "a new driver")[one.name].needs == ["maintain"]


@pytest.mark.parametrize(
    ("keeps", "found", "health", "needed", "warned"),
    [
        (True, REACT, {"state": "ok"}, False, True),
        (True, {**REACT, "version": "code-0"}, {"state": "ok"}, True, True),  # the service is kept, so it is kept up to date
        (True, REACT, None, True, False),  # no node reports any more, so the service is removed
        (True, None, {"state": "ok"}, False, False),  # the service never existed
        (False, REACT, {"state": "ok"}, True, False),  # a setting removes the service
    ],
)
def test_the_service_stays_while_unknown_nodes_report(keeps, found, health, needed, warned):
    one = replace(host(gpu=False, manager=True, react=found), keeps_reacting=keeps)
    fleet = swarm(member(role="manager", labels={}), member("n9", hostname="gpu-9", health=health))
    step = step_of(one, fleet)
    assert (step.needs, step.target.reacts) == (["service"] if needed else [], keeps and bool(found and health))
    texts = managers_service.warnings([one], fleet)
    assert bool(texts) is warned
    assert all("no host in gpu_nodes" in text and "(gpu-9)" in text and text.startswith(f"{one.name}: ") for text in texts)


# --- running work ----------------------------------------------------------------------------------------------------

ANOTHER_TOOLKIT = {"toolkit": "1.20.0", "toolkit_version": "1.19.0"}
STRANGER = {"node_id": "elsewhere", "move": True}

# a disruptive change, the swarm, the groups while nothing runs on the node
DISRUPTIVE = {
    "a restart": (RESTART, swarm(member()), WINDOWED),
    "another toolkit": (ANOTHER_TOOLKIT, swarm(member()), [FETCH, *WINDOWED]),
    "a move and a restart": ({**STRANGER, **RESTART}, swarm(member()), [PREPARE, JOIN, LABEL, END]),
    "outside of a swarm": (FRESH, swarm(), [FETCH, PREPARE, JOIN, LABEL, END]),
}


@pytest.mark.parametrize(("change", "known", "groups"), DISRUPTIVE.values(), ids=DISRUPTIVE)
def test_work_is_stopped_only_with_consent(change, known, groups):
    busy = [*BUSY[2:], ("train.1.x", "train")]
    consented = [WINDOW if group == IDLE else group for group in groups]
    step = step_of(host(containers=busy, disrupt="never", **change), known)
    assert (step.work.waits_for, step.groups, step.work.left_alone) == (["container by-hand", "task train.1.x of service train"], [END], True)
    step = step_of(host(containers=busy, disrupt="all", **change), known)
    assert (step.work.waits_for, step.groups, step.work.left_alone) == ([], consented, False)
    assert step.impact[-1] == "stops container by-hand, task train.1.x of service train"
    for disrupt in ("never", "services", "all"):
        step = step_of(host(disrupt=disrupt, **change), known)
        assert (step.work.waits_for, step.groups, step.work.left_alone) == ([], groups, False)


@pytest.mark.parametrize(("more", "stops"), [({}, "tasks"), (RESTART, "containers")])
def test_a_host_that_leaves_another_swarm_stops_its_tasks(more, stops):
    by_hand, task_of_other = [("by-hand", None)], [("train.1.x", "train")]
    step = step_of(host(containers=by_hand, **STRANGER, **more), swarm(member()))
    assert (step.work.stops, step.work.waits_for) == (stops, ["container by-hand"] if stops == "containers" else [])
    step = step_of(host(containers=task_of_other, **STRANGER, **more), swarm(member()))
    assert (step.groups, step.work.left_alone, step.work.waits_for) == ([END], True, ["task train.1.x of service train"])
    step = step_of(host(containers=task_of_other, disrupt="all", **STRANGER, **more), swarm(member()))
    assert (JOIN in step.groups, step.impact[-1]) == (True, "stops task train.1.x of service train")


@pytest.mark.parametrize("known", [swarm(), swarm(member("other"))])
def test_a_host_outside_the_swarm_cannot_be_paused_and_stays_unchanged(known):
    step = step_of(host(containers=BUSY[2:], **FRESH), known)
    assert (step.work.waits_for, step.groups, step.work.left_alone) == (["container by-hand"], [END], True)


def test_a_member_is_drained_of_movable_tasks_and_waits_for_the_rest():
    step = step_of(host(containers=BUSY, **RESTART), swarm(member(tasks=[*TASKS, JOB])))
    assert (step.groups, step.work.left_alone) == (EMPTIED, False)
    assert step.work.waits_for == ["task sweep.1.z of service sweep (for 1 min 30 s)", "container by-hand"]
    assert step.impact[-1] == "moves service train (2 tasks)"
    step = step_of(host(containers=BUSY, disrupt="all", **RESTART), swarm(member(tasks=[*TASKS, JOB])))
    assert (step.groups, step.work.waits_for) == (EMPTIED, [])
    assert step.impact[-2:] == [
        "moves service train (2 tasks)",
        "stops task sweep.1.z of service sweep (for 1 min 30 s), container by-hand",
    ]


def test_a_task_without_a_container_counts_as_work():
    step = step_of(host(**RESTART), swarm(member(tasks=TASKS[:1])))
    assert (step.groups, step.work.waits_for, step.impact[-1]) == (EMPTIED, [], "moves service train")


@pytest.mark.parametrize("disrupt", ["never", "services", "all"])
def test_work_does_not_delay_harmless_changes(disrupt):
    step = step_of(host(containers=BUSY, disrupt=disrupt), swarm(member(labels={}, tasks=TASKS)))
    assert (step.groups, step.work.waits_for) == ([LABEL, END], [])


LABELS_EVICT = {"n1": {"train.1.x": "train.1", "sweep.1.z": "sweep.1"}, "n2": {"other.1": "other.1"}}


@pytest.mark.parametrize(
    ("disrupt", "groups", "waits_for", "evicts"),
    [
        ("never", [END], ["train.1", "sweep.1"], []),
        ("services", [END], ["sweep.1"], []),
        ("all", [LABEL, END], [], ["evicts train.1, sweep.1"]),
    ],
)
def test_tasks_that_a_label_would_evict_are_waited_for_or_reported(disrupt, groups, waits_for, evicts):
    old = member(labels={"gpu.count": "3", RECORD: "gpu.count"}, tasks=[TASKS[0], JOB])
    step = step_of(host(disrupt=disrupt), swarm(old, evicted=LABELS_EVICT))
    assert (step.needs, step.groups, step.work.waits_for) == (["labels"], groups, waits_for)
    assert step.impact == ["changes node labels", *evicts]


def test_a_label_may_evict_movable_tasks():
    old = member(labels={"gpu.count": "3", RECORD: "gpu.count"}, tasks=TASKS)
    step = step_of(host(), swarm(old, evicted={"n1": {"train.1.x": "train.1"}}))
    assert (step.groups, step.work.waits_for, step.impact) == ([LABEL, END], [], ["changes node labels", "evicts train.1"])
    # If the labels of a node do not change, no task is evicted. A drained node has no tasks left to evict.
    assert step_of(host(), swarm(member(), evicted={"n1": {"x": "train.1"}})) == step_with(node_id="n1")
    step = step_of(host(containers=BUSY[2:], **RESTART), swarm(old, evicted={"n1": {"train.1.x": "train.1"}}))
    assert (step.groups, step.work.waits_for) == (EMPTIED, ["container by-hand"])


def test_each_host_says_what_may_be_stopped():
    hosts = [host(name, node_id=name, containers=BUSY[2:], disrupt=disrupt, **RESTART) for name, disrupt in
             {"a": "never", "b": "services", "c": "all"}.items()]
    steps = plan(hosts, swarm(member("a"), member("b"), member("c")))
    assert [(step.work.left_alone, bool(step.work.waits_for)) for step in steps.values()] == [(True, True), (False, True), (False, False)]


# --- the toolkit ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "there", "impact"),
    [
        (None, "1.19.0", []),
        ("1.20.0", "1.20.0", []),
        ("1.20.0-1", "1.20.0", []),
        ("1.20.0-1", "1.19.0", ["toolkit 1.19.0 → 1.20.0"]),
        ("1.19.0", "1.20.0", ["toolkit 1.20.0 → 1.19.0"]),
        ("1.20.0-1", None, ["installs toolkit 1.20.0"]),
        (None, None, ["installs toolkit 1.20.0"]),
    ],
)
def test_a_host_gets_its_toolkit(wanted, there, impact):
    step = step_of(host(toolkit=wanted, toolkit_version=there), swarm(member()))
    assert (step.impact, step.needs) == (impact, ["toolkit"] if impact else [])
    assert step.target.toolkit == (wanted or DEFAULT if impact else None)


def test_a_broken_installation_is_finished_with_its_version():
    step = step_of(host(missing=["toolkit_packages"], toolkit_version="1.19.1"), swarm(member()))
    assert (step.target.toolkit, step.impact) == ("1.19.1", ["installs toolkit 1.19.1"])


@pytest.mark.parametrize("version", ["latest", "1.20", "v1.20.0", "1.20.0-1.el9", "1.20.*"])
def test_an_invalid_version_is_refused_with_the_variable_and_the_remedy(version):
    step = step_of(host(toolkit=version, toolkit_version="1.19.0"), swarm(member()))
    assert step.groups == [END]
    assert step.error.startswith(f"nvidia_container_toolkit_version is {version}. It must be one version")
    assert step_of(host(gpu=False, toolkit=version), swarm(member())).error is None


def test_several_versions_in_one_fleet_are_reported():
    old = {"toolkit_version": "1.9.0"}
    hosts = [host("a", toolkit="1.20.0-1", **old), host("b", node_id="n2"), host("c", node_id="n3", **old), host("m", gpu=False, node_id=None)]
    steps = plan(hosts, swarm(member("n1", bound="a"), member("n2", bound="b"), member("n3", bound="c")))
    (text,) = toolkit_warnings(hosts, steps)
    assert "1.20.0 on a, b; 1.9.0 on c. Set nvidia_container_toolkit_version" in text
    assert toolkit_warnings(hosts[:2], steps) == []


@pytest.mark.parametrize(
    ("hold", "held", "needs", "impact"),
    [
        (None, PACKAGES, [], []),
        (True, PACKAGES, [], []),
        (False, (), [], []),
        (True, PACKAGES[:1], ["hold"], ["holds the toolkit's version"]),
        (False, PACKAGES[:1], ["hold"], ["no longer holds the toolkit's version"]),
    ],
)
def test_the_packages_of_the_toolkit_are_held(hold, held, needs, impact):
    step = step_of(replace(host(toolkit_held=list(held)), hold=hold), swarm(member()))
    assert (step.needs, step.impact, step.groups) == (needs, impact, [PREPARE, LABEL, END] if needs else [])


@pytest.mark.parametrize("hold", [None, True, False])
def test_a_held_version_is_changed_only_if_the_inventory_says_so(hold):
    step = step_of(replace(host(toolkit="1.20.0", toolkit_version="1.19.1", toolkit_held=list(PACKAGES[3:])), hold=hold), swarm(member()))
    if hold is None:
        assert "the package manager holds nvidia-container-toolkit at that version. Set nvidia_container_toolkit_hold: true" in step.error
    else:
        assert (step.error, step.needs) == (None, ["toolkit"])  # the task that installs the toolkit also holds or releases it


@pytest.mark.parametrize(("hold", "held"), [(True, ()), (None, PACKAGES[3:])])
def test_maintenance_does_not_change_packages(hold, held):
    one = replace(host(toolkit="1.20.0", toolkit_version="1.19.1", toolkit_held=list(held)), hold=hold)
    assert plan([one], swarm(member()), "runs driver.yml")[one.name].needs == ["maintain"]


def test_each_host_has_its_own_toolkit_and_one_without_gpus_none():
    hosts = [host("m", gpu=False, manager=True, toolkit="1.20.0"), host("a", node_id="n2"), host("b", node_id="n3", toolkit="1.21.0")]
    steps = plan(hosts, swarm(member(role="manager", labels={}, bound="m"), member("n2", bound="a"), member("n3", bound="b")))
    assert {name: step.needs for name, step in steps.items()} == {"m": [], "a": [], "b": ["toolkit"]}


# --- texts ------------------------------------------------------------------------------------------------------------

# case -> (an assessment, what the run does on the host)
IMPACTS = {
    "fresh": ({"toolkit": "1.20.0", **FRESH}, ["installs toolkit 1.20.0", "+2 NVIDIA-GPU", "restarts dockerd", "joins the swarm"]),
    "another kind": (
        {**RESTART, "shown": [*resources(0, 1, kind="GPU"), "SSD=1", "FPGA=a"]},
        ["+2 NVIDIA-GPU", "−2 GPU", "restarts dockerd"],
    ),
    "parts and memory": (
        {**RESTART, "resources": ["MIG-1g.10gb=MIG-1", "VRAM=100", "SSD=1", "DISK=2"], "shown": ["VRAM=90", "SSD=1"]},
        ["+1 MIG-1g.10gb", "VRAM 90 → 100", "+2 DISK", "restarts dockerd"],
    ),
    "another GPU": ({**RESTART, "shown": resources(0, 2)}, ["+1 NVIDIA-GPU", "−1 NVIDIA-GPU", "restarts dockerd"]),
    "no other GPUs": (RELOAD, RELOAD["drift"]),
    "a library to keep": ({"missing": ["nvml_binding"], "shown": resources(0, 1)}, ["keeps pynvml on the node"]),
    "a move": (STRANGER, ["leaves its swarm", "joins the swarm"]),
    "a promotion": ({"manager": True}, ["becomes a manager"]),
}


@pytest.mark.parametrize(("answer", "impact"), IMPACTS.values(), ids=IMPACTS)
def test_a_change_is_described(answer, impact):
    assert step_of(host(**answer), swarm(member())).impact == impact


def test_the_host_that_creates_the_swarm_is_reported():
    steps = plan([host("m", manager=True, **FRESH), host("g1", **FRESH)], swarm())
    assert [step.impact[-1] for step in steps.values()] == ["initialises the swarm", "joins the swarm"]


# --- impossible -------------------------------------------------------------------------------------------------------

NO_ENGINE = "Docker Engine is not installed. Install it on this host and run this again."


@pytest.mark.parametrize(
    ("answer", "error", "groups"),
    [
        (None, "not assessed", []),
        ({}, "not assessed", []),
        ({"unreachable": True, "msg": "no route to host"}, "unreachable: no route to host", []),
        ({"failed": True, "msg": "daemon.json: it is not JSON."}, "daemon.json: it is not JSON.", []),
        ({"failed": True}, "the assessment failed", []),
        # Ansible has not removed this host from the play, so the host must fail at the end of the run.
        (assessed(missing=["engine"], engine=None), NO_ENGINE, [END]),
    ],
)
def test_an_impossible_host_is_reported(answer, error, groups):
    steps = plan([Host("a", True, False, answer), host("b", node_id="n2", **RESTART)], swarm(member(bound="a"), member("n2", bound="b")))
    assert (steps["a"].error, steps["a"].groups, steps["a"].needs) == (error, groups, [])
    assert steps["b"].groups == WINDOWED


SHRINK = {"id": "shrink", "text": "this node would advertise less than before: x is gone."}
LINE = {"id": "kind-gpu-line-is-dropped", "text": "toolkit 1.19.0: the line is dropped."}
MODE = {"id": "mode-ignores-swarm-resource", "text": "toolkit 1.18.1: this mode ignores it."}
VARIABLES = {"id": "variables-not-accepted", "text": "config.toml: no variable counts."}
TRIED = {"id": "toolkit-starts-no-container", "text": "'nvidia-ctk cdi generate' ends with 1."}
ENGINE = {"id": "discrete-tasks-rejected", "text": "Docker Engine 24.0.7: rejected."}


@pytest.mark.parametrize(
    ("refused", "toolkit", "error"),
    [
        ([], None, None),
        ([SHRINK], "1.20.0", SHRINK["text"]),
        ([LINE], None, LINE["text"]),
        ([LINE], "1.19.1-1", LINE["text"]),
        ([LINE], "1.20.0-1", None),  # the toolkit that this run installs solves this
        ([MODE], "1.18.2", MODE["text"]),
        ([MODE], "1.19.1", None),
        ([VARIABLES], "1.20.0", VARIABLES["text"]),  # the file causes this with every toolkit
        ([SHRINK, LINE], "1.20.0", SHRINK["text"]),
        ([LINE, ENGINE], "1.20.0", ENGINE["text"]),
        ([TRIED], "1.19.0", TRIED["text"]),
        ([TRIED], None, TRIED["text"]),
        ([TRIED], "1.20.0-1", None),  # another toolkit is tried after its installation
    ],
)
def test_refusals_of_a_node_are_reported_before_any_change(refused, toolkit, error):
    step = step_of(host(refused=refused, toolkit=toolkit, toolkit_version="1.19.0", **RESTART), swarm(member()))
    assert (step.error, step.groups) == (error, [*([FETCH] if toolkit else []), *WINDOWED] if error is None else [END])
    assert bool(step.needs) is (error is None)


HELD = {"NVIDIA-GPU": dict(named(0, 1, held=[0]), held=[{"value": "x"}]), "SSD": {"type": "discrete", "total": 4, "free": 4, "held": []}}


@pytest.mark.parametrize(
    ("version", "answer", "words"),
    [
        ("20.10.24+dfsg1", RESTART, "gpu-1: the swarm's leader, Docker Engine 20.10.24+dfsg1: At any update of a node"),
        ("24.0.7", RESTART, None),  # no discrete kind is in use
        ("26.1.5", RESTART, None),
        ("20.10.24", {}, None),  # the node is not changed
        (None, RESTART, None),
    ],
)
def test_an_old_leader_is_warned_of(version, answer, words):
    known = swarm(member(resources=HELD), member("m", role="manager", leader=True, engine_version=version))
    hosts = [host(**answer), host("elsewhere", node_id=None)]
    warnings = leader_warnings(hosts, plan(hosts, known), known)
    assert [one[: len(words or "")] for one in warnings] == ([words] if words else [])


LIVE = {"live": ["m1"], "init_on": None, "error": None}
NOBODY = {"live": [], "init_on": None, "error": "No working swarm manager was found. m1: No route to host."}
UNREAD = "The manager m1 could not be queried about the swarm: "


@pytest.mark.parametrize(
    ("known", "error"),
    [
        (Swarm(NOBODY), NOBODY["error"]),
        (Swarm(LIVE, {"failed": True, "msg": "The swarm does not have a leader."}), UNREAD + "The swarm does not have a leader."),
        (Swarm(LIVE, {"unreachable": True, "msg": "No route to host"}), UNREAD + "No route to host"),
        (Swarm(LIVE, {"skipped": True}), UNREAD + "its answer gives no reason"),
        (Swarm(LIVE, None), UNREAD + "its answer gives no reason"),
    ],
)
@pytest.mark.parametrize("disrupt", ["never", "all"])
def test_without_a_manager_nothing_is_changed(known, error, disrupt):
    hosts = [
        host("member", node_id="n1", disrupt=disrupt, **RESTART),
        host("manager", node_id="n2", manager=True, disrupt=disrupt, **RESTART),
        host("fresh", disrupt=disrupt, toolkit="1.20.0", **FRESH),
        host("done", node_id="n3", disrupt=disrupt),
    ]
    for step in plan(hosts, known).values():
        assert step == Step(error=error, groups=[END])


def test_a_stopped_manager_has_its_own_error_without_a_quorum():
    known = Swarm(LIVE, {"failed": True, "msg": "The swarm has no quorum."})
    stopped = host("m2", manager=True, swarm={"state": "unknown", "node_id": None})
    assert "dockerd is not running on this host: start it" in step_of(stopped, known).error


ELSEWHERE = {"state": "active", "node_id": "x9", "control_available": False, "managers": ["10.9.9.9:2377"]}


@pytest.mark.parametrize(
    ("there", "move", "message"),
    [
        (ELSEWHERE, False, "worker of another swarm (managers 10.9.9.9:2377)"),
        (dict(ELSEWHERE, control_available=True), False, "is a manager of another swarm"),
        (dict(ELSEWHERE, control_available=True), True, "is a manager of another swarm"),
        ({"state": "locked", "node_id": ""}, True, "docker swarm unlock"),
        ({"state": "error", "node_id": "x9", "error": "certificate expired"}, True, "(certificate expired)"),
        ({"state": "pending", "node_id": ""}, True, "still trying to reach a swarm"),
        ({"state": "unknown", "node_id": None}, False, "dockerd is not running on this host: start it"),
    ],
)
@pytest.mark.parametrize("known", [swarm(member()), swarm()], ids=["a swarm", "none yet"])
def test_a_node_that_cannot_be_a_member_is_refused_before_it_is_changed(there, move, message, known):
    step = step_of(host(move=move, disrupt="all", swarm=there, **RESTART), known)
    assert message in step.error
    assert (step.groups, step.needs, step.impact) == ([END], [], [])


@pytest.mark.parametrize("there", [{"state": "inactive"}, {"state": "active", "node_id": "n1"}, ELSEWHERE], ids=["fresh", "member", "elsewhere"])
def test_nothing_is_changed_if_the_managers_run_two_swarms(there):
    """It is unknown which swarm the host belongs to."""
    known = replace(swarm(member()), location={"live": ["m"], "init_on": None, "error": "two swarms"})
    step = step_of(host(move=True, disrupt="all", swarm=there, **RESTART), known)
    assert (step.error, step.groups, step.needs) == ("two swarms", [END], [])


@pytest.mark.parametrize(
    ("needs", "role", "autolocked", "refused"),
    [
        (RESTART, "manager", True, True),
        (RESTART, "manager", False, False),
        (RESTART, "worker", True, False),
        ({}, "manager", True, False),
        ({"drift": DRIFT}, "manager", True, False),
    ],
)
def test_a_manager_is_not_restarted_if_that_would_lock_it(needs, role, autolocked, refused):
    known = swarm(member(role=role), member("n2", role="manager"))
    known.ledger["swarm"] = {"autolocked": autolocked}
    step = step_of(host(manager=role == "manager", **needs), known)
    assert ("docker swarm update --autolock=false" in (step.error or "")) == refused
    assert not refused or step.groups == [END]


def test_the_last_manager_is_demoted_only_if_another_host_becomes_one():
    old = host("old", gpu=False)
    known = swarm(member(role="manager", labels={}, bound="old"), member("n2", labels={}, bound="m2"))
    step = step_of(old, known)
    assert "the swarm's last manager" in step.error
    assert step.groups == [END]
    for comes in (host("m2", gpu=False, manager=True, node_id="n2"), host("new", gpu=False, manager=True, node_id=None)):
        assert step_of(old, known, comes).groups == [JOIN, LABEL, END]
    for cannot in (Host("m2", False, True, {"unreachable": True}), host("m2", manager=True, node_id=None, missing=["engine"])):
        assert "the swarm's last manager" in step_of(old, known, cannot).error


def test_a_label_of_another_owner_is_an_error_of_that_host_alone():
    theirs = member("n2", labels={"gpu.model": "T4", "gpu.count": "7", "rack": "r1"}, bound="b")
    steps = plan([host("a", **RESTART), host("b", node_id="n2", **RESTART)], swarm(member(bound="a"), theirs))
    assert (steps["a"].error, steps["a"].groups) == (None, WINDOWED)
    assert (steps["b"].needs, steps["b"].groups) == ([], [END])
    assert steps["b"].error == (
        "node label gpu.count is '7', not set by this collection, and '2' was decided; "
        "gpu.model is 'T4', not set by this collection, and 'NVIDIA-H100-80GB-HBM3' was decided. "
        "If nobody needs it: docker node update --label-rm gpu.count --label-rm gpu.model n2"
    )


@pytest.mark.parametrize(
    ("there", "wanted", "differs"),
    [
        ({}, {}, False),
        ({"a": "1", RECORD: "a"}, {"a": "1"}, False),
        ({"a": "1"}, {"a": "1"}, False),  # another owner's label with the wanted value
        ({"a": "1", RECORD: "a"}, {"a": "2"}, True),
        ({"a": "1", RECORD: "a"}, {}, True),
        ({"a": "1"}, {"a": "2"}, True),  # a conflict
        ({"b": "1"}, {"a": "2"}, True),
    ],
)
def test_changes_of_labels_are_found(there, wanted, differs):
    assert label_change({"labels": there}, wanted) is differs


def test_unknown_labels_are_no_change():
    there = {"cpu.x": "1", "gpu.y": "1", RECORD: "cpu.x,gpu.y"}
    assert label_change({"labels": there}, {"gpu.y": "1"}) is True
    assert label_change({"labels": there}, {"gpu.y": "1"}, ["cpu."]) is False
    assert step_of(host(labels={"gpu.y": "1"}, labels_unknown=["cpu."]), swarm(member(labels=there))).needs == []


# --- leftovers of an earlier run, and the order -------------------------------------------------------------------------

LEFT = {"former_availability": "active", "availability": "pause"}

# A host that an earlier run paused returns to service, unless the host has a fault.
MARKS = {
    "nothing else to do": (host(), {}, [MARKED, END]),
    "labels": (host(), {"labels": {}}, [LABEL, MARKED, END]),
    "another change, and one return to service": (host(**RESTART), {}, WINDOWED),
    "still waiting for work": (host(containers=BUSY, **RESTART), {}, EMPTIED),
    "left alone": (host(containers=BUSY, disrupt="never", **RESTART), {}, [MARKED, END]),
    "without Docker": (host(missing=["engine"]), {}, [END]),
    "a conflicting label": (host(), {"labels": {"gpu.count": "7"}}, [END]),
    "a card that is gone": (host(refused=[{"id": "x", "text": "GPU-1 is gone."}]), {}, [END]),
    "its assessment failed": (Host("gpu-1", True, False, dict(assessed(), failed=True, msg="NVML failed.")), {}, []),
}


@pytest.mark.parametrize(("one", "node", "groups"), MARKS.values(), ids=MARKS)
def test_a_healthy_node_that_was_left_paused_returns_to_service(one, node, groups):
    step = step_of(one, swarm(member(**LEFT, **node)))
    assert (step.groups, step.membership.left_paused) == (groups, True)


def test_a_node_that_only_returns_to_service_waits_for_no_window():
    first = [name for name, (one, node, _groups) in MARKS.items() if only_paused({"a": step_of(one, swarm(member(**LEFT, **node)))})]
    assert first == ["nothing else to do", "labels", "left alone"]
    assert only_paused({"in service": step_of(host(), swarm(member(labels={}))), "no member": Step(error="x")}) == []


STALE = "fault GPU-b8307e85-5370-58d6-87c0-be1b403b4799 reason=lost since=100"
# A node reports a fault. case -> (what its assessment finds, the manager's view, whether the end of the fault is recorded)
CLEARED = {
    "in service": ({}, {}, True),
    "in service, with something else to do": (RESTART, {}, True),
    "the fault is there": ({"fault": STALE}, {}, False),
    "paused": ({}, {"availability": "pause"}, False),
    "already recorded": ({}, {"health": {"state": "fault", "returned": True}}, False),
    "the manager no longer shows the fault": ({}, {"health": {"state": "ok", "returned": False}}, False),
    "the node no longer reports the fault": ({"health": {"shown": "ok"}}, {}, False),
    "no watcher": ({"health": None}, {}, False),
    "its policy is refused": ({"refused": [{"id": "x", "text": "GPU-1 is gone."}]}, {}, False),
}


@pytest.mark.parametrize("case", CLEARED)
def test_the_end_of_a_fault_is_recorded_for_a_node_in_service(case):
    found, node, expected = CLEARED[case]
    one = host(**{"health": {"shown": STALE}, **found})
    step = step_of(one, swarm(member(**{"health": {"state": "fault", "returned": False}, **node})))
    assert step.fault.cleared is expected
    assert cleared({"a": step}) == (["a"] if expected else [])


def test_nothing_is_recorded_for_unread_hosts():
    fleet = swarm(member(health={"state": "fault", "returned": False}))
    assert not step_of(host(gpu=False, health={"shown": STALE}), fleet).fault.cleared
    assert not step_of(replace(host(health={"shown": STALE}), settings={"gpu_node_on_loss": "report"}), fleet).fault.cleared


def test_records_of_an_ended_pause_are_removed():
    step = step_of(host(), swarm(member(former_availability="active")))
    assert (step.groups, step.membership.by_hand) == ([MARKED, END], True)
    assert not step_of(host(), swarm(member(**LEFT))).membership.by_hand


def test_a_node_paused_by_its_owner_stays_paused():
    assert step_of(host(), swarm(member(availability="pause"))) == step_with(node_id="n1")


def test_the_leader_is_changed_last():
    ids = {"m1": "n1", "m2": "n2", "m3": "n3"}
    hosts = [host(name, manager=True, node_id=node_id, **RESTART) for name, node_id in ids.items()]
    for leader in ids:
        known = swarm(*(member(node_id, role="manager", leader=name == leader, bound=name) for name, node_id in ids.items()))
        steps = plan(hosts, known)
        assert list(steps) == list(ids)
        order = [name for name in ids if name != leader] + [leader]
        assert {group: names for group, names in hosts_in(steps).items() if names != order} == {}
        assert set(hosts_in(steps)) == {WINDOW_MANAGERS, MARKED, LABEL, END}


def test_a_step_can_be_sent_as_plain_data():
    step = step_of(host(containers=BUSY, **RESTART), swarm(member(**LEFT)))
    assert Step.from_plan(asdict(step)) == step


def test_an_answer_without_nodes_is_no_ledger():
    assert Swarm(LIVE, ledger()).error.startswith(UNREAD)
    assert Swarm({"live": [], "init_on": "m1", "error": None}, {"skipped": True}).error is None


# --- batches ----------------------------------------------------------------------------------------------------------


def fleet_of(**models):
    """Return hosts by name, with the model of their GPUs. Each host is a member with drift, and runs a task of a service."""
    hosts = [host(name, node_id=name, containers=[(f"train.{name}", "train")], **RESTART) for name in models]
    for one, model in zip(hosts, models.values(), strict=True):
        one.assessed["gpus"] = [dict(gpu, name=model, model=model) for gpu in one.assessed["gpus"]]
    return hosts, swarm(*(member(name, tasks=[task(f"train.{name}", "train")]) for name in models))


def test_members_are_changed_in_batches_with_idle_ones_first():
    hosts, known = fleet_of(a="H100", b="H100", c="T4", d="T4")
    known.nodes["a"]["tasks"].append(JOB)
    hosts.append(host("idle", node_id="i", **RESTART))
    known.ledger["nodes"].append(member("i", bound="idle"))
    steps = plan(hosts, known)
    everyone = ["idle", "b", "c", "d", "a"]
    assert in_batches(hosts, steps) == [[name] for name in everyone]
    cut = in_batches(hosts, steps, 3)
    assert cut == [["idle"], ["b", "c", "d"], ["a"]]
    groups = hosts_in(steps, cut)
    assert (groups[WINDOW], groups[IDLE], groups[END]) == (everyone, ["idle"], ["a", "b", "c", "d", "idle"])


def test_a_host_with_a_lost_card_is_no_separate_model():
    """Otherwise, this host would be a separate canary, before a host of another model."""
    hosts, known = fleet_of(a="T4", b="T4", c="H100")
    hosts[1].assessed["gpus"][0].update(uuid=None, name=None, model=None)
    steps = plan(hosts, known)
    assert in_batches(hosts, steps) == [["a"], ["b"], ["c"]]  # the model of the lost card is unknown
    hosts[1].assessed["left_out"] = [{"index": 0, "uuid": None, "name": "T4", "reason": "GPU is lost", "last_known": True}]
    assert in_batches(hosts, steps) == [["a"], ["c"], ["b"]]


@pytest.mark.parametrize("leader", ["m1", "m2", "m3"])
@pytest.mark.parametrize("setting", [None, "100%"])
def test_managers_are_changed_last_and_one_at_a_time_and_the_leader_at_the_end(leader, setting):
    hosts = [host(name, manager=name[0] == "m", node_id=name, **RESTART) for name in ("m1", "a", "m2", "b", "m3")]
    nodes = [member(one.name, "manager" if one.manager else "worker", leader=one.name == leader, bound=one.name) for one in hosts]
    steps = plan(hosts, swarm(*nodes))
    cut = in_batches(hosts, steps, setting)
    others = [name for name in ("m1", "m2", "m3") if name != leader]
    assert cut[-3:] == [[others[0]], [others[1]], [leader]]
    assert sorted(name for batch in cut[:-3] for name in batch) == ["a", "b"]
    assert hosts_in(steps, cut)[WINDOW] == [name for batch in cut for name in batch]


def test_a_fleet_of_managers_is_changed_one_at_a_time():
    hosts = [host(name, manager=True, node_id=name, **RESTART) for name in ("m1", "m2")]
    steps = plan(hosts, swarm(*(member(name, "manager", leader=name == "m1", bound=name) for name in ("m1", "m2"))))
    assert in_batches(hosts, steps) == [["m2"], ["m1"]]


def test_without_a_window_there_are_no_batches():
    assert in_batches([host()], plan([host()], swarm(member())), "10%") == []
    assert hosts_in(plan([host()], swarm(member()))) == {}


# --- maintenance ------------------------------------------------------------------------------------------------------


def test_every_member_gets_a_window_for_maintenance():
    known = swarm(member(), member("b", tasks=[task("train.1", "train")]), member("m", role="manager"))
    hosts = [host(), host("b", node_id="b"), host("m", gpu=False, manager=True, node_id="m"), host("new", node_id=None)]
    steps = plan(hosts, known, "runs driver.yml and reboots")
    assert [steps[name].groups[:2] for name in ("gpu-1", "b", "m")] == [[IDLE, MARKED], [WINDOW, MARKED], [WINDOW_MANAGERS, MARKED]]
    assert steps["b"].impact == ["runs driver.yml and reboots", "moves service train"]
    assert "not a member of the swarm" in steps["new"].error
    step = plan([host(containers=BUSY[2:], disrupt="never")], known, "runs driver.yml")["gpu-1"]
    assert (step.work.left_alone, step.work.waits_for) == (True, ["container by-hand"])


# --- the node of a host -----------------------------------------------------------------------------------------------


def test_a_node_is_bound_to_its_host_like_any_other_label():
    assert step_of(host(), swarm(member(bound=None))).needs == ["labels"]
    assert step_of(host(gpu=False, manager=True), swarm(member(role="manager", labels={}, bound=None))).needs == ["labels"]
    evicts = {"n1": {"sweep.1.z": "sweep.1"}}  # an old leader stops tasks at any update of the node
    step = step_of(host(), swarm(member(bound=None, tasks=[JOB]), evicted=evicts))
    assert (step.work.left_alone, step.work.waits_for) == (True, ["sweep.1"])


@pytest.mark.parametrize("change", [RESTART, {"manager": True}, {"labels": {}}, {"failed": True, "msg": "NVML failed."}])
def test_a_host_that_shows_another_host_s_node_is_an_error(change):
    step = step_of(host("g7", **change), swarm(member(bound="g1", **LEFT)))
    assert (step.needs, step.groups, step.membership.node_id) == ([], [] if "failed" in change else [END], None)
    if "failed" not in change:
        assert "reports the node id n1, but the node's label gpu-swarm.host says that the node belongs to the host g1" in step.error
        assert "docker node update --label-add gpu-swarm.host=g7 n1" in step.error


def test_two_hosts_with_one_node_id_are_both_in_error():
    hosts = [host("a", **RESTART), host("b", manager=True), host("c", node_id="c", **RESTART), host("d", node_id=None), host("e", node_id=None)]
    for bound in (None, "a"):
        steps = plan(hosts, swarm(member(bound=bound), member("c")))
        assert ["report the same node id n1" in (step.error or "") for step in steps.values()] == [True, True, False, False, False]
        assert "a and b report" in steps["a"].error
        assert "b and a report" in steps["b"].error
        assert [step.groups for step in steps.values()] == [[END], [END], WINDOWED, [JOIN, LABEL, END], [JOIN, LABEL, END]]


@pytest.mark.parametrize(
    ("task_of", "disrupt", "named"),
    [
        ({"age": 200_000}, "services", ["train.1 (2 d 7 h)"]),
        ({"age": 200_000}, "never", []),  # the task is not stopped
        ({"age": 200_000, "kept": "gpu-swarm.keep=true"}, "services", []),
        ({"age": 200_000, "kept": "gpu-swarm.keep=true"}, "all", ["train.1 (2 d 7 h)"]),
        ({"age": 60}, "services", []),
    ],
)
def test_a_plan_knows_which_tasks_it_moves_after_a_long_time(task_of, disrupt, named):
    known = swarm(member(tasks=[task("train.1", "train", **task_of)]))
    step = step_of(host(disrupt=disrupt, **RESTART), known)
    assert step.work.long_running == named
    kept = "task train.1 of service train (for 2 d 7 h, kept by its label gpu-swarm.keep=true)"
    assert (kept in step.work.waits_for) == ("kept" in task_of and disrupt == "services")


NOTED = "gpu-swarm.maintained"


@pytest.mark.parametrize(
    ("noted", "maintain_id", "maintain", "needs"),
    [
        ("driver-570,docker-29", "driver-570", "runs driver.yml", []),
        ("driver-570", "driver-580", "runs driver.yml", ["configure", "restart", "maintain"]),
        ("driver-570", "", "runs driver.yml", ["configure", "restart", "maintain"]),
        ("", "", "runs driver.yml", ["configure", "restart", "maintain"]),
        ("driver-570", "driver-570", None, ["configure", "restart"]),  # a run of provision
    ],
)
def test_a_node_that_has_had_this_maintenance_is_left_alone(noted, maintain_id, maintain, needs):
    one = replace(host(**RESTART), settings={"maintain_id": maintain_id})
    known = member()
    known["labels"][NOTED] = noted
    step = plan([one], swarm(known), maintain)[one.name]
    assert (step.needs, step.maintained, bool(step.groups)) == (needs, "" if needs else maintain_id, bool(needs))


def test_a_node_that_was_left_paused_returns_to_service():
    one = replace(host(), settings={"maintain_id": "x"})
    known = member(availability="pause", former_availability="active")
    known["labels"][NOTED] = "x"
    assert plan([one], swarm(known), "runs driver.yml")[one.name].groups == [MARKED, END]


H100_CLASS, WISH = "gpu.class.h100-12345678", '{"gpu.class.h100-12345678":{"wants":{"model":"*h100*"}}}'


@pytest.mark.parametrize(
    ("labelled", "classes", "needs"),
    [
        (False, [], []),
        (False, [WISH], ["labels"]),  # for example, a new node
        (True, [WISH], []),
        (True, [], ["labels"]),  # no service needs the class any more
        (False, [WISH.replace("h100*", "a100*")], []),
        (True, [WISH.replace("*h100*", "[")], []),  # a class with an invalid model
    ],
)
def test_a_node_has_the_labels_of_the_classes_that_services_need(labelled, classes, needs):
    more = {H100_CLASS: "true"} if labelled else {}
    there = {**LABELS, **more, RECORD: ",".join(sorted([*LABELS, *more]))}
    found = swarm(member(labels=there))
    found.ledger["classes"] = classes
    assert step_of(host(), found).needs == needs
