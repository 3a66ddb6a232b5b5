# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Problems that the ledger finds: resources that are counted twice, and GPUs that are visible without a reservation."""

from __future__ import annotations

import pytest
from swarm_api import A, B, discrete, named, node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed

JOB = service("s2", "sweep", mode="ReplicatedJob")


def findings_of(nodes, tasks, services=None, leader="26.1.5+dfsg1", levels=None):
    listed = Listed([node("m1", leader=True, engine=leader), *nodes], tasks, services or [service(), JOB])
    return ledger(listed, "gpu-swarm.", levels=levels)


def texts(result, trap):
    assert {finding["id"] for finding in result["findings"]} <= {trap}
    return [finding["text"] for finding in result["findings"]]


def ended(task_id, given, state="complete", **options):
    return task(task_id, given=given, state=state, desired="complete", service="s2", job=True, **options)


def test_a_gpu_that_is_allocated_to_two_tasks():
    tasks = [task("t1", given=named(A)), task("t2", given=named(B), slot=2), task("t3", given=named(A), slot=3, state="starting")]
    result = findings_of([node(resources=named(A, B))], tasks)
    (twice,) = result["held_twice"]
    assert {key: twice[key] for key in ("kind", "value", "node", "hostname")} == {
        "kind": "NVIDIA-GPU",
        "value": A,
        "node": "n1",
        "hostname": "host-n1",
    }
    assert [(holder["task_id"], holder["name"], holder["state"]) for holder in twice["holders"]] == [
        ("t1", "train.1", "running"),
        ("t3", "train.3", "starting"),
    ]
    (text,) = texts(result, "new-leader-claims-again")
    assert "Here: NVIDIA-GPU %s on node host-n1, allocated to train.1 and train.3." % A in text


@pytest.mark.parametrize(
    ("advertised", "tasks"),
    [
        (named(A, B), [task("t1", given=named(A)), task("t2", given=named(B))]),
        (named(A, A), [task("t1", given=named(A)), task("t2", given=named(A))]),
        (named(A), [task("t1", given=named(A), state="shutdown"), task("t2", given=named(A))]),
        (discrete(8000), [task("t1", given=discrete(8000)), task("t2", given=discrete(8000))]),
    ],
    ids=["one each", "advertised twice", "one has ended", "an amount"],
)
def test_resources_that_are_held_once_are_not_reported(advertised, tasks):
    result = findings_of([node(resources=advertised)], tasks)
    assert (result["held_twice"], result["findings"]) == ([], [])


def test_the_same_name_on_two_nodes_is_two_resources():
    nodes = [node(node_id, resources=named("nvme0", kind="SSD")) for node_id in ("n1", "n2")]
    tasks = [task("t1", "n1", named("nvme0", kind="SSD")), task("t2", "n2", named("nvme0", kind="SSD"))]
    assert findings_of(nodes, tasks)["held_twice"] == []


@pytest.mark.parametrize("leader", ["20.10.24+dfsg1", "26.1.5+dfsg1", "29.5.3"])
def test_finished_jobs_that_are_in_the_way(leader):
    tasks = [task("t1", given=named(A)), ended("t2", named(A)), ended("t3", named(B))]
    result = findings_of([node(resources=named(A, B))], tasks, leader=leader)
    assert result["finished_jobs"] == [
        {
            "service": "sweep",
            "node": "n1",
            "hostname": "host-n1",
            "kind": "NVIDIA-GPU",
            "amount": 2,
            "values": [A, B],
            "tasks": 2,
            "clash": True,
        }
    ]
    (text,) = texts(result, "finished-jobs-count")
    for words in ("Docker Engine " + leader, "Here: job sweep on node host-n1 with %s, %s," % (A, B), "docker service rm", "29.6.0"):
        assert words in text


@pytest.mark.parametrize("leader", ["29.6.0", "30.0.0", "library-import"])
def test_newer_leaders_do_not_count_finished_jobs(leader):
    result = findings_of([node(resources=named(A))], [task("t1", given=named(A)), ended("t2", named(A))], leader=leader)
    assert (result["finished_jobs"], result["findings"]) == ([], [])


@pytest.mark.parametrize(
    ("advertised", "tasks", "amount", "clash"),
    [
        (named(A, B), [ended("t1", named(A)), task("t2", given=named(B))], 1, False),
        (named(A, B), [ended("t1", named(A)), ended("t2", named(A))], 2, True),
        (named(B), [ended("t1", named(A))], 1, True),
        ([], [ended("t1", named(A))], 1, True),
        (discrete(8000), [ended("t1", discrete(3000)), task("t2", given=discrete(5000))], 3000, False),
        (discrete(8000), [ended("t1", discrete(3000)), task("t2", given=discrete(6000))], 3000, True),
        (discrete(8000), [ended("t1", discrete(3000)), ended("t2", discrete(6000))], 9000, True),
        ([], [ended("t1", discrete(1))], 1, True),
    ],
    ids=["another GPU", "two runs of one job", "its GPU is gone", "no GPU left", "fits", "too much", "too much for one job", "no such kind left"],
)
def test_finished_jobs_still_count_under_an_old_leader(advertised, tasks, amount, clash):
    result = findings_of([node(resources=advertised)], tasks)
    assert [(one["amount"], one["clash"]) for one in result["finished_jobs"]] == [(amount, clash)]
    assert len(texts(result, "finished-jobs-count")) == clash


@pytest.mark.parametrize(
    "one",
    [
        ended("t1", named(A), state="running"),
        ended("t1", []),
        task("t1", given=named(A), state="failed", desired="shutdown", service="s2", job=True),
        task("t1", given=named(A), state="shutdown", desired="shutdown"),
        task("t1", given=named(A), state="failed", desired="running"),
    ],
    ids=["still running", "nothing allocated", "failed and not restarted", "no job", "no job, about to be restarted"],
)
def test_other_tasks_are_no_finished_jobs(one):
    assert findings_of([node(resources=named(A))], [one])["finished_jobs"] == []


@pytest.mark.parametrize(
    ("env", "trap", "variable"),
    [
        (["NVIDIA_VISIBLE_DEVICES=all"], "no-reservation-sees-all", "NVIDIA_VISIBLE_DEVICES=all"),
        (["DOCKER_RESOURCE_NVIDIA-GPU=all"], "variable-set-by-hand", "DOCKER_RESOURCE_NVIDIA-GPU=all"),
    ],
)
def test_services_that_see_gpus_without_a_reservation_are_named(env, trap, variable):
    result = findings_of([node(resources=named(A))], [task("t1")], [service(env=env)])
    (text,) = texts(result, trap)
    assert "Here: service train with %s on node host-n1." % variable in text


@pytest.mark.parametrize(
    ("levels", "tasks", "warned"),
    [
        ({}, [], True),
        ({"n1": "reserved"}, [], True),
        ({"n1": "reserved", "n2": "audit"}, [], True),
        ({"n1": "reserved", "n2": "exclusive"}, [], False),
        ({"n1": "reserved", "n2": "exclusive"}, [task("t1")], True),
    ],
    ids=["off", "a node without a guard", "a guard in audit mode", "refused everywhere", "a task of the service runs"],
)
def test_a_service_that_guards_refuse_is_not_warned_of(levels, tasks, warned):
    nodes = [node(resources=named(A)), node("n2", resources=named(B))]
    result = findings_of(nodes, tasks, [service(env=["NVIDIA_VISIBLE_DEVICES=all"])], levels=levels)
    assert len(result["unreserved"]) == 1
    assert [finding["id"] for finding in result["findings"]] == (["no-reservation-sees-all"] if warned else [])


def test_only_some_of_many_are_named():
    tasks = [task("t%d" % number, "n%d" % (number // 2), named(A), slot=number) for number in range(14)]
    result = findings_of([node("n%d" % number, resources=named(A)) for number in range(7)], tasks)
    (text,) = texts(result, "new-leader-claims-again")
    assert len(result["held_twice"]) == 7
    assert "on node host-n4, allocated to t8 and t9; and 2 more." in text.replace("train.8", "t8").replace("train.9", "t9")


def test_a_service_that_reserves_memory_may_set_the_variable():
    shared = service(env=["NVIDIA_VISIBLE_DEVICES=all"], reserves={"VRAM": 4000})
    result = findings_of([node(resources=named(A) + discrete(8000))], [task("t1")], [shared])
    assert (len(result["unreserved"]), result["findings"]) == (1, [])


def test_a_service_that_reserves_0_sees_all_gpus():
    """Swarm omits a value of 0 from its answers."""
    greedy = [task("t1", given=named(A, B), reserves={"NVIDIA-GPU": 0}), task("t2", given=discrete(0), reserves={"VRAM": 0}, slot=2)]
    other = task("t4", "n2", given=named("GPU-d"), reserves={"NVIDIA-GPU": 0}, slot=4)
    more = [task("t3", given=named("GPU-c"), reserves={"NVIDIA-GPU": 1}, slot=3), other]
    nodes = [node(resources=[*named(A, B, "GPU-c"), *discrete(9)]), node("n2", resources=named("GPU-d"))]
    (text,) = texts(findings_of(nodes, [*greedy, *more]), "zero-takes-all")
    assert "takes all free ones on its node" in text
    assert "Here: service train has 2 NVIDIA-GPU on node host-n1; service train has 1 NVIDIA-GPU on node host-n2." in text
    assert findings_of(nodes, more[:1])["findings"] == []


def attached(one, *networks, driver="overlay", ingress=False):
    made = [{"Network": {"ID": name, "DriverState": {"Name": driver}, "Spec": {"Ingress": ingress}}} for name in networks]
    return dict(one, NetworksAttachments=made)


@pytest.mark.parametrize(
    ("tasks", "others", "leader", "found"),
    [
        ([attached(task("t1"), "net1")], [], "20.10.24+dfsg1", True),
        ([attached(task("t1", state="pending"), "net1")], [], "20.10.24+dfsg1", True),
        ([attached(task("t1"), "net1")], [], "23.0.2", False),
        ([attached(task("t1"), "host", driver="host")], [], "20.10.24", False),
        ([attached(task("t1"), "in", ingress=True)], [], "20.10.24", False),
        ([task("t1")], [], "20.10.24", False),
        # The second service on these networks is global and reserves nothing.
        ([attached(task("t1"), "net1"), attached(task("t2", service="s3"), "net1")], [service("s3", "net", mode="Global")], "20.10.24", False),
        ([attached(task("t1"), "net1", "net2"), attached(task("t2", service="s3"), "net1")], [service("s3", "n", mode="Global")], "20.10.24", True),
        ([attached(task("t1"), "net1"), attached(task("t2", service="s3"), "net1")], [service("s3", "web")], "20.10.24", True),
    ],
    ids=range(9),
)
def test_networks_that_evict_tasks_are_reported(tasks, others, leader, found):
    services = [service("s1", "train", reserves={"NVIDIA-GPU": 1}), *others]
    said = texts(findings_of([node(resources=named(A, B))], tasks, services, leader), "network-evicts-gpu-tasks")
    assert ["Here: service train." in text for text in said] == [True] * found


def test_a_sound_swarm_has_no_findings():
    assert findings_of([node(resources=named(A))], [task("t1", given=named(A))])["findings"] == []


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (named(A, B) + discrete(2, "gpu"), "NVIDIA-GPU and gpu on node host-n1"),
        (discrete(1, "nvidia.com/gpu") + named(A), "NVIDIA-GPU and nvidia.com/gpu on node host-n1"),
        (named(A) + named(A, B, kind="GPU"), "NVIDIA-GPU and GPU on node host-n1"),
        (named(A) + named(B, kind="GPU"), ""),
        (named(A) + discrete(15360, "VRAM-C1"), ""),
        (discrete(2, "gpu"), ""),  # the only kind
    ],
)
def test_kinds_that_count_the_same_gpus_are_reported(resources, expected):
    found = texts(findings_of([node(resources=resources)], []), "two-kinds-one-gpu")
    assert [f"Here: {expected}. " in text for text in found] == [True] * bool(expected)
