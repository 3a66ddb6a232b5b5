# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides where a service fits, with the filters of swarmkit's scheduler. The nodes have the form of the API, and each service is judged alone."""

from __future__ import annotations

import pytest
from swarm_api import discrete, node, pending, recorded, reserving, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch

GPU = "NVIDIA-GPU"
NOW = epoch("2026-11-20T12:01:00Z")


def gpus(count, start=0):
    return [{"NamedResourceSpec": {"Kind": GPU, "Value": "GPU-%d" % number}} for number in range(start, start + count)]


def train(reserves=None, replicas=1, mode=None, **more):
    """Return a service. ``more`` goes into the task template, except UpdateStatus, JobStatus and ports."""
    made = service()
    made["Spec"]["Mode"] = mode or {"Replicated": {"Replicas": replicas}}
    for key in ("UpdateStatus", "JobStatus"):
        if key in more:
            made[key] = more.pop(key)
    made["Spec"]["EndpointSpec"] = {"Ports": more.pop("ports", [])}
    made["Spec"]["TaskTemplate"].update(Resources=reserving(reserves or {}), **more)
    return made


def host_port(number, protocol="tcp", mode="host"):
    return {"Protocol": protocol, "TargetPort": 80, "PublishedPort": number, "PublishMode": mode}


def explained(nodes, made, tasks=(), others=()):
    (found,) = ledger(Listed(nodes, tasks, [made, *others], NOW), "gpu-swarm.", ["train"])["explained"]
    return found


def excluded(found):
    return {one["filter"]: one["nodes"] for one in found["excluded"]}


def plugins(one, *names):
    one["Description"]["Engine"]["Plugins"] = [{"Type": kind, "Name": name} for kind, name in names]
    return one


def undescribed(one):
    """Remove the manager's description of the node's dockerd."""
    one["Description"]["Engine"] = {}
    return one


def arm(one):
    one["Description"]["Platform"]["Architecture"] = "aarch64"
    return one


def mount(driver):
    return {"ContainerSpec": {"Image": "bb:1", "Mounts": [{"Type": "volume", "VolumeOptions": {"DriverConfig": {"Name": driver}}}]}}


FOR_AMD64 = {"Platforms": [{"OS": "linux", "Architecture": "amd64"}]}


@pytest.mark.parametrize(
    ("one", "made", "filter_name", "text"),
    [
        (node(availability="pause"), train(), "ready", "host-n1: room, but it takes no new tasks (paused, by hand)"),
        (node(availability="drain"), train(), "ready", "host-n1: room, but it takes no new tasks (drained, by hand)"),
        (
            node(availability="pause", labels={"gpu-swarm.former-availability": "active"}),
            train(),
            "ready",
            "host-n1: room, but it takes no new tasks (paused, by a run of this collection)",
        ),
        (node(State="down"), train(), "ready", "host-n1: room, but it takes no new tasks (down)"),
        (node(), train(**mount("rexray")), "plugins", "host-n1: no volume plugin rexray"),
        (
            plugins(node(), ("Log", "json-file")),
            train(LogDriver={"Name": "splunk"}),
            "plugins",
            "host-n1: no log plugin splunk",
        ),
        (node(), train(Placement={"Constraints": ["node.labels.gpu.model==T4"]}), "constraints", "host-n1: does not meet node.labels.gpu.model==T4"),
        (arm(node()), train(Placement=FOR_AMD64), "platform", "host-n1: its platform is linux/aarch64"),
    ],
)
def test_a_node_is_excluded_by_one_filter(one, made, filter_name, text):
    found = explained([one], made)
    assert (excluded(found), found["feasible"], found["fits"]) == ({filter_name: 1}, [], False)
    assert [(near["filter"], near["text"]) for near in found["nearest"]] == [(filter_name, text)]


@pytest.mark.parametrize(
    ("one", "made"),
    [
        (plugins(node(), ("Volume", "rexray:latest")), train(**mount("rexray"))),
        (node(), train(**mount("local"))),
        (node(), train(LogDriver={"Name": "splunk"})),  # a daemon that lists no log drivers
        (undescribed(node()), train(**mount("rexray"))),
        (plugins(node(), ("Log", "json-file")), train(LogDriver={"Name": "none"})),
        (plugins(node(), ("Log", "json-file")), train(LogDriver={"Options": {"max-size": "1m"}})),
        (arm(node()), train(Placement={"Platforms": [{"OS": "linux", "Architecture": "arm64"}]})),
        (node(), train(Placement={"Constraints": ["node.ip==192.0.2.0/24", "NODE.Hostname==HOST-N1"]})),
        (node(resources=gpus(1)), train({GPU: 1})),
    ],
)
def test_a_suitable_node_passes(one, made):
    found = explained([one], made)
    assert (found["excluded"], found["feasible"], found["fits"], found["text"]) == ([], ["n1"], True, "fits on 1 of 1 nodes")


def test_a_filter_counts_only_nodes_that_earlier_filters_passed():
    nodes = [node("n1", availability="pause"), node("n2"), node("n3", resources=gpus(2)), node("n4", resources=gpus(2, 2), labels={"rack": "7"})]
    found = explained(nodes, train({GPU: 2}, Placement={"Constraints": ["node.labels.rack==7"]}))
    assert found["excluded"] == [{"filter": "ready", "nodes": 1}, {"filter": "resources", "nodes": 1}, {"filter": "constraints", "nodes": 1}]
    assert (found["feasible"], found["room"]) == (["n4"], 1)


def test_the_driver_of_a_network_is_read_from_a_task():
    waiting = pending("t1")
    waiting["NetworksAttachments"] = [{"Network": {"DriverState": {"Name": "weave"}}}]
    found = explained([plugins(node(), ("Network", "overlay"))], train(), [waiting])
    assert [near["text"] for near in found["nearest"]] == ["host-n1: no network plugin weave"]


@pytest.mark.parametrize(
    ("taken", "wanted", "feasible"),
    [
        (host_port(8080), host_port(8080), []),
        (host_port(8080, "udp"), host_port(8080), ["n1"]),
        (host_port(8080, mode="ingress"), host_port(8080), ["n1"]),
        (host_port(8081), host_port(8080), ["n1"]),
        (host_port(0), host_port(0), ["n1"]),
    ],
)
def test_ports_of_the_host_are_checked(taken, wanted, feasible):
    web = service("s2", "web")
    web["Spec"]["EndpointSpec"] = {"Ports": [taken]}
    found = explained([node()], train(ports=[wanted]), [task("w1", service="s2", slot=1)], [web])
    assert found["feasible"] == feasible
    if not feasible:
        assert found["nearest"][0]["text"] == "host-n1: port 8080/tcp of the host is in use"


def test_a_port_of_the_host_is_available_once():
    assert explained([node("n1"), node("n2")], train(ports=[host_port(8080)], replicas=3))["room"] == 2


def test_replicas_per_node_are_limited():
    made = train(replicas=3, Placement={"MaxReplicas": 1})
    found = explained([node("n1"), node("n2")], made, [task("t1", "n1"), task("t2", "n1", desired="shutdown", slot=2)])
    assert (excluded(found), found["feasible"], found["room"]) == ({"replicas": 1}, ["n2"], 1)
    assert found["nearest"][0]["text"] == "host-n1: already at the maximum number of replicas per node (1)"


def test_an_existing_replica_counts_against_the_limit_of_its_node():
    found = explained([node("n1"), node("n2")], train(replicas=4, Placement={"MaxReplicas": 2}), [task("t1", "n1")])
    assert (found["rooms"], found["needed"]) == ({"n1": 1, "n2": 2}, 3)


def test_a_kind_without_free_resources_excludes_a_node():
    """The scheduler acts as if the node lacked the kind."""
    nodes = [node(resources=gpus(1))]
    found = explained(nodes, train({GPU: 0, "MemoryBytes": 1}), [task("b1", service="s2", given=gpus(1))], [service("s2", "batch")])
    assert excluded(found) == {"resources": 1}


# -- the smallest change that would make room ---------------------------------------------------------------------------


def test_a_task_that_reserves_0_uses_a_node_alone():
    """Such a task gets all free resources of a named kind, and none of a counted kind."""
    found = explained([node("n1", resources=gpus(4)), node("n2", resources=gpus(2, 4)), node("n3")], train({GPU: 0}, 3))
    assert (found["rooms"], found["room"], found["fits"]) == ({"n1": 1, "n2": 1}, 2, False)
    assert found["text"].startswith("needs 1 or more NVIDIA-GPU (value: 0 means all free ones) on one node: there is room for 2 of 3 tasks")
    counted = [{"DiscreteResourceSpec": {"Kind": GPU, "Value": 4}}]
    assert explained([node("n1", resources=counted)], train({GPU: 0}, 3))["rooms"] == {"n1": None}


def test_the_nodes_that_lack_least_are_named_with_tasks_in_the_way():
    nodes = [
        node("g1", resources=gpus(2)),
        node("g2", resources=gpus(4, 2)),
        node("g3", resources=gpus(1, 6)),
        node("g4", resources=gpus(2, 7), availability="pause"),
        node("g5", resources=gpus(2, 9), availability="pause"),
    ]
    tasks = [
        pending("t1", {GPU: 2}, since="2026-11-20T12:00:00Z"),
        task("b7", "g1", gpus(1), service="s2", slot=7),
        task("b1", "g2", gpus(3, 2), service="s2", slot=1),
        task("b2", "g2", gpus(1, 5), service="s2", slot=2),
    ]
    found = explained(nodes, train({GPU: 2}), tasks, [service("s2", "batch")])
    assert [near["text"] for near in found["nearest"]] == [
        "host-g1 has 1 NVIDIA-GPU free and would have 2 if batch.7 ended",
        "host-g2 has 0 NVIDIA-GPU free and would have 3 if batch.1 ended",
        "host-g4, host-g5: room, but it takes no new tasks (paused, by hand)",
    ]
    assert found["text"] == "needs 2 NVIDIA-GPU on one node: " + "; ".join(near["text"] for near in found["nearest"]) + (
        "; 2 NVIDIA-GPU are free in all, and at most 1 on one node (fragmented)"
    )
    assert (found["possible"], found["fits"], found["room"], found["age"]) == (True, False, 0, 60)


def test_the_node_that_lacks_less_comes_first():
    tasks = [task("b1", "g1", gpus(4), service="s2", slot=1), task("b2", "g2", gpus(1, 4), service="s2", slot=2)]
    found = explained([node("g1", resources=gpus(4)), node("g2", resources=gpus(4, 4))], train({GPU: 4}), tasks, [service("s2", "batch")])
    assert [near["hostnames"] for near in found["nearest"]] == [["host-g2"], ["host-g1"]]


def test_a_task_that_holds_exactly_what_is_missing_is_named_before_a_larger_one():
    tasks = [task("b1", "g1", gpus(3), service="s2", slot=1), task("b2", "g1", gpus(2, 3), service="s2", slot=2)]
    found = explained([node("g1", resources=gpus(5))], train({GPU: 2}), tasks, [service("s2", "batch")])
    assert found["text"] == "needs 2 NVIDIA-GPU on one node: host-g1 has 0 NVIDIA-GPU free and would have 2 if batch.2 ended"


def test_gpus_that_are_free_on_one_node_are_not_fragmented():
    """The node has enough free GPUs, but no free CPUs."""
    tasks = [task("b1", "g1", reserves={"NanoCPUs": 2 * 10**9}, service="s2")]
    found = explained([node("g1", resources=gpus(2))], train({GPU: 2, "NanoCPUs": 10**9}), tasks, [service("s2", "batch")])
    assert found["text"] == "needs 2 NVIDIA-GPU, 1 CPUs on one node: host-g1 has 0 CPUs free"


def test_a_task_that_is_being_replaced_is_named_once():
    tasks = [task("old", "g1", gpus(1, 1), service="s2", desired="shutdown"), task("new", "g1", gpus(1, 2), service="s2", state="preparing")]
    found = explained([node("g1", resources=gpus(4, 1))], train({GPU: 4}), tasks, [service("s2", "batch")])
    assert found["nearest"][0]["text"] == "host-g1 has 2 NVIDIA-GPU free and would have 4 if batch.1 ended"


def test_several_tasks_would_have_to_end():
    tasks = [task("b%d" % slot, "g1", gpus(1, slot), service="s2", slot=slot) for slot in range(1, 4)]
    found = explained([node("g1", resources=gpus(3, 1))], train({GPU: 2}), tasks, [service("s2", "batch")])
    assert found["nearest"][0]["text"] == "host-g1 has 0 NVIDIA-GPU free and would have 2 if batch.1, batch.2 ended"


def test_its_own_tasks_are_no_answer():
    found = explained([node("g1", resources=gpus(1))], train({GPU: 1}, replicas=2), [task("t1", "g1", gpus(1)), pending("t2", {GPU: 1}, slot=2)])
    assert found["nearest"][0]["text"] == "host-g1 has 0 NVIDIA-GPU free"


def test_no_task_is_named_for_missing_cpus_or_memory():
    tasks = [task("b1", reserves={"NanoCPUs": 10**9}, service="s2")]
    found = explained([node()], train({"NanoCPUs": 2 * 10**9}), tasks, [service("s2", "batch")])
    assert found["text"] == "needs 2 CPUs on one node: host-n1 has 1 CPUs free"
    assert found["wants"] == {"CPUs": 2}


def test_no_task_is_named_if_cpus_are_missing_too():
    tasks = [task("b1", given=gpus(1), reserves={"NanoCPUs": 10**9, GPU: 1}, service="s2")]
    found = explained([node(resources=gpus(1))], train({GPU: 1, "NanoCPUs": 2 * 10**9}), tasks, [service("s2", "batch")])
    assert [near["text"] for near in found["nearest"]] == ["host-n1 has 1 CPUs, 0 NVIDIA-GPU free"]


@pytest.mark.parametrize(
    ("reserves", "constraints", "text"),
    [
        ({GPU: 9}, [], "needs 9 NVIDIA-GPU on one node: wants 9 NVIDIA-GPU; the most that a node has: 2 (host-g1)"),
        ({}, ["node.labels.rack==9"], "finds no node: no node meets node.labels.rack==9; host-g1: does not meet node.labels.rack==9"),
    ],
)
def test_a_service_that_fits_nowhere_is_explained(reserves, constraints, text):
    found = explained([node("g1", resources=gpus(2))], train(reserves, Placement={"Constraints": constraints}))
    assert (found["possible"], found["text"]) == (False, text)


def test_there_may_be_room_for_some_of_the_tasks():
    found = explained([node("g1", resources=gpus(3))], train({GPU: 1}, replicas=5))
    assert (found["room"], found["needed"], found["fits"], found["feasible"]) == (3, 5, False, ["g1"])
    assert found["text"] == "needs 1 NVIDIA-GPU on one node: there is room for 3 of 5 tasks"


def test_the_kind_with_the_least_room_limits_the_tasks_of_a_node():
    one = node("g1", resources=[*gpus(4), *discrete(2, "VRAM")])
    assert explained([one], train({GPU: 1, "VRAM": 1}, replicas=5))["room"] == 2
    assert explained([one], train({GPU: 2, "VRAM": 1}, replicas=5))["room"] == 2
    assert explained([one], train({GPU: 4, "VRAM": 1}, replicas=5))["room"] == 1


@pytest.mark.parametrize("others", [[], [{"Type": "bind", "Source": "/data"}]])
def test_cluster_volumes_are_ignored(others):
    found = explained([node()], train(ContainerSpec={"Mounts": [{"Type": "cluster", "Source": "data"}, *others]}))
    assert (found["fits"], found["unchecked"]) == (True, ["cluster volumes"])


# -- before the filters ------------------------------------------------------------------------------------------------

ONCE = {"RestartPolicy": {"Condition": "none"}}
SAID = "update paused due to failure or early termination of task t0"
PAUSED = {"UpdateStatus": {"State": "paused", "StartedAt": "2026-11-20T12:00:00.5Z", "Message": SAID}}
THRICE = {"RestartPolicy": {"Condition": "any", "MaxAttempts": 3}}
FIRST = {"JobStatus": {"JobIteration": {}}}
JOB = {"ReplicatedJob": {"MaxConcurrent": 2, "TotalCompletions": 5}}


def ended(task_id, state="failed", slot=1, **more):
    return task(task_id, state=state, desired="shutdown", slot=slot, error="task: non-zero exit (1)" if state == "failed" else None, **more)


@pytest.mark.parametrize(
    ("made", "tasks", "texts"),
    [
        (train(replicas=0), [], ["it is scaled to 0 replicas"]),
        (train(), [], []),
        (train(), [task("t1")], []),
        (train(replicas=2, **ONCE), [ended("t1", "complete"), ended("t2", slot=2)], [
            "2 tasks have ended and are not started again (restart condition none); the last failed with: task: non-zero exit (1)"
        ]),
        (train(**THRICE), [ended("t1")], ["1 task has used up its restart attempts (3); the last failed with: task: non-zero exit (1)"]),
        (train(), [task("t1", state="ready", desired="ready")], ["1 task starts after its restart delay"]),
        (train(), [pending("t1", state="new", error=None)], ["1 task has no address in its networks yet (state new)"]),
        (train(**PAUSED), [], ["its update is paused: failure or early termination of task t0"]),
        (train(UpdateStatus={"State": "rollback_paused", "Message": ""}), [], ["its rollback is paused: no reason given"]),
        (train(UpdateStatus={"State": "completed"}), [task("t1")], []),
        (train(**ONCE), [ended("t1"), task("t2")], []),  # someone forced the service to run again, and the task is running
        (train(replicas=2, **ONCE), [ended("t1", "complete"), ended("t2", "complete", 2)], ["it has finished: 2 of 2 tasks are complete"]),
        (train(mode={"GlobalJob": {}}, **FIRST), [ended("t1", "complete", None, job=True)], ["it has finished: 1 of 1 tasks are complete"]),
        (train(mode=JOB, **FIRST), [ended("t1", job=True)], [
            "0 of 5 tasks are complete, and none runs; the last failed with: task: non-zero exit (1)"
        ]),
        (train(mode=JOB, **FIRST), [task("t1", job=True), task("t2", job=True, slot=2)], [
            "3 tasks follow once others have ended: it has at most 2 at a time"
        ]),
        (train(mode=JOB, **FIRST), [task("t%d" % slot, state="complete", desired="complete", job=True) for slot in range(5)], [
            "it has finished: 5 of 5 tasks are complete"
        ]),
    ],
)  # fmt: skip
def test_the_reason_for_a_missing_task_is_named(made, tasks, texts):
    found = explained([node()], made, tasks)
    assert found["without_tasks"] == texts
    assert found["text"] == "; ".join([*texts, *(["fits on 1 of 1 nodes"] if found["waiting"] or not texts else [])])


def test_the_reason_for_missing_tasks_comes_before_that_of_waiting_ones():
    """Of two wanted tasks, one waits, and the paused update prevents the other."""
    found = explained([node(resources=gpus(1))], train({GPU: 2}, replicas=2, **PAUSED), [pending("t1", {GPU: 2})])
    assert found["text"].startswith("needs 2 NVIDIA-GPU on one node: its update is paused: failure or early termination of task t0; wants 2")


def test_a_global_service_on_a_paused_node():
    nodes = [node("n1"), node("n2", availability="pause"), node("n3", availability="drain")]
    found = explained(nodes, train(mode={"Global": {}}), [task("t1", "n1", slot=None)])
    assert found["without_tasks"] == ["swarm creates no tasks of a global service on paused nodes: host-n2"]
    assert (found["nodes"], found["feasible"], found["fits"]) == (2, [], True)


def test_a_global_service_without_room_on_one_node():
    nodes = [node("g1", resources=gpus(1)), node("g2", resources=gpus(1, 1))]
    tasks = [task("t1", "g1", gpus(1), slot=None), pending("t2", {GPU: 1}, node_id="g2", slot=None), task("b1", "g2", gpus(1, 1), service="s2")]
    found = explained(nodes, train({GPU: 1}, mode={"Global": {}}), tasks, [service("s2", "batch")])
    assert (found["fits"], found["feasible"], found["needed"]) == (False, [], 1)
    assert found["text"] == "needs 1 NVIDIA-GPU on one node: host-g2 has 0 NVIDIA-GPU free and would have 1 if batch.1 ended"


# -- which services are explained --------------------------------------------------------------------------------------


def test_services_with_missing_tasks_are_found():
    services = [train(), service("s2", "fine"), service("s3", "none"), service("s4", "waits")]
    services[2]["Spec"]["Mode"] = {"Replicated": {"Replicas": 0}}
    tasks = [task("t2", service="s2"), pending("t4", service="s4"), ended("t3", service="s3")]
    found = ledger(Listed([node()], tasks, services, NOW), "gpu-swarm.", ["*"])["explained"]
    assert [one["service"] for one in found] == ["train", "waits"]


UNLESS_FAILED = {"RestartPolicy": {"Condition": "on-failure"}}
NEVER_STARTED = {"RestartPolicy": {"Condition": "none"}, **PAUSED}
GLOBAL_JOB = {"GlobalJob": {}}


def made_at(one, stamp):
    return {**one, "CreatedAt": stamp}


@pytest.mark.parametrize(
    ("made", "tasks", "needed"),
    [
        (train(**ONCE), [ended("t1", "complete")], 0),
        (train(**ONCE), [ended("t1")], 0),  # the task failed, so it has ended too
        (train(**ONCE), [ended("t1", "shutdown")], 0),
        (train(**ONCE), [task("t1", desired="shutdown")], 0),  # the node is down, and swarm starts no other task
        (train(**ONCE), [ended("t1", "rejected"), ended("t2", "complete")], 0),
        (train(replicas=3, **ONCE), [ended("t1", "complete"), task("t2", slot=2), ended("t3", slot=3)], 0),
        (train(replicas=3, **ONCE), [ended("t1", "complete"), task("t2", slot=2)], 1),
        (train(replicas=2, **ONCE), [ended("t1", "complete"), pending("t2", slot=2)], 1),
        (train(**ONCE), [ended("t1", "complete"), pending("t2")], 1),  # the task runs once more
        (train(**ONCE), [], 1),
        (train(**ONCE), [task("t1", state="shutdown", desired="remove")], 1),
        (train(**UNLESS_FAILED), [ended("t1", "complete")], 0),
        (train(**UNLESS_FAILED), [ended("t1")], 1),
        (train(**UNLESS_FAILED), [made_at(ended("t1", "complete"), "2026-11-20T11:00:00Z"), made_at(ended("t2"), "2026-11-20T11:30:00Z")], 1),
        (train(**UNLESS_FAILED), [made_at(ended("t2"), "2026-11-20T11:00:00Z"), made_at(ended("t1", "complete"), "2026-11-20T11:30:00Z")], 0),
        (train(), [ended("t1", "complete")], 1),  # swarm starts it again
        (train(mode={"Global": {}}, **ONCE), [ended("t1", "complete", None)], 0),
        (train(mode=JOB, **FIRST), [ended("t%d" % slot, "complete", slot, job=True) for slot in range(5)], 0),
        (train(mode=JOB, **FIRST), [task("t1", job=True, slot=0), task("t2", job=True)], 0),  # the job runs no more tasks at a time
        (train(mode=JOB, **FIRST), [ended("t0", "complete", 0, job=True)], 2),
        (train(mode=JOB, **FIRST), [ended("t%d" % slot, "complete", slot, job=True) for slot in range(4)], 1),
        (train(mode=JOB, JobStatus={"JobIteration": {"Index": 9}}), [ended("t%d" % slot, "complete", slot, job=True) for slot in range(5)], 2),
        (train(mode=GLOBAL_JOB, **FIRST), [ended("t1", "complete", None, job=True)], 0),
        (train(mode=GLOBAL_JOB, **FIRST), [ended("t1", "complete", None, job=True), pending("t2", slot=None, job=True)], 1),
        (train(replicas=0), [], 0),
        (train(replicas=0, **PAUSED), [], 0),
    ],
)
def test_a_finished_service_waits_for_nothing(made, tasks, needed):
    one = explained([node()], made, tasks)
    listed = ledger(Listed([node()], tasks, [made], NOW), "gpu-swarm.", ["*"])["explained"]
    assert (one["needed"], bool(listed)) == (needed, bool(needed))
    assert one["over"] == (not needed and not one["live"] and not one["waiting"] and "Global" not in made["Spec"]["Mode"])


def test_a_global_job_without_a_task_yet_is_not_over():
    assert not explained([node()], train(mode=GLOBAL_JOB, **FIRST))["over"]


@pytest.mark.parametrize(("stamp", "shown"), [("2026-11-20T12:00:01Z", False), ("2026-11-20T11:59:59Z", True)])
def test_a_paused_update_of_a_job_counts_for_tasks_that_it_did_not_reach(stamp, shown):
    """If a task ends within seconds, swarm treats the update as failed, even if the task is complete."""
    tasks = [made_at(ended("t1", "complete"), "2026-11-20T12:00:02Z"), made_at(ended("t2", "complete", 2), stamp)]
    found = ledger(Listed([node()], tasks, [train(replicas=2, **NEVER_STARTED)], NOW), "gpu-swarm.", ["*"])["explained"]
    assert bool(found) is shown


def test_only_a_limited_number_is_explained_and_the_longest_waiting_first():
    services = [service(f"s{number}", name) for number, name in enumerate(["aside", "first", "second", "third"])]
    waiting = [("s1", "10:00"), ("s3", "12:00"), ("s2", "11:00")]
    tasks = [pending(f"t-{owner}", service=owner, since=f"2026-11-20T{hour}:00Z") for owner, hour in waiting]
    found = [
        [one["service"] for one in ledger(Listed([node()], tasks, services, NOW), "gpu-swarm.", ["*"], most)["explained"]] for most in (1, 2, 3, 4)
    ]
    assert found == [["first"], ["first", "second"], ["first", "second", "third"], ["aside", "first", "second", "third"]]


def test_services_are_found_by_name_or_id():
    services = [train(), service("s2", "fine")]
    found = ledger(Listed([node()], [], services, NOW), "gpu-swarm.", ["s1", "fine", "gone"])["explained"]
    assert [one["service"] for one in found] == ["fine", "train"]


def test_nothing_is_explained_unless_wanted():
    assert "explained" not in ledger(Listed([node()], [], [train()], NOW), "gpu-swarm.")


def test_a_recorded_swarm_is_explained():
    found = ledger(Listed(recorded("nodes"), recorded("tasks"), recorded("services"), NOW), "gpu-swarm.", ["big", "train", "*"])["explained"]
    (big,) = [one for one in found if one["service"] == "big"]
    assert (big["waiting"], big["possible"], excluded(big)) == (1, False, {"resources": 1})
