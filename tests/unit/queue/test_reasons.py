# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sentences that explain a decision, and the caps in these sentences."""

from __future__ import annotations

import pytest
from queued import GPU, NOW, gang, gpu_node, held, runs, state_of, work

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.admit import admit
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queues import check_queues
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.reasons import LONGEST, gang_problem

HOUR = 3600.0
QUEUES = check_queues({"research": {"max": {GPU: 12, "VRAM": 100}, "per_owner": {GPU: 6}}, "other": {}})
# 4 GPUs of n1 and 5 of n2 are used. Only the use of n1 ends at a known time, and counts for bob.
NODES = (gpu_node("n1"), gpu_node("n2"))
RUNNING, TASKS = (runs("n1", 4, NOW + HOUR, owner="bob"),), (held("n1", 4), held("n2", 5))
HEAD = work("big", 6, owner="alice", since=-1)


def texts(waiting, running=RUNNING, tasks=TASKS, nodes=NODES, queues=QUEUES):
    decisions = admit(state_of(nodes, tasks), queues, waiting, running, NOW)
    return {one.work.name: one.reason.text if one.reason else one.node for one in decisions}


def test_the_head_says_where_and_when_it_starts():
    assert texts([HEAD])["big"] == "it is next, and host-n1 is kept for it; it starts at 1970-01-12T14:46:40Z at the latest"
    assert texts([HEAD], [])["big"] == (
        "it is next, and host-n1 is kept for it; work without a time limit runs there, so nobody knows when it starts"
    )
    assert texts(gang("g", 2, 6), queues=check_queues({"research": {}}))["g0"].startswith("it is next, and host-n1, host-n2 are kept for it; ")


@pytest.mark.parametrize(
    ("waiting", "text"),
    [
        # the queue uses 4 of 12, and keeps 6
        (work(gpus=2, owner="carol", limit=60), "n2"),
        (work(gpus=3, owner="carol", limit=60), "the queue research uses 4 of at most 12 NVIDIA-GPU and keeps 6 for big, and it needs 3"),
        (work(gpus=3, queue="other", limit=60), "n2"),
        # alice uses nothing of 6, and 6 are kept for her
        (
            work(gpus=1, owner="alice", limit=60),
            "alice uses 0 of at most 6 NVIDIA-GPU for each owner in the queue research and keeps 6 for big, and it needs 1",
        ),
        (work(gpus=3, owner="bob", limit=60), "the queue research uses 4 of at most 12 NVIDIA-GPU and keeps 6 for big, and it needs 3"),
        (work(gpus=2, owner="bob", limit=60), "n2"),
        (work(gpus=7, owner="carol"), "it needs 7 NVIDIA-GPU, and the queue research allows 6 at a time for each owner"),
        (work(gpus=13, owner="carol"), "it needs 13 NVIDIA-GPU, and the queue research allows 12 at a time"),
        # other kinds are neither used nor kept
        (work(gpus={"VRAM": 101}), "it needs 101 VRAM, and the queue research allows 100 at a time"),
    ],
)
def test_what_is_kept_for_the_head_counts_for_its_queue_and_its_owner(waiting, text):
    assert texts([HEAD, waiting])["w"] == text


def test_work_may_use_the_whole_cap():
    assert texts([work(gpus=6, owner="carol")], [], [])["w"] == "n1"
    queues = check_queues({"research": {"max": {GPU: 8, "VRAM": 1}}})
    wants = {"VRAM": 2, GPU: 9}
    assert texts([work(gpus=wants)], queues=queues)["w"] == "it needs 9 NVIDIA-GPU, and the queue research allows 8 at a time"


def with_vram(node_id, vram):
    made = gpu_node(node_id)
    made["Description"]["Resources"]["GenericResources"].append({"DiscreteResourceSpec": {"Kind": "VRAM", "Value": vram}})
    return made


PORTS = [{"Protocol": protocol, "TargetPort": 80, "PublishedPort": number, "PublishMode": "host"} for protocol, number in (("udp", 53), ("tcp", 80))]
FREE = check_queues({"research": {}, "other": {}})


@pytest.mark.parametrize(
    ("waiting", "text"),
    [
        (work(gpus=7), "no node has 7 NVIDIA-GPU free; the most on one node is 4 (host-n1)"),
        (work(gpus={GPU: 7, "NanoCPUs": 10**9}), "no node has 1 CPUs, 7 NVIDIA-GPU free; the most on one node is 4 (host-n1)"),
        (work(gpus={"NanoCPUs": 64 * 10**9, "MemoryBytes": 2**30}, ports=PORTS), "n2"),
        (work(gpus=7, ports=PORTS), "no node has 7 NVIDIA-GPU, port 80/tcp, port 53/udp free at the same time"),
        (work(gpus={"VRAM": 9, GPU: 7}), "no node has 7 NVIDIA-GPU, 9 VRAM free at the same time"),
    ],
)
def test_work_without_room_says_what_is_not_free(waiting, text):
    nodes = [with_vram("n1", 40), with_vram("n2", 40)]
    big = work("big", 8, since=-1)  # another is next
    assert texts([big, waiting], nodes=nodes, queues=FREE)["w"] == text


def test_if_nothing_is_free_no_node_is_named():
    tasks = [held("n1", 8), held("n2", 8)]
    found = texts([work("big", 8, since=-1), work()], [], tasks, queues=FREE)
    assert found["w"] == "no node has 1 NVIDIA-GPU free; the most on one node is 0"


def models(**by_node):
    return [gpu_node(name, model=model) for name, model in by_node.items()]


@pytest.mark.parametrize(
    ("same", "nodes", "text"),
    [
        (False, models(n1="A", n2="B"), "its gang needs 2 nodes with 6 NVIDIA-GPU free, and 0 have it"),
        (True, models(n1="A", n2="A"), "its gang needs 2 nodes with 6 NVIDIA-GPU free and the same model of GPU, and 0 have it"),
        (True, models(n1="A", n2="B"), "its gang needs 2 nodes with the same model of GPU, and 1 could hold a member"),
        (False, models(n1="A"), "its gang needs 2 nodes, and 1 could hold a member"),
        (
            True,
            [*models(n2="A"), gpu_node("n1", model="A", availability="pause"), gpu_node("n3", availability="pause", model="B")],
            "it needs nodes that take no new tasks now: host-n1 (paused, by hand), host-n3 (paused, by hand)",
        ),
    ],
)
def test_a_gang_says_how_many_nodes_it_lacks(same, nodes, text):
    assert texts([work("big", 8, since=-1), *gang("g", 2, 6, same_model=same)], nodes=nodes, queues=FREE)["g0"] == text


def test_only_the_nodes_that_refused_the_work_are_named():
    found = texts([*gang("g", 2, 1, avoids=("n1",))], tasks=[], queues=FREE)
    assert found["g0"] == "the nodes with room for it refused it before: host-n1"


def test_work_names_the_one_for_which_its_node_is_kept():
    nodes = [gpu_node("n1"), gpu_node("n2"), gpu_node("n3")]
    tasks = [held("n1", 4), held("n2", 8), held("n3", 4)]
    web, db = (work(name, 8, queue="", limit=None, constraints=["node.id==" + node]) for name, node in (("web", "n3"), ("db", "n1")))
    waiting = [work(limit=None, gpus=4, constraints=["node.id==" + node], name=node) for node in ("n1", "n3")]
    decisions = admit(state_of(nodes, tasks), FREE, waiting, [], NOW, [web, db])
    assert [one.reason.text.partition(",")[0] for one in decisions] == [
        "host-n1 is kept for a task of the service db",
        "host-n3 is kept for a task of the service web",
    ]
    assert decisions[0].reason.text.endswith("which a run moved; until then nothing else starts there, and it has no time limit")


def test_the_nodes_of_a_gang_are_kept():
    found = texts([*gang("g", 2, 8), work(gpus=3, since=9, limit=None)], queues=FREE)
    assert found["w"] == "host-n1, host-n2 are kept for g0, which is next; until then nothing else starts there, and it has no time limit"


@pytest.mark.parametrize("length", [LONGEST - 1, LONGEST, LONGEST + 1])
def test_only_longer_sentences_are_cut(length):
    text = gang_problem("x" * length).text
    assert len(text) == min(length, LONGEST)
    assert text.endswith("…") == (length > LONGEST)


def test_queues_are_named_in_the_order_of_their_names():
    found = texts([work(queue="gone")], queues=dict(reversed(list(FREE.items()))))
    assert found["w"] == "there is no queue gone; the queues are other, research"
