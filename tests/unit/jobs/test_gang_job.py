# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs on several nodes: all members of a gang start, end and wait once more together."""

from __future__ import annotations

import pytest
from queue_swarm import QueueSwarm
from queued import gpu_node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs.job_options import JOB_OPTIONS, RUN_OPTIONS

DEFAULTS = {option: spec.get("default") for option, spec in {**JOB_OPTIONS, **RUN_OPTIONS}.items()}
GANG = {**DEFAULTS, "name": "train", "image": "cuda:13", "gpus": 4, "queue": "research", "nodes": 2}


@pytest.fixture
def swarm():
    return QueueSwarm([], [gpu_node("n%d" % number, data=("10.0.0.%d" % number, "eth0"), model="H100") for number in (1, 2, 3)])


@pytest.fixture
def job():
    return GANG


def shown(result):
    return [(one["state"], one["left"]) for one in result["jobs"]]


def spec_of(swarm, rank):
    return swarm.services_now["id" + swarm.short[rank]]["Spec"]


def test_all_members_start_together_and_each_is_complete(run, rounds, swarm):
    first = run()
    assert (shown(first), first["changed"]) == ([("waiting", True)] * 2, True)
    gang = swarm.created[0][:-2]
    assert swarm.created == [f"{gang}-0", f"{gang}-1"]
    assert [spec_of(swarm, rank)["Labels"]["gpu-swarm.gang"] for rank in (0, 1)] == [f"{gang}:0/2", f"{gang}:1/2"]
    assert [job["gang"] for job in first["jobs"]] == [gang, gang]
    rounds(2)
    assert shown(run()) == [("running", True)] * 2
    variables = [dict(item.split("=", 1) for item in spec_of(swarm, rank)["TaskTemplate"]["ContainerSpec"]["Env"]) for rank in (0, 1)]
    assert [(one["NODE_RANK"], one["WORLD_SIZE"], one["MASTER_ADDR"]) for one in variables] == [("0", "8", "10.0.0.1"), ("1", "8", "10.0.0.1")]
    swarm.end(swarm.short[0])
    assert shown(run()) == [("complete", False), ("running", True)]
    swarm.end(swarm.short[1])
    rounds(1)
    last = run()
    assert (shown(last), last["not_ready"], last["changed"]) == ([("complete", False)] * 2, [], False)


def test_if_a_member_fails_the_whole_gang_is_tried_again(run, rounds, swarm):
    run(retries=1)
    rounds(2)
    swarm.end(swarm.short[1], "failed", "task: non-zero exit (7)", 7)
    rounds(2)
    again = run(retries=1)
    assert shown(again) == [("waiting", True)] * 2
    assert [job["error"].partition("; ")[2].partition("; ")[2] for job in again["jobs"]] == [
        f"the last try: stopped: {swarm.created[1]} of its gang ended first (failed: task: non-zero exit (7))",
        "the last try: task: non-zero exit (7)",
    ]
    rounds(3)
    assert shown(run(retries=1)) == [("running", True)] * 2
    assert [job["retried"] for job in run(retries=1)["jobs"]] == [1, 1]
    swarm.end(swarm.short[0], "failed", "task: non-zero exit (8)", 8)
    rounds(2)
    last = run(retries=1)
    assert (shown(last), last["not_ready"]) == ([("failed", False)] * 2, swarm.created)


def test_a_gang_of_which_one_member_waits_again_is_completed(run, rounds, swarm):
    """The run was killed between the updates of two members."""
    run()
    rounds(2)
    for name in swarm.short:
        swarm.end(name)
    rounds(1)
    updates = []

    def killed(service_id):
        updates.append(service_id)
        if len(updates) == 2:
            raise KeyboardInterrupt

    swarm.before_update = killed
    with pytest.raises(KeyboardInterrupt):
        run(again="always")
    swarm.before_update = lambda service_id: None
    assert [swarm.state(name).partition(" ")[0] for name in swarm.short] == ["waiting", "over"]
    rounds(2)
    assert shown(run()) == [("waiting", True)] * 2
    rounds(2)
    assert (shown(run()), len(swarm.began)) == ([("running", True)] * 2, 4)


def test_an_interrupted_submission_goes_on(run, rounds, swarm):
    create = swarm.create_service

    def killed(spec):
        if swarm.created:
            raise KeyboardInterrupt
        create(spec)

    swarm.create_service = killed
    with pytest.raises(KeyboardInterrupt):
        run()
    swarm.create_service = create
    rounds(2)
    assert swarm.began == []
    assert shown(run()) == [("waiting", True)] * 2
    assert len(swarm.created) == 2
    rounds(2)
    assert shown(run()) == [("running", True)] * 2


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_gang_that_lost_a_member_is_not_submitted_in_part(run, rounds, swarm, check_mode):
    run()
    rounds(2)
    swarm.remove_service("id" + swarm.short[1])
    with pytest.raises(GpuSwarmError, match=f"{swarm.created[1]} of the job train was removed, and the others of its gang remain. Remove the job"):
        run(check_mode)
    assert len(swarm.created) == 2


def test_an_array_of_gangs_is_several_gangs(run, rounds, swarm):
    planned = run(check_mode=True, array=[{"LR": 1}, {"LR": 2}])
    assert (shown(planned), swarm.created) == ([("to be submitted", True)] * 4, [])
    run(array=[{"LR": 1}, {"LR": 2}])
    assert len({spec_of(swarm, number)["Labels"]["gpu-swarm.gang"].partition(":")[0] for number in range(4)}) == 2
    rounds(3)
    assert shown(run(array=[{"LR": 1}, {"LR": 2}])) == [("running", True)] * 4


def test_labels_and_network_of_the_members(run, swarm):
    swarm.networks = lambda: [{"Name": "net", "Id": "i", "Scope": "swarm"}]
    run(networks=["net"], same_model=False, start_timeout=5400)
    spec = spec_of(swarm, 1)
    assert spec["Labels"]["gpu-swarm.gang"].endswith(":1/2 any")
    assert spec["Labels"]["gpu-swarm.start-timeout"] == "90m"
    assert (spec["TaskTemplate"]["Networks"], spec["EndpointSpec"]) == ([{"Target": "net"}], {"Mode": "dnsrr"})
    changed = run(networks=["net"], same_model=False, start_timeout=600, owner="bob")
    assert changed["changed"]
    assert [spec_of(swarm, rank)["Labels"]["gpu-swarm.start-timeout"] for rank in (0, 1)] == ["10m", "10m"]
    assert len(swarm.created) == 2


NEVER = {
    "more nodes than there are": ({"nodes": 4}, "its gang needs 4 nodes with the same model of GPU, and 3 could hold a member"),
    "more than the queue allows": ({"nodes": 3}, "it needs 12 NVIDIA-GPU, and the queue research allows 8 at a time"),
}


@pytest.mark.parametrize(("options", "words"), NEVER.values(), ids=NEVER)
def test_a_gang_that_would_never_start_is_refused(run, swarm, options, words):
    swarm.labels["gpu-swarm.queues"] = '{"research":{%s}}' % ('"max":{"NVIDIA-GPU":8}' if options["nodes"] == 3 else "")
    with pytest.raises(GpuSwarmError, match=words):
        run(**options)
    assert swarm.created == []


def test_a_gang_on_the_host_s_network_needs_addresses_of_nodes(run, swarm):
    swarm.nodes_now = [gpu_node("n1"), gpu_node("n2")]
    with pytest.raises(GpuSwarmError, match="nodes lack the label gpu-swarm.data-address: host-n1, host-n2; provision writes it"):
        run()
    assert swarm.created == []


WRONG = {
    "no queue": ({"queue": None}, "nodes of the job train needs a queue. Write one, such as queue: research, or remove nodes."),
    "a priority without a queue": ({"queue": None, "nodes": 1, "priority": 0}, "priority of the job train needs a queue."),
    "too high a priority": ({"priority": 1001}, "priority of the job train is 1001. Write a whole number from -1000 to 1000."),
    "no node": ({"nodes": 0}, "nodes of the job train is 0. Write a number from 1 to 64."),
    "too many nodes": ({"nodes": 65}, "nodes of the job train is 65."),
    "too many services": ({"nodes": 64, "array": [{"A": n} for n in range(16)]}, "on 64 nodes each, which are 1024 services. Write at most 1000"),
    "a start timeout for one node": ({"nodes": 1, "start_timeout": 60}, "start_timeout of the job train needs several nodes."),
    "any model for one node": ({"nodes": 1, "same_model": False}, "same_model of the job train needs several nodes."),
    "an empty queue": ({"queue": " "}, "queue of the job train is empty. Write the name of a queue, or remove queue."),
    "no start timeout": ({"start_timeout": 0}, "start_timeout of the job train is 0. Write seconds, from 1 to 9999999."),
    "a limit that is too long": ({"time_limit": 10**7 + 1}, "time_limit of the job train is 10000001 seconds, which is too long for a queue."),
    "its own rank": ({"env": {"NODE_RANK": 0}, "array": [{"MASTER_PORT": 1}]}, "The job train sets MASTER_PORT, NODE_RANK. With nodes,"),
    "a long name": ({"name": "t" * 48}, "has 48 characters. With nodes, write at most 47."),
    "no common network": ({"networks": ["bridge"]}, "networks of the job train has bridge. Its members reach each other on host or"),
}


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=WRONG)
def test_wrong_options_of_a_job_on_several_nodes_are_named(run, swarm, options, words):
    with pytest.raises(GpuSwarmError) as problem:
        run(**options)
    assert words in problem.value.message
    assert problem.value.message.endswith("Nothing was submitted.")
    assert swarm.created == []


def test_variables_of_the_network_are_the_user_s(run, swarm):
    assert run(env={"NCCL_SOCKET_IFNAME": "ib0"})["changed"]
