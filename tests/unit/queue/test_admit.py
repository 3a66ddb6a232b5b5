# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tables of decisions: each case is a small fleet, what runs on it, and what waits."""

from __future__ import annotations

import pytest
from queued import GPU, NOW, gang, gpu_node, held, runs, state_of, work
from swarm_api import node, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.admit import MOST_ADMITTED, MOST_EXPLAINED, MOST_SHAPES, admit
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queues import check_queues

QUEUES = check_queues({"research": {"weight": 3}, "nightly": {"priority": -10}, "other": {"weight": 1}, "open": {"time_limit": "none"}})
HOUR = 3600.0


def decide(nodes, waiting, running=(), tasks=(), queues=QUEUES, moved=()):
    """Return the decisions by service."""
    return {one.work.service_id: one for one in admit(state_of(nodes, tasks), queues, waiting, running, NOW, moved)}


def nodes_of(decisions):
    return {name: one.node for name, one in decisions.items()}


def started(decisions):
    return [name for name, one in decisions.items() if one.node]


# -- packing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "gpus", "chosen"),
    [
        ({"n1": 0, "n2": 4, "n3": 6}, 1, "n3"),
        ({"n1": 0, "n2": 4, "n3": 6}, 2, "n3"),
        ({"n1": 0, "n2": 4, "n3": 6}, 3, "n2"),
        ({"n1": 0, "n2": 4, "n3": 6}, 5, "n1"),
        ({"n1": 4, "n2": 4}, 2, "n1"),  # by name
    ],
)
def test_work_goes_to_the_node_with_the_least_left_over(used, gpus, chosen):
    decisions = decide([gpu_node(name) for name in used], [work(gpus=gpus)], tasks=[held(name, count) for name, count in used.items() if count])
    assert decisions["w"].node == chosen
    assert decisions["w"].reason is None


def test_what_a_decision_admits_counts_for_the_next_work():
    decisions = decide([gpu_node("n1"), gpu_node("n2")], [work("w%d" % number, 3, since=number) for number in range(5)])
    assert nodes_of(decisions) == {"w0": "n1", "w1": "n1", "w2": "n2", "w3": "n2", "w4": None}


def test_admitted_work_without_a_task_counts_already():
    assert decide([gpu_node("n1")], [work(gpus=4)], [runs("n1", 5, placed=False)])["w"].node is None
    assert decide([gpu_node("n1")], [work(gpus=4)], [runs("n1", 4, placed=False)])["w"].node == "n1"
    assert decide([gpu_node("n1")], [work(gpus=4)], [runs("gone", 8, placed=False)])["w"].node == "n1"


def test_work_without_gpus_prefers_nodes_without_free_gpus():
    plain = node("n3")
    assert decide([gpu_node("n1"), gpu_node("n2"), plain], [work(gpus={"NanoCPUs": 10**9})])["w"].node == "n3"
    assert decide([gpu_node("n1"), gpu_node("n2")], [work(gpus={"NanoCPUs": 10**9})], tasks=[held("n2", 8)])["w"].node == "n2"


def with_kinds(node_id, vram, cpus=64, **kinds):
    made = gpu_node(node_id)
    made["Description"]["Resources"]["GenericResources"] += [
        {"DiscreteResourceSpec": {"Kind": kind, "Value": amount}} for kind, amount in {"VRAM": vram, **kinds}.items()
    ]
    made["Description"]["Resources"]["NanoCPUs"] = cpus * 10**9
    return made


@pytest.mark.parametrize(
    ("nodes", "gpus", "chosen"),
    [
        # n1 has room for 8 (GPUs) + 4 (VRAM) such demands, n2 for 8 + 2
        ([with_kinds("n1", 40), with_kinds("n2", 20)], {GPU: 1, "VRAM": 10}, "n2"),
        ([with_kinds("n1", 20), with_kinds("n2", 40)], {GPU: 1, "VRAM": 10}, "n1"),
        # the difference counts in demands, not in units: one demand of T4 is more than half a demand of VRAM
        ([with_kinds("n1", 100, T4=2), with_kinds("n2", 140, T4=1)], {"VRAM": 80, "T4": 1}, "n2"),
        # CPUs do not count before GPUs
        ([with_kinds("n1", 0, cpus=64), with_kinds("n2", 8, cpus=16)], {GPU: 1, "VRAM": 1, "NanoCPUs": 10**9}, "n2"),
        ([with_kinds("n1", 4, cpus=64), with_kinds("n2", 8, cpus=16)], {GPU: 1, "VRAM": 1, "NanoCPUs": 10**9}, "n1"),
        # n1 advertises 0 of a kind
        ([with_kinds("n1", 4, T4=0), with_kinds("n2", 4, T4=1)], {GPU: 1, "VRAM": 1}, "n1"),
        # both nodes have equal room for the demand: choose the node with less of other kinds, then with fewer CPUs
        ([with_kinds("n1", 4, T4=2), with_kinds("n2", 4)], {GPU: 1, "VRAM": 1}, "n2"),
        ([with_kinds("n1", 4), with_kinds("n2", 4, cpus=32)], {GPU: 1, "VRAM": 1}, "n2"),
        ([with_kinds("n1", 4, cpus=32), with_kinds("n2", 4)], {GPU: 1, "NanoCPUs": 10**9}, "n1"),
    ],
)
def test_all_kinds_count_for_what_is_left_over(nodes, gpus, chosen):
    assert decide(nodes, [work(gpus=gpus)])["w"].node == chosen


def test_of_other_kinds_the_free_part_counts_and_cpus_are_no_kind():
    nodes = [with_kinds("n1", 4, T4=4), with_kinds("n2", 4, T4=1)]
    uses = task("t", "n1", [], reserves={"T4": 2}, service="s")
    uses["GenericResources"] = [{"DiscreteResourceSpec": {"Kind": "T4", "Value": 2}}]
    assert decide(nodes, [work(gpus={GPU: 1, "VRAM": 1})], tasks=[uses])["w"].node == "n1"
    nodes = [gpu_node("n1"), with_kinds("n2", 1)]
    cpus = task("t", "n2", [], reserves={"NanoCPUs": 60 * 10**9}, service="s")
    assert decide(nodes, [work()], tasks=[cpus])["w"].node == "n1"


def test_swarm_compares_cpus_only_for_work_that_reserves_something():
    cpus = task("t", "n1", [], reserves={"NanoCPUs": 65 * 10**9}, service="s")  # more than the node has
    assert nodes_of(decide([gpu_node("n1")], [work("none", {}), work("one", 1)], tasks=[cpus])) == {"none": "n1", "one": None}
    everything = task("t", "n1", [], reserves={"NanoCPUs": 64 * 10**9, "MemoryBytes": 2**40}, service="s")
    assert nodes_of(decide([gpu_node("n1")], [work("one", 1)], tasks=[everything])) == {"one": "n1"}


def test_nodes_with_the_same_left_over_are_taken_by_name_whatever_the_order_of_the_list():
    assert decide([gpu_node("n2"), gpu_node("n1")], [work()])["w"].node == "n1"


def test_work_that_needs_a_plugin_goes_to_a_node_that_has_it():
    nodes = [gpu_node("n1", 2), gpu_node("n2")]
    nodes[0]["Description"]["Engine"]["Plugins"] = [{"Type": "Log", "Name": "json-file"}]
    nodes[1]["Description"]["Engine"]["Plugins"] = [{"Type": "Volume", "Name": "rexray"}]
    with_volume = work("v", since=2)
    with_volume = with_volume._replace(demand=with_volume.demand._replace(plugins=[("Volume", "rexray")]))
    assert nodes_of(decide(nodes, [work("w", since=1), with_volume])) == {"w": "n1", "v": "n2"}
    nodes[1]["Description"]["Engine"]["Plugins"][0]["Name"] = "other"
    assert decide(nodes, [with_volume])["v"].reason.text == "no node could hold it, not even an empty one: no node has the volume plugin rexray"


def test_a_node_without_labels_is_a_node_without_a_model():
    nodes = [gpu_node("n1"), gpu_node("n2")]
    nodes[0]["Spec"]["Labels"] = nodes[1]["Spec"]["Labels"] = None
    assert nodes_of(decide(nodes, gang("g", 2, same_model=True))) == {"g0": "n1", "g1": "n2"}


@pytest.mark.parametrize(
    ("nodes", "options", "chosen"),
    [
        ([gpu_node("n1"), gpu_node("n2", labels={"rack": "b"})], {"constraints": ["node.labels.rack==b"]}, "n2"),
        ([gpu_node("n1"), gpu_node("n2")], {"platforms": [("linux", "arm64")]}, None),
        ([gpu_node("n1", availability="pause"), gpu_node("n2")], {}, "n2"),
        ([gpu_node("n1", availability="drain"), gpu_node("n2", State="down")], {}, None),
        ([gpu_node("n1"), gpu_node("n2")], {"avoids": ("n1",)}, "n2"),
        ([gpu_node("n1", 4), gpu_node("n2")], {"gpus": 5}, "n2"),
        ([gpu_node("n1")], {"gpus": {GPU: 1, "VRAM": 4}}, None),
        ([gpu_node("n1")], {"gpus": {GPU: 1, "MemoryBytes": 2**41}}, None),
    ],
)
def test_the_filters_of_the_scheduler_hold(nodes, options, chosen):
    assert decide(nodes, [work(**options)])["w"].node == chosen


def test_two_services_with_the_same_port_of_the_host_share_no_node():
    port = [{"Protocol": "tcp", "TargetPort": 80, "PublishedPort": 8080, "PublishMode": "host"}]
    decisions = decide([gpu_node("n1"), gpu_node("n2")], [work("w%d" % number, since=number, ports=port) for number in range(3)])
    assert nodes_of(decisions) == {"w0": "n1", "w1": "n2", "w2": None}
    assert "port 8080/tcp" in decisions["w2"].reason.text or decisions["w2"].keeps


# -- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiting", "running", "order"),
    [
        ([work("b", since=2), work("a", since=3), work("c", since=1)], [], ["c", "b", "a"]),
        ([work("b"), work("a")], [], ["a", "b"]),  # the same age: by id
        ([work("a", since=1), work("b", since=2, priority=1)], [], ["b", "a"]),
        ([work("a", since=1, queue="nightly"), work("b", since=2)], [], ["b", "a"]),
        ([work("a", since=1, queue="nightly", priority=5), work("b", since=2)], [], ["a", "b"]),
        # the queue with the smaller share is first, then the order takes turns by weight: 3 to 1
        ([work("o", queue="other", since=1), work("r", since=2)], [runs("n1", 2, queue="other")], ["r", "o"]),
        (
            [work("o%d" % number, queue="other", since=number) for number in range(3)]
            + [work("r%d" % number, since=10 + number) for number in range(5)],
            [],
            ["o0", "r0", "r1", "r2", "o1", "r3", "r4", "o2"],
        ),
        # 2 of 16 with weight 3 is less than 1 of 16 with weight 1
        ([work("o", queue="other"), work("r", since=9)], [runs("n1", 2), runs("n2", 1, queue="other")], ["r", "o"]),
    ],
)
def test_the_order_is_priority_then_share_then_age(waiting, running, order):
    decisions = decide([gpu_node("n1"), gpu_node("n2")], waiting, running)
    assert list(decisions) == order
    assert all(one.node for one in decisions.values())


def test_the_share_is_the_largest_over_the_kinds_and_only_ready_nodes_count():
    nodes = [gpu_node("n1"), gpu_node("n2"), gpu_node("n3", 80, State="down")]
    for one in nodes[:2]:
        one["Description"]["Resources"]["GenericResources"] += [{"DiscreteResourceSpec": {"Kind": "VRAM", "Value": 50}}]
    running = [runs("n1", 4, queue="other")._replace(wants={"VRAM": 20}), runs("n1", 10)]  # 20 of 100, and 10 of 16 by weight 3: 0.208
    decisions = decide(nodes, [work("r"), work("o", queue="other", since=5)], running)
    assert list(decisions) == ["o", "r"]
    running[0] = running[0]._replace(wants={"VRAM": 25, GPU: 1})  # 0.25, and 1 of 16
    assert list(decide(nodes, [work("r"), work("o", queue="other", since=5)], running)) == ["r", "o"]


# -- caps ------------------------------------------------------------------------------------------------------------

CAPPED = check_queues({"research": {"max": {GPU: 10}, "per_owner": {GPU: 4}}})


@pytest.mark.parametrize(
    ("waiting", "running", "code", "text"),
    [
        (work(gpus=2), [runs("n1", 8, owner="bob")], None, None),
        (work(gpus=3), [runs("n1", 8, owner="bob")], "cap", "the queue research uses 8 of at most 10 NVIDIA-GPU, and it needs 3"),
        (work(gpus=3), [runs("n1", 8, owner="bob", placed=False)], "cap", "the queue research uses 8 of at most 10 NVIDIA-GPU, and it needs 3"),
        (work(gpus=3), [runs("gone", 8, owner="bob")], "cap", "the queue research uses 8 of at most 10 NVIDIA-GPU, and it needs 3"),
        (
            work(gpus=2, owner="alice"),
            [runs("n1", 3, owner="alice")],
            "owner-cap",
            "alice uses 3 of at most 4 NVIDIA-GPU for each owner in the queue research, and it needs 2",
        ),
        (work(gpus=2, owner="alice"), [runs("n1", 3, owner="bob")], None, None),
        (
            work(gpus=2),
            [runs("n1", 3)],
            "owner-cap",
            "work without an owner uses 3 of at most 4 NVIDIA-GPU for each owner in the queue research, and it needs 2",
        ),
        (
            work(gpus=2, owner="100%d"),
            [runs("n1", 3, owner="100%d")],
            "owner-cap",
            "100%d uses 3 of at most 4 NVIDIA-GPU for each owner in the queue",
        ),
        (work(gpus=11), [], "larger-than-cap", "it needs 11 NVIDIA-GPU, and the queue research allows 10 at a time"),
        (work(gpus=5), [], "larger-than-cap", "it needs 5 NVIDIA-GPU, and the queue research allows 4 at a time for each owner"),
        (work(gpus={"VRAM": 1}), [runs("n1", 10)], "fits-nowhere", None),  # another kind has no cap
    ],
)
def test_caps(waiting, running, code, text):
    decision = decide([gpu_node("n1"), gpu_node("n2")], [waiting], running, queues=CAPPED)["w"]
    assert (decision.reason and decision.reason.code) == code
    assert (decision.node is None) == bool(code)
    assert not text or text in decision.reason.text


def test_caps_count_what_the_same_decision_admits_and_whole_gangs():
    decisions = decide(
        [gpu_node("n1"), gpu_node("n2")], [work("w%d" % number, 2, since=number, owner="o%d" % number) for number in range(6)], queues=CAPPED
    )
    assert started(decisions) == ["w0", "w1", "w2", "w3", "w4"]
    assert decide([gpu_node("n1"), gpu_node("n2")], gang("g", 2, 3), queues=CAPPED)["g0"].reason.code == "larger-than-cap"


def test_nothing_uses_up_the_caps_of_the_head():
    _running, tasks = busy(n1=1)
    waiting = [work("big", 4, since=1, constraints=["node.id==n1"]), work("w", 2, since=2, limit=60.0, owner="x"), work("x", 4, since=3, owner="x")]
    queues = check_queues({"research": {"max": {GPU: 9}}})
    decisions = decide([gpu_node("n1", 4), gpu_node("n2")], waiting, [runs("n1", 4, NOW + HOUR)._replace(wants={GPU: 3})], tasks, queues)
    assert decisions["big"].reason.code == "next"
    assert decisions["w"].node == "n2"
    assert decisions["x"].reason.text == "the queue research uses 5 of at most 9 NVIDIA-GPU and keeps 4 for big, and it needs 4"


def test_work_that_its_cap_stops_keeps_no_node():
    decisions = decide([gpu_node("n1")], [work("a", 3, since=1), work("b", 2, since=2, owner="x")], [runs("n9", 8)], queues=CAPPED)
    assert (decisions["a"].reason.code, decisions["a"].keeps) == ("cap", ())
    assert decisions["b"].node == "n1"


# -- the head --------------------------------------------------------------------------------------------------------


def busy(**ends):
    """Return running work with 4 GPUs on each node, and its tasks. The values are hours until its time limit; None without a limit."""
    running = [runs(name, 4, None if hours is None else NOW + hours * HOUR) for name, hours in ends.items()]
    return running, [held(name, 4) for name in ends]


@pytest.mark.parametrize(
    ("ends", "kept", "hours"),
    [
        ({"n1": 3, "n2": 1, "n3": 2}, "n2", 1),
        ({"n1": None, "n2": 5}, "n2", 5),
        ({"n1": 2, "n2": 2}, "n1", 2),
        ({"n1": None, "n2": None}, "n1", None),
        ({"n1": -1, "n2": None}, "n1", 0),  # overdue
    ],
)
def test_the_head_gets_the_node_where_it_fits_first(ends, kept, hours):
    running, tasks = busy(**ends)
    decision = decide([gpu_node(name) for name in ends], [work(gpus=8)], running, tasks)["w"]
    assert (decision.node, decision.reason.code, decision.keeps, decision.position) == (None, "next", (kept,), 1)
    assert decision.starts_by == (None if hours is None else NOW + hours * HOUR)


def test_without_known_times_the_head_gets_the_node_with_the_fewest_gpus_under_work_without_a_limit():
    running = [runs("n1", 4), runs("n2", 2), runs("n2", 5, NOW + HOUR, name="limited")]
    tasks = [held("n1", 4), held("n2", 2), held("n2", 5, "limited"), held("n3", 3, "not-queued")]
    decision = decide([gpu_node("n1"), gpu_node("n2"), gpu_node("n3")], [work(gpus=8)], running, tasks)["w"]
    assert decision.keeps == ("n2",)
    assert decision.reason.text == "it is next, and host-n2 is kept for it; work without a time limit runs there, so nobody knows when it starts"


def test_more_gpus_under_work_without_a_limit_are_worse():
    tasks = [held("n1", 7), held("n2", 5), held("n3", 6)]
    nodes = [gpu_node("n1"), gpu_node("n2"), gpu_node("n3")]
    assert decide(nodes, [work(gpus={GPU: 8, "NanoCPUs": 10**9})], tasks=tasks)["w"].keeps == ("n2",)
    tasks[1]["Spec"]["Resources"]["Reservations"]["NanoCPUs"] = 10**10
    assert decide(nodes, [work(gpus={GPU: 8, "NanoCPUs": 10**9})], tasks=tasks)["w"].keeps == ("n2",)


def test_the_work_that_ends_first_makes_room_first():
    running = [runs("n1", 4, NOW + 2 * HOUR, name="late"), runs("n1", 4, NOW + HOUR, name="early")]
    tasks = [held("n1", 4, "late"), held("n1", 4, "early")]
    assert decide([gpu_node("n1")], [work(gpus=4)], running, tasks)["w"].starts_by == NOW + HOUR


def test_a_port_of_the_host_is_free_when_the_time_limit_of_its_user_ends():
    port = [{"Protocol": "tcp", "TargetPort": 80, "PublishedPort": 8080, "PublishMode": "host"}]
    user = runs("n1", 1, NOW + 2 * HOUR, placed=False)._replace(ports=frozenset([("tcp", 8080)]))
    other = runs("n1", 1, NOW + HOUR, placed=False, name="other")
    decision = decide([gpu_node("n1")], [work(ports=port)], [other, user])["w"]
    assert (decision.reason.code, decision.starts_by) == ("next", NOW + 2 * HOUR)


def test_what_the_same_decision_admits_ends_at_its_time_limit():
    decisions = decide([gpu_node("n1")], [work("w", 7, since=1, limit=HOUR), work("big", 8, since=2)])
    assert (decisions["w"].node, decisions["big"].starts_by) == ("n1", NOW + HOUR)
    decisions = decide([gpu_node("n1")], [work("w", 7, since=1, limit=None), work("big", 8, since=2)])
    assert (decisions["w"].node, decisions["big"].starts_by) == ("n1", None)


def test_the_head_keeps_its_node_although_another_would_fit_earlier():
    running, tasks = busy(n1=3, n2=1)
    assert decide([gpu_node("n1"), gpu_node("n2")], [work(gpus=8, keeps=("n1",))], running, tasks)["w"].keeps == ("n1",)


@pytest.mark.parametrize("kept", [("gone",), ("n3",), ("n1", "n2"), ("n4",)])
def test_the_head_gets_another_node_if_its_own_is_gone_closed_or_too_small(kept):
    running, tasks = busy(n1=3, n2=1)
    nodes = [gpu_node("n1"), gpu_node("n2"), gpu_node("n3", availability="pause"), gpu_node("n4", 4)]
    assert decide(nodes, [work(gpus=8, keeps=kept)], running, tasks)["w"].keeps == ("n2",)


def test_the_head_starts_elsewhere_if_there_is_room():
    running, tasks = busy(n1=3)
    assert decide([gpu_node("n1"), gpu_node("n2")], [work(gpus=8, keeps=("n1",))], running, tasks)["w"].node == "n2"


@pytest.mark.parametrize(
    ("limit", "hours", "starts"),
    [(HOUR, 1, True), (HOUR + 1, 1, False), (None, 1, False), (HOUR, None, False), (60.0, -1, False)],
)
def test_only_work_that_ends_before_the_head_can_start_may_start_on_its_node(limit, hours, starts):
    running, tasks = busy(n1=hours)
    decisions = decide([gpu_node("n1")], [work("big", 8, since=1), work("small", 1, since=2, limit=limit)], running, tasks)
    assert decisions["big"].reason.code == "next"
    assert (decisions["small"].node == "n1") == starts
    assert starts or decisions["small"].reason.code == "kept-for-next"


def test_others_start_on_other_nodes():
    running, tasks = busy(n1=1, n2=2)
    decisions = decide([gpu_node("n1"), gpu_node("n2")], [work("big", 8, since=1), work("small", 4, since=2, limit=None)], running, tasks)
    assert nodes_of(decisions) == {"big": None, "small": "n2"}


def test_the_reason_of_kept_nodes_says_until_when_and_for_what():
    running, tasks = busy(n1=1)
    decisions = decide(
        [gpu_node("n1")], [work("big", 8, since=1), work("small", since=2, limit=7200), work("endless", since=3, limit=None)], running, tasks
    )
    assert decisions["small"].reason.text == (
        "host-n1 is kept for big, which is next; only work that ends before 1970-01-12T14:46:40Z may start there, and its time limit is 2h"
    )
    assert decisions["endless"].reason.text.endswith("and it has no time limit")
    assert [one.position for one in decisions.values()] == [1, 2, 3]


def moved(name="web", gpus=8, **options):
    return work(name, gpus, queue="", limit=None, **options)


def test_a_node_is_kept_for_a_task_that_a_run_moved():
    running, tasks = busy(n1=1, n2=2)
    nodes = [gpu_node("n1"), gpu_node("n2")]
    waiting = [work("long", 4, since=1, limit=2 * HOUR), work("short", 4, since=2), work("other", 4, since=3, limit=None)]
    decisions = decide(nodes, waiting, running, tasks, moved=[moved()])
    assert nodes_of(decisions) == {"long": "n2", "short": "n1", "other": None}
    decisions = decide(nodes[:1], waiting, running, tasks, moved=[moved()])
    assert nodes_of(decisions) == {"long": None, "short": "n1", "other": None}
    assert nodes_of(decide(nodes[:1], waiting, running, tasks)) == {"long": "n1", "short": None, "other": None}


def test_the_reason_names_the_service_of_the_moved_task():
    running, tasks = busy(n1=1)
    decisions = decide([gpu_node("n1")], [work("head", 8), work("w", 4, since=1, limit=7200)], running, tasks, moved=[moved()])
    assert decisions["head"].keeps == ("n1",)
    assert decisions["w"].reason.code == "kept-for-run"
    assert decisions["w"].reason.text == (
        "host-n1 is kept for a task of the service web, which a run moved; "
        "only work that ends before 1970-01-12T14:46:40Z may start there, and its time limit is 2h"
    )


def test_work_that_fits_where_nodes_are_kept_for_the_next_and_for_a_moved_task_says_why_it_waits():
    running, tasks = busy(n1=1, n2=2)
    nodes = [gpu_node("n1"), gpu_node("n2")]
    waiting = [work("head", 8, keeps=("n2",)), work("w", 4, since=1, limit=None), work("x", 4, since=2, limit=1.5 * HOUR)]
    decisions = decide(nodes, waiting, running, tasks, moved=[moved()])
    assert {name: one.reason and one.reason.code for name, one in decisions.items()} == {"head": "next", "w": "kept-for-run", "x": None}
    assert decisions["x"].node == "n2"


def test_each_moved_task_gets_a_node_of_its_own_while_there_are_some():
    running, tasks = busy(n1=1, n2=2)
    decisions = decide([gpu_node("n1"), gpu_node("n2")], [work(limit=None)], running, tasks, moved=[moved(), moved("db"), moved("third")])
    assert decisions["w"].node is None
    assert decide([gpu_node("n1")], [work()], moved=[moved(gpus=9)])["w"].node == "n1"


def test_a_moved_task_that_has_room_takes_it_before_queued_work():
    nodes = [gpu_node("n1"), gpu_node("n2", 4)]
    assert nodes_of(decide(nodes, [work("a", limit=60), work("b", 6, limit=60)], moved=[moved(gpus=3)])) == {"a": "n2", "b": None}
    assert nodes_of(decide(nodes[:1], [work(gpus=5, limit=60)], moved=[moved(gpus=3)])) == {"w": "n1"}
    assert nodes_of(decide(nodes[:1], [work(gpus=5, limit=60)], moved=[moved(gpus=3), moved("db", 1)])) == {"w": None}


def test_a_moved_task_without_gpus_keeps_no_gpus():
    assert nodes_of(decide([gpu_node("n1")], [work(gpus=8)], moved=[moved(gpus={"NanoCPUs": 10**9}), moved("db", {})])) == {"w": "n1"}


def test_only_the_head_has_a_time_at_which_it_starts():
    running, tasks = busy(n1=1)
    waiting = [work("w", 8), work("x", 8, since=1), work("gone", queue="gone"), *gang("g", 2)[:1]]
    decisions = decide([gpu_node("n1")], waiting, running, tasks)
    assert {name: (one.node, one.position, one.keeps, one.starts_by) for name, one in decisions.items()} == {
        "w": (None, 1, ("n1",), NOW + HOUR),
        "x": (None, 2, (), None),
        "gone": (None, 0, (), None),
        "g0": (None, 0, (), None),
    }


def test_work_that_cannot_start_comes_first_by_queue_and_age():
    waiting = [*gang("z", 2, queue="other")[:1], work("b", queue="gone", since=2), work("w"), work("a", queue="gone", since=1), *gang("g", 2)[:1]]
    assert list(decide([gpu_node("n1")], waiting)) == ["a", "b", "z0", "g0", "w"]


def test_there_is_one_head():
    running, tasks = busy(n1=1, n2=2)
    decisions = decide([gpu_node("n1"), gpu_node("n2")], [work("b1", 8, since=1), work("b2", 8, since=2)], running, tasks)
    assert [one.keeps for one in decisions.values()] == [("n1",), ()]
    assert decisions["b2"].reason.text == "no node has 8 NVIDIA-GPU free; the most on one node is 4 (host-n1)"


def test_a_head_stays_first_although_the_share_of_its_queue_grew():
    running, tasks = busy(n1=1)
    waiting = [work("kept", 8, since=9, keeps=("n1",)), work("other", 8, since=1, queue="other")]
    assert list(decide([gpu_node("n1")], waiting, running, tasks)) == ["kept", "other"]
    waiting[1] = waiting[1]._replace(priority=1)
    decisions = decide([gpu_node("n1")], waiting, running, tasks)
    assert [(name, one.keeps) for name, one in decisions.items()] == [("other", ("n1",)), ("kept", ())]


@pytest.mark.parametrize(
    ("nodes", "options", "text"),
    [
        ([gpu_node("n1")], {"gpus": 9}, "no node could hold it, not even an empty one: wants 9 NVIDIA-GPU; the most that a node has: 8 (host-n1)"),
        ([gpu_node("n1", State="down")], {"gpus": 9}, "no node could hold it, not even an empty one: wants 9"),
        ([gpu_node("n1")], {"constraints": ["node.labels.rack==b"]}, "not even an empty one: no node meets node.labels.rack==b"),
        ([gpu_node("n1")], {"gpus": {"T4": 1}}, "wants 1 T4; the most that a node has: 0"),
        ([], {}, "no node could hold it, not even an empty one: the swarm has no nodes"),
    ],
)
def test_what_no_node_could_hold_says_so_and_is_never_head(nodes, options, text):
    decisions = decide(nodes, [work("never", since=1, **options), work("w", 8, since=2)], *busy(n1=1))
    assert decisions["never"].reason.code == "fits-nowhere"
    assert text in decisions["never"].reason.text
    assert not decisions["never"].keeps
    if nodes and nodes[0]["Status"]["State"] == "ready":
        assert decisions["w"].reason.code == "next"


def test_what_only_closed_nodes_could_hold_waits_for_them_and_blocks_nothing():
    running, tasks = busy(n1=1)
    nodes = [gpu_node("n1"), gpu_node("n2", 16, availability="pause"), gpu_node("n3", 16, State="down")]
    decisions = decide(nodes, [work("big", 16, since=1), work("w", 8, since=2)], running, tasks)
    assert decisions["big"].reason.code == "nodes-closed"
    assert decisions["big"].reason.text == "it needs nodes that take no new tasks now: host-n2 (paused, by hand), host-n3 (down)"
    assert decisions["w"].reason.code == "next"


def test_a_node_that_refused_the_work_is_not_kept_for_it():
    running, tasks = busy(n1=1, n2=2)
    assert decide([gpu_node("n1"), gpu_node("n2")], [work(gpus=8, avoids=("n1",))], running, tasks)["w"].keeps == ("n2",)
    decision = decide([gpu_node("n1")], [work(gpus=1, avoids=("n1",))])["w"]
    assert (decision.reason.code, decision.reason.text) == ("refused-there", "the nodes with room for it refused it before: host-n1")


def test_the_reason_of_work_that_a_node_refused_is_not_that_of_others():
    running, tasks = busy(n1=1)
    waiting = [work("big", 8, since=1), work("refused", 4, since=2, limit=7200, avoids=("n1",)), work("w", 4, since=3, limit=7200)]
    decisions = decide([gpu_node("n1")], waiting, running, tasks)
    assert [one.reason.code for one in decisions.values()] == ["next", "refused-there", "kept-for-next"]


def test_a_node_that_refused_one_service_takes_others():
    decisions = decide([gpu_node("n1")], [work("refused", since=1, avoids=("n1",)), work("w", since=2)])
    assert nodes_of(decisions) == {"refused": None, "w": "n1"}


def test_the_node_that_is_kept_changes_after_it_refused_the_work():
    running, tasks = busy(n1=1, n2=2)
    assert decide([gpu_node("n1"), gpu_node("n2")], [work(gpus=8, keeps=("n1",), avoids=("n1",))], running, tasks)["w"].keeps == ("n2",)


# -- gangs -----------------------------------------------------------------------------------------------------------


def test_a_gang_starts_whole_on_different_nodes_with_rank_0_on_the_first():
    decisions = decide([gpu_node("n3"), gpu_node("n1"), gpu_node("n2")], gang("g", 2, 4), tasks=[held("n3", 4), held("n2", 4)])
    assert nodes_of(decisions) == {"g0": "n2", "g1": "n3"}


def test_a_gang_is_as_old_as_its_last_member():
    first, last = gang("g", 2, 1)
    decisions = decide([gpu_node("n1"), gpu_node("n2")], [first._replace(since=1), last._replace(since=5), work(since=3)])
    assert list(decisions) == ["w", "g0", "g1"]


def test_members_are_in_the_order_of_their_ranks_whatever_the_order_of_the_list():
    decisions = decide([gpu_node("n1"), gpu_node("n2"), gpu_node("n3")], list(reversed(gang("g", 3))))
    assert list(nodes_of(decisions).items()) == [("g0", "n1"), ("g1", "n2"), ("g2", "n3")]


def test_rank_0_is_on_the_first_node_although_the_last_has_less_left():
    assert nodes_of(decide([gpu_node("n1"), gpu_node("n2")], gang("g", 2, 2), tasks=[held("n2", 4)])) == {"g0": "n1", "g1": "n2"}


def test_a_gang_without_room_for_all_starts_none_and_keeps_all_its_nodes():
    running, tasks = busy(n1=1, n2=2, n3=3)
    decisions = decide([gpu_node(name) for name in ("n0", "n1", "n2", "n3")], [*gang("g", 3), work("w", 8, since=9, limit=None)], running, tasks)
    assert nodes_of(decisions) == {"g0": None, "g1": None, "g2": None, "w": None}
    assert {one.keeps for name, one in decisions.items() if name != "w"} == {("n0", "n1", "n2")}
    assert decisions["g0"].starts_by == NOW + 2 * HOUR
    assert "host-n0, host-n1, host-n2 are kept for it" in decisions["g0"].reason.text
    assert decisions["w"].reason.code == "kept-for-next"


def test_a_gang_gets_nodes_with_the_same_model_unless_told_otherwise():
    nodes = [gpu_node("n1", model="T4"), gpu_node("n2", model="A100"), gpu_node("n3", model="A100"), gpu_node("n4", model="T4", availability="pause")]
    assert nodes_of(decide(nodes, gang("g", 2, same_model=True))) == {"g0": "n2", "g1": "n3"}
    assert nodes_of(decide(nodes, gang("g", 2))) == {"g0": "n1", "g1": "n2"}
    assert decide(nodes, gang("g", 3, same_model=True))["g0"].reason.text == (
        "its gang needs 3 nodes with the same model of GPU, and 2 could hold a member"
    )
    decision = decide(nodes, gang("g", 2, same_model=True), tasks=[held("n3", 8)])["g0"]
    assert decision.keeps == ("n2", "n3")


def test_a_gang_gets_the_nodes_with_the_least_left_over_of_all_models():
    nodes = [gpu_node(name, model=model) for name, model in {"n1": "A", "n2": "A", "n3": "B", "n4": "B"}.items()]
    tasks = [held("n1", 7), held("n2", 1), held("n3", 5), held("n4", 5)]
    assert nodes_of(decide(nodes, gang("g", 2, 1, same_model=True), tasks=tasks)) == {"g0": "n3", "g1": "n4"}


def test_a_gang_keeps_the_nodes_of_the_model_that_has_room_first():
    nodes = [gpu_node(name, model=model) for name, model in {"n1": "A", "n2": "A", "n3": "B", "n4": "B"}.items()]
    running, tasks = busy(n1=1, n2=4, n3=2, n4=3)
    waiting = gang("g", 2, same_model=True)
    assert decide(nodes, waiting, running, tasks)["g1"].keeps == ("n3", "n4")
    for kept, then in ((("n1", "n2"), ("n1", "n2")), (("n2", "n3"), ("n3", "n4")), (("n1",), ("n3", "n4"))):
        assert decide(nodes, [one._replace(keeps=kept) for one in waiting], running, tasks)["g1"].keeps == then
    mixed = [one._replace(keeps=("n2", "n3")) for one in gang("g", 2)]
    assert decide(nodes, mixed, running, tasks)["g1"].keeps == ("n2", "n3")


def test_a_second_gang_without_room_says_how_many_nodes_have_it():
    running, tasks = busy(n1=1, n2=2)
    decisions = decide([gpu_node("n1"), gpu_node("n2")], [work("big", 8), *gang("g", 2, 8, since=2)], running, tasks)
    assert decisions["g0"].reason.text == "its gang needs 2 nodes with 8 NVIDIA-GPU free, and 0 have it"


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (gang("g", 3)[:1], "its gang g has 1 of 3 members; it lacks rank 1, 2"),
        (gang("g", 9)[:1], "its gang g has 1 of 9 members; it lacks rank 1, 2, 3, 4, 5"),
        (gang("g", 2) + gang("g", 2)[:1], "its gang g has rank 0 twice"),
        ([gang("g", 2)[0], gang("g", 2, queue="other")[1]], "the members of its gang g are in different queues: other, research"),
        ([gang("g", 2)[0], gang("g", 3)[1]], "the members of its gang g name different sizes"),
        ([gang("g", 2)[0], gang("g", 2, 4)[1]], "the members of its gang g differ in their reservations, constraints, priority or time limit"),
        ([gang("g", 2)[0], gang("g", 2, limit=None)[1]], "the members of its gang g differ in"),
        ([gang("g", 2, owner="a")[0], gang("g", 2, owner="b")[1]], "its gang g has 1 of 2 members"),
    ],
)
def test_a_gang_that_is_not_whole_waits_with_the_reason(members, text):
    decisions = admit(state_of([gpu_node("n1"), gpu_node("n2"), gpu_node("n3")]), QUEUES, [*members, work()], [], NOW)
    assert [one.reason.code for one in decisions if one.work.gang] == ["gang"] * len(members)
    assert decisions[0].reason.text.startswith(text)
    assert "5, 6" not in decisions[0].reason.text
    assert decisions[-1].node


# -- limits ----------------------------------------------------------------------------------------------------------


def test_work_of_a_queue_that_is_not_there_waits():
    decisions = decide([gpu_node("n1")], [work("a", queue="gone"), work("b")])
    assert decisions["a"].reason.text == "there is no queue gone; the queues are nightly, open, other, research"
    assert decisions["b"].node
    assert decide([gpu_node("n1")], [work(queue="gone")], queues={})["w"].reason.text == "there is no queue gone; this swarm has no queues"


def test_a_round_admits_a_bounded_number_and_keeps_the_place_of_the_head():
    waiting = [work("w%03d" % number, since=number, priority=1) for number in range(MOST_ADMITTED + 5)] + [work("kept", 8, keeps=("n1",))]
    decisions = decide([gpu_node("n%02d" % number) for number in range(20)], waiting)
    assert len(started(decisions)) == MOST_ADMITTED
    assert {one.reason.code for one in decisions.values() if not one.node} == {"next-round"}
    assert decisions["kept"].keeps == ("n1",)


def test_only_the_first_of_a_queue_get_full_reasons():
    waiting = [work("w%04d" % number, 8, since=number) for number in range(MOST_EXPLAINED + 20)] + [work("never", 9, since=10**6)]
    decisions = decide([gpu_node("n1")], waiting, *busy(n1=1))
    codes = [one.reason.code for one in decisions.values()]
    assert codes == ["next"] + ["no-room"] * (MOST_EXPLAINED - 1) + ["behind"] * 20 + ["fits-nowhere"]
    assert decisions["w0119"].reason.text == "119 others of its queue are before it"


def test_a_queue_with_very_many_different_demands_does_not_stop_the_others():
    waiting = [work("w%04d" % number, {GPU: 1, "NanoCPUs": number + 1}, since=number, limit=None) for number in range(MOST_SHAPES + 5)]
    again = waiting[0]._replace(service_id="again", name="again", since=10**5)
    decisions = decide([gpu_node("n1", 9)], [*waiting, again, work("o", queue="other", since=10**6, limit=None)])
    assert [one.reason.code for one in decisions.values() if one.reason][-6:] == ["behind"] * 5 + ["no-room"]
    assert "100 other reservations or constraints" in decisions["w0104"].reason.text
    assert decisions["o"].node


def test_reasons_are_one_printable_line_of_bounded_length():
    bad = gpu_node("n1")
    bad["Description"]["Hostname"] = "g1\x1b[2K\nroot"
    running, tasks = busy(n1=1)
    waiting = [
        work("big", 8, since=1),
        work("w", 5, since=2),
        work("never", since=3, constraints=["node.labels.x==%d" % number for number in range(999)]),
    ]
    decisions = decide([bad], waiting, running, tasks)
    assert decisions["big"].reason.text.startswith("it is next, and g1\\x1b[2K\\nroot is kept for it")
    assert all(one.reason.text.isprintable() and len(one.reason.text) <= 500 for one in decisions.values())
