# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures one decision of the queue: 10,000 waiting services on 1,000 nodes with 8 GPUs.

``python -m tests.bench.queue_decision`` prints only this. The reference of the first two rows is the goal of one second. Times are CPU
seconds, because a decision waits for nothing. The third row compares the peak memory with a process that only holds the same input.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections import Counter
from typing import Any

from . import collection
from .memory import peak_mib, print_peak_at_exit
from .table import Row, row, table

NODES, WAITING, GPUS = 1000, 10_000, 8
ROUNDS = 5
GOAL_S, TIME_GOAL, MEMORY_GOAL = 1.0, 1.0, 1.5
GPU = "NVIDIA-GPU"
NOW = 1_000_000.0
LIMITS = (None, 3600.0, 4 * 3600.0, 24 * 3600.0)
SIZES = (1, 1, 1, 2, 4, 8)


def a_queue(is_full: bool) -> tuple[Any, ...]:
    """Return the arguments of ``admit``: a fleet that is empty or full, and waiting work with 28 different demands."""
    admit, queues, usage = (collection.module(f"module_utils._queue.{name}") for name in ("admit", "queues", "usage"))
    chance = random.Random(1)
    nodes = [_node(number) for number in range(NODES)]
    running = [
        usage.Running(f"r{number}", "research", "", node["ID"], {GPU: 1}, chance.choice((None, NOW + chance.uniform(0, 86400))), True)
        for number, node in enumerate(nodes * GPUS)
    ]
    listed = collection.module("module_utils._ledger.listed").Listed(nodes, [_task(one) for one in running] if is_full else [], [], NOW)
    state = collection.module("module_utils._ledger.ledger").swarm_state(listed, "gpu-swarm.")
    known = queues.check_queues({"research": {"weight": 3, "time_limit": "none"}, "nightly": {"priority": -10}, "other": {"per_owner": {GPU: 64}}})
    return admit.admit, state, known, [_work(number, sorted(known), chance) for number in range(WAITING)], running if is_full else []


def _node(number: int) -> dict[str, Any]:
    resources = {"NanoCPUs": 128 * 10**9, "MemoryBytes": 2**41, "GenericResources": [{"DiscreteResourceSpec": {"Kind": GPU, "Value": GPUS}}]}
    return {
        "ID": f"n{number:04}",
        "Spec": {"Role": "worker", "Availability": "active", "Labels": {"gpu.model": ("A100", "H100")[number % 2], "rack": str(number % 20)}},
        "Description": {"Hostname": f"g{number:04}", "Platform": {"Architecture": "x86_64", "OS": "linux"}, "Resources": resources, "Engine": {}},
        "Status": {"State": "ready", "Addr": "192.0.2.1"},
    }


def _task(one: Any) -> dict[str, Any]:
    held = [{"DiscreteResourceSpec": {"Kind": kind, "Value": amount}} for kind, amount in one.wants.items()]
    spec = {"Resources": {"Reservations": {"GenericResources": held}}}
    status = {"State": "running", "Timestamp": "2026-11-20T12:00:00Z"}
    ids = {"ID": one.service_id, "ServiceID": one.service_id, "NodeID": one.node}
    return {**ids, "Spec": spec, "Status": status, "DesiredState": "running", "GenericResources": held}


def _work(number: int, queues: list[str], chance: random.Random) -> Any:
    waiting, scheduler = collection.module("module_utils._queue.waiting"), collection.module("module_utils._placement.scheduler")
    gpus, model = chance.choice(SIZES), chance.choice(("A100", "H100"))
    template = {
        "ContainerSpec": {"Image": "my/training:1"},
        "Resources": {"Reservations": {"NanoCPUs": 4 * gpus * 10**9, "GenericResources": [{"DiscreteResourceSpec": {"Kind": GPU, "Value": gpus}}]}},
        "Placement": {"Constraints": [f"node.labels.gpu.model=={model}"] if number % 3 else [f"node.labels.rack=={number % 5}"]},
    }
    demand = scheduler.demand_of({"ID": f"s{number}", "Spec": {"TaskTemplate": template}})
    return waiting.Work(
        f"s{number:05}", f"job-{number}", chance.choice(queues), f"o{number % 30}", float(number), demand, time_limit_s=chance.choice(LIMITS)
    )


def _seconds(is_full: bool) -> float:
    decide, *arguments = a_queue(is_full)
    taken = []
    for _round in range(ROUNDS):
        started = time.process_time()
        decisions = decide(*arguments, NOW)
        taken.append(time.process_time() - started)
    _check(decisions, is_full)
    return statistics.median(taken)


def _check(decisions: list[Any], is_full: bool) -> None:
    codes = Counter(one.reason.code if one.reason else "admitted" for one in decisions)
    assert len(decisions) == WAITING, codes
    assert codes["admitted"] == (0 if is_full else 100), codes
    assert not is_full or (codes["next"] == 1 and codes["no-room"] > 100 and codes["behind"] > WAITING / 2), codes


def measure() -> list[Row]:
    what = f"queue, {WAITING} services wait for {NODES} nodes: CPU of a decision"
    peaks = [peak_mib("tests.bench.queue_decision", way) for way in ("--decide", "--hold")]
    return [
        row(f"{what}, full fleet / 1 s (s)", _seconds(True), GOAL_S, TIME_GOAL),
        row(f"{what}, empty fleet / 1 s (s)", _seconds(False), GOAL_S, TIME_GOAL),
        row(f"queue, {WAITING} services wait for {NODES} nodes: peak memory of a decision / of its input (MiB)", *peaks, MEMORY_GOAL),
    ]


def main(arguments: list[str]) -> None:
    if arguments:
        print_peak_at_exit()
        decide, *held = a_queue(True)
        if arguments == ["--decide"]:
            decide(*held, NOW)
        return
    print(table(measure()))


if __name__ == "__main__":
    main(sys.argv[1:])
