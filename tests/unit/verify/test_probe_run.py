# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import struct

import pytest
from swarm_api import A, B, named, node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import SwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._verify import probe_run as verify_run
from ansible_collections.fleet.gpu_swarm.plugins.modules import swarm_gpu_verify as module

PREFIX = "gpu-swarm."
NOW = 1000000
PARAMS = {
    "nodes": None, "sample": "all", "gpus": "1", "image": "cuda:1", "images": {}, "pulls": "3", "isolation": {}, "memory": {},
    "command": "nvidia-smi -L", "wait_timeout": 30,
    "prefix": PREFIX,
}  # fmt: skip


class Clock:
    """Time that passes only in sleep()."""

    def __init__(self):
        self.now = 0.0

    def time(self):
        return NOW + self.now

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class FakeManager:
    """A swarm of two GPU nodes. Its tasks run for a while. Then they end with the result of ``outcome(service)``: (state, GPU, log).

    ``fail(what)`` may raise before anything is done.
    """

    def __init__(self, clock, outcome, seconds=2.0, fail=lambda what: None):
        self.clock, self.outcome, self.seconds, self.fail = clock, outcome, seconds, fail
        self.made, self.removed, self.present = [], [], {}

    def nodes(self):
        return [node("n1", resources=named(A)), node("n2", resources=named(B))]

    def tasks(self):
        return []

    def services(self):
        return []

    def services_labelled(self, label):
        name, found, value = label.partition("=")
        return [
            {"ID": service_id, "Spec": {"Labels": spec["Labels"]}}
            for service_id, spec in self.present.items()
            if name in spec["Labels"] and (not found or spec["Labels"][name] == value)
        ]

    def create_service(self, spec):
        self.fail("create %d" % len(self.made))
        service_id = "v%d" % len(self.made)
        self.made.append(spec)
        self.present[service_id] = spec
        return service_id

    def remove_service(self, service_id):
        del self.present[service_id]
        self.removed.append(service_id)

    def tasks_labelled(self, label):
        self.fail("tasks")
        found = [one["ID"] for one in self.services_labelled(label)]
        return [self._task(one, replica) for one in found for replica in range(1, self._replicas(one) + 1)]

    def _replicas(self, service_id):
        return self.present[service_id]["Mode"]["Replicated"]["Replicas"]

    def _task(self, service_id, replica):
        spec = self.present[service_id]["TaskTemplate"]
        node_id = spec["Placement"]["Constraints"][0].partition("==")[2]
        state, gpu, _log = self.outcome(node_id)
        made = task("%s.%d" % (service_id, replica), node_id, (), "running", service=service_id, slot=replica)
        made["GenericResources"] = named(gpu) if gpu else []
        made["Status"]["ContainerStatus"] = {"ContainerID": "c1"}
        if self.clock.now >= self.seconds:
            made["Status"].update(State=state, Err="no suitable node (x)" if state == "pending" else "")
        return made

    def task_log(self, task_id, last):
        assert last == verify_run.LOG_LINES
        self.fail("log")
        template = self.present[task_id.partition(".")[0]]["TaskTemplate"]
        yield framed(self.outcome(template["Placement"]["Constraints"][0].partition("==")[2])[2])


def framed(text, source=1):
    return struct.pack(">BxxxI", source, len(text.encode())) + text.encode()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(verify_run, "time", clock)
    return clock


def good(node_id):
    gpu = {"n1": A, "n2": B}[node_id]
    return "complete", gpu, "GPU 0: T4 (UUID: %s)\n" % gpu


@pytest.fixture
def run(monkeypatch):
    def run(manager, check_mode=False, **params):
        monkeypatch.setattr(module, "connect", lambda params: manager)
        return module.run(dict(PARAMS, **params), check_mode)

    return run


def states(result):
    return [(check["node"], check["state"]) for check in result["checks"]]


def test_all_nodes_are_tested_at_once_and_nothing_remains(clock, run):
    manager = FakeManager(clock, good)
    result = run(manager)
    assert states(result) == [("n1", "passed"), ("n2", "passed")]
    assert (result["changed"], result["failed_checks"], result["ledger_problems"], result["left_behind"]) == (False, [], {}, 0)
    assert len(manager.made) == len(manager.removed) == 2
    assert manager.present == {}
    assert clock.now < manager.seconds + 1
    assert len({spec["Name"] for spec in manager.made}) == 2
    assert {spec["Labels"]["gpu-swarm.verify-until"] for spec in manager.made} == {str(NOW + 30 + verify_run.ABANDONED_AFTER_S)}


def test_one_bad_node_does_not_hide_the_others(clock, run):
    result = run(FakeManager(clock, lambda node_id: good(node_id) if node_id == "n1" else ("complete", B, "%s %s" % (A, B))))
    assert states(result) == [("n1", "passed"), ("n2", "failed")]
    assert [check["node"] for check in result["failed_checks"]] == ["n2"]


def test_by_default_nodes_use_existing_images_and_others_do_not_pull_at_once(clock, run):
    manager, there = FakeManager(clock, good), "sha256:" + 64 * "a"
    result = run(manager, image=None, images={"n1": [{"id": there, "name": "nvidia/cuda:12", "cuda": True}]}, pulls="0")
    assert states(result) == [("n1", "passed"), ("n2", "untested")]
    assert [spec["TaskTemplate"]["ContainerSpec"]["Image"] for spec in manager.made] == [there]
    assert [check["image"] and check["image"]["name"] for check in result["checks"]] == ["nvidia/cuda:12", None]


def test_check_mode_creates_nothing(clock, run):
    manager = FakeManager(clock, good)
    assert states(run(manager, check_mode=True)) == [("n1", "planned"), ("n2", "planned")]
    assert manager.made == manager.removed == []


def test_a_task_that_does_not_end_has_a_time_limit(clock, run):
    manager = FakeManager(clock, good, seconds=1000)
    result = run(manager)
    assert states(result) == [("n1", "failed"), ("n2", "failed")]
    assert 30 <= clock.now < 31
    assert manager.present == {}


def test_without_time_no_task_is_created(clock, run):
    manager = FakeManager(clock, good)
    with pytest.raises(SwarmError, match="^wait_timeout is 0, but must be 1 or more: the seconds to wait for the test tasks"):
        run(manager, wait_timeout=0)
    assert manager.made == []


def test_a_task_without_a_place_is_given_up_early(clock, run):
    result = run(FakeManager(clock, lambda node_id: ("pending", None, "")))
    assert states(result) == [("n1", "failed"), ("n2", "failed")]
    assert verify_run.UNPLACED_S <= clock.now < verify_run.UNPLACED_S + 1


@pytest.mark.parametrize("broken", ["create 0", "create 1", "tasks"])
def test_created_services_are_removed_even_if_the_run_fails(clock, run, broken):
    def fail(what):
        if what == broken:
            raise SwarmError("the manager is gone")

    manager = FakeManager(clock, good, fail=fail)
    with pytest.raises(SwarmError, match="the manager is gone"):
        run(manager)
    assert manager.present == {}


def test_a_node_whose_log_cannot_be_read_fails_alone(clock, run):
    def fail(what):
        if what == "log":
            raise SwarmError("timed out")

    result = run(FakeManager(clock, good, fail=fail))
    assert [check["verdict"] for check in result["checks"]] == ["timed out", "timed out"]


def test_a_log_that_the_manager_could_not_read_is_no_log(clock, run):
    manager = FakeManager(clock, good)
    manager.task_log = lambda task_id, last: iter([framed(A), framed("node n1 is not available", source=3)])
    found = {check["verdict"] for check in run(manager)["checks"]}
    assert found == {"the log of the task could not be read: node n1 is not available"}


def test_leftovers_of_a_killed_run_are_removed(clock, run):
    manager = FakeManager(clock, good)
    template = {"Placement": {"Constraints": ["node.id==n1"]}}
    for name, until in (("old", NOW - 1), ("young", NOW + 5)):
        manager.present[name] = {"Labels": {"gpu-swarm.verify": name, "gpu-swarm.verify-until": str(until)}, "TaskTemplate": template}
    result = run(manager)
    assert (result["left_behind"], result["changed"]) == (1, True)
    assert list(manager.present) == ["young"]
    assert states(result) == [("n1", "passed"), ("n2", "passed")]


def test_a_gpu_that_swarm_allocates_twice_is_a_failure(clock, run):
    manager = FakeManager(clock, lambda node_id: ("complete", A, A))
    manager.nodes = lambda: [node("n1", resources=named(A, B))]
    manager.tasks = lambda: [task("t1", "n1", given=named(A))]
    manager.services = lambda: [service()]
    (check,) = run(manager)["checks"]
    assert (check["state"], check["reserved"]) == ("failed", [A])
    assert "which service train already has" in check["verdict"]


def test_a_guard_is_tested_with_the_rest_and_a_leak_fails_the_node(clock, run):
    """The checks run at the same time. Only a check that needs the node's only GPU runs after the test with this GPU."""
    manager = FakeManager(clock, good)
    result = run(manager, isolation={"n1": "reserved", "n2": "audit"})
    assert [(check["node"], check["probe"], check["state"]) for check in result["checks"]] == [
        ("n1", "allocated", "passed"),
        ("n1", "unreserved", "failed"),  # its log is the same, so this task sees a GPU
        ("n1", "beside", "passed"),
        ("n2", "allocated", "passed"),
    ]
    assert [check["verdict"].partition(",")[0] for check in result["failed_checks"]] == ["NOT ISOLATED: without a reservation"]
    assert [spec["TaskTemplate"]["Resources"]["Reservations"]["GenericResources"] != [] for spec in manager.made] == [True, False, True, True]
    assert (manager.made[3]["Labels"] != manager.made[2]["Labels"], manager.present) == (True, {})
    assert clock.now < manager.seconds + 1


def test_check_mode_shows_how_a_guard_would_be_tested(clock, run):
    manager = FakeManager(clock, good)
    result = run(manager, check_mode=True, isolation={"n1": "exclusive"})
    assert [(check["probe"], check["state"]) for check in result["checks"]][:2] == [("allocated", "planned"), ("unreserved", "planned")]
    assert manager.made == []


class Slots(FakeManager):
    """A node with one card of two slots. When a task ends, its slot is free, and the next service gets this slot."""

    def __init__(self, clock, free=2):
        super().__init__(clock, None)
        self.free = free  # another user gets a slot meanwhile

    def nodes(self):
        return [node("n1", resources=named(*SLOTS, kind="NVIDIA-SLOT"))]

    def _task(self, service_id, replica):
        reserves = self.present[service_id]["TaskTemplate"]["Resources"]["Reservations"]["GenericResources"] != []
        slot = SLOTS[(replica - 1) % self.free] if reserves else None
        made = task("%s.%d" % (service_id, replica), "n1", service=service_id, slot=replica, state="complete")
        made["GenericResources"] = named(slot, kind="NVIDIA-SLOT") if slot else []
        made["Status"]["ContainerStatus"] = {"ContainerID": "c1"}
        return made

    def task_log(self, task_id, last):
        template = self.present[task_id.partition(".")[0]]["TaskTemplate"]
        yield framed("GPU 0: T4 (UUID: %s)\n" % A if template["Resources"]["Reservations"]["GenericResources"] else "no GPU\n")


SLOTS = [A + ".slot1", A + ".slot2"]


def allocated(result):
    return [(check["reserved"], check["state"]) for check in result["checks"] if check["probe"] == "allocated"]


def test_slots_of_a_kind_are_tested_by_replicas_of_one_service(clock, run):
    manager = Slots(clock)
    assert allocated(run(manager, gpus="auto")) == [(SLOTS[:1], "passed"), (SLOTS[1:], "passed")]
    assert [spec["Mode"]["Replicated"]["Replicas"] for spec in manager.made] == [2]
    assert manager.present == {}


def test_a_slot_that_is_tested_twice_counts_once(clock, run):
    assert allocated(run(Slots(clock, free=1), gpus="auto")) == [(SLOTS[:1], "passed"), (SLOTS[:1], "untested")]


def test_a_guard_is_tested_with_the_slot_of_an_ended_test(clock, run):
    """If the allocated tasks had all slots of a node, the additional task runs after them."""
    result = run(Slots(clock), gpus="auto", isolation={"n1": "reserved"})
    found = [(check["probe"], check["reserved"], check["state"]) for check in result["checks"]]
    assert [one for one in found if one[0] != "unreserved"] == [
        ("allocated", SLOTS[:1], "passed"),
        ("allocated", SLOTS[1:], "passed"),
        ("beside", SLOTS[:1], "passed"),
    ]
