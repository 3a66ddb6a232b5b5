# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Simulates weeks of jobs on 50 nodes with 8 GPUs: how long jobs wait with plain Swarm, with first come first served, and with the queue.

``python -m tests.bench.queue_simulation`` prints only this. The seeds are fixed. Sizes and durations come from figures about two published traces.
The traces themselves are not used:

- *philly*: Microsoft's trace (Jeon et al., USENIX ATC 2019). Durations by size come from the runtime figure in ``msr-fiddle/philly-traces``. The
  shares of the sizes are fitted: all sizes together have about the durations of all jobs, which ``S-Lab-System-Group/HeliosArtifact`` plots beside
  its own. The fit cannot tell 2 GPUs from 4.
- *helios*: SenseTime's trace (Hu et al., SC 2021). The shares of the sizes, the mean duration of each size, and the durations of all GPU jobs come
  from the figures and the summary in ``S-Lab-System-Group/HeliosArtifact``. Each size has the durations of all jobs, times its own mean, divided by
  the mean of all.

Jobs with more than 8 GPUs are left out, because a job has one node here. A job runs at most 7 days. Jobs arrive at random, so often that their work
is a given part of what the GPUs can do. A time limit is the duration times 1 to 5.
"""

from __future__ import annotations

import bisect
import heapq
import random
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from . import collection
from .table import Row, row, table

NODES, GPUS = 50, 8
WARM_UP = 0.25  # this part of the jobs meets an emptier fleet, and is not counted
LONGEST_S = 7 * 24 * 3600.0
SEEDS = (1, 2)
LOADS = (0.7, 0.85, 1.0)
GOAL_LOAD, WAIT_GOAL, POINTS_BELOW = 0.85, 0.33, 3.0
GPU, HOUR = "NVIDIA-GPU", 3600.0


class Job(NamedTuple):
    number: int
    arrives: float  # seconds
    gpus: int
    duration: float
    limit: float


class Outcome(NamedTuple):
    waits: dict[int, float]  # seconds, by the job's number
    busy: float  # percent of the GPUs, from the end of the warm-up to the last arrival


# Durations at these percentiles. Between two of them, the logarithm of the duration is a straight line.
PERCENT = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 99.5, 100)
PHILLY_MINUTES = {  # by the number of GPUs
    1: (0.1, 0.68, 0.94, 1.2, 3.7, 10, 19, 31, 44, 90, 241, 692, 2700, 5100, 7500, 10080),
    2: (0.1, 0.23, 0.31, 0.59, 2.9, 12.5, 30, 209, 605, 1464, 3399, 6497, 10080, 10080, 10080, 10080),
    8: (0.1, 0.65, 1.4, 7.8, 20, 63, 197, 432, 1212, 2728, 5744, 10080, 10080, 10080, 10080, 10080),
}
PHILLY_MINUTES[4] = PHILLY_MINUTES[2]  # the figure has 1, 2 to 4, 5 to 8 and more
HELIOS_SECONDS = (1, 2, 14, 43, 84, 139, 201, 318, 637, 1486, 6969, 20661, 75471, 145778, 248601, LONGEST_S)
HELIOS_MEAN, HELIOS_MEANS = 6652, {1: 3719, 2: 16607, 4: 10724, 8: 12671}  # seconds: all GPU jobs, and by the number of GPUs
SHARES = {"philly": {1: 84, 2: 3, 4: 3, 8: 10}, "helios": {1: 76, 2: 3, 4: 6, 8: 15}}  # percent of the jobs


def at(percent: float, durations: Sequence[float]) -> float:
    """Return the duration at a percentile."""
    after = max(1, bisect.bisect_left(PERCENT, percent))
    low, high = PERCENT[after - 1], PERCENT[after]
    return durations[after - 1] * (durations[after] / durations[after - 1]) ** ((percent - low) / (high - low))


def philly(gpus: int, percent: float) -> float:
    return 60 * at(percent, PHILLY_MINUTES[gpus])


def helios(gpus: int, percent: float) -> float:
    return min(at(percent, HELIOS_SECONDS) * HELIOS_MEANS[gpus] / HELIOS_MEAN, LONGEST_S)


# The duration of a job (seconds) by GPUs and percentile, and how many jobs there are: those of two to five weeks.
WORKLOADS = {"philly": (philly, 6000), "helios": (helios, 20000)}


def jobs_of(workload: str, load: float, seed: int, most: int | None = None) -> list[Job]:
    chance = random.Random(seed)
    duration, number_of_jobs = WORKLOADS[workload]
    gpus_of = chance.choices(*zip(*SHARES[workload].items(), strict=True), k=most or number_of_jobs)
    sizes = [(gpus, duration(gpus, chance.uniform(0, 100))) for gpus in gpus_of]
    span = sum(gpus * duration for gpus, duration in sizes) / (NODES * GPUS * load)
    arrivals = sorted(chance.uniform(0, span) for _size in sizes)
    return [
        Job(number, time, gpus, duration, duration * chance.uniform(1, 5))
        for number, (time, (gpus, duration)) in enumerate(zip(arrivals, sizes, strict=True))
    ]


class Fleet:
    """The free GPUs and the number of jobs of each node, and the jobs that run."""

    def __init__(self) -> None:
        self.free, self.count = [GPUS] * NODES, [0] * NODES
        self.running: dict[int, tuple[Job, int, float]] = {}  # job, node, start

    def change(self, job: Job, node: int, sign: int) -> None:
        self.free[node] -= sign * job.gpus
        self.count[node] += sign


# (fleet, jobs that wait in the order of their arrival, time) -> the jobs that start, with their nodes
Policy = Callable[[Fleet, Sequence[Job], float], Iterable[tuple[Job, int]]]


def plain_swarm() -> Policy:
    """Return swarm's scheduler: it goes through the waiting tasks in the order of a Go map, and spreads: the node with the fewest tasks is first."""
    chance = random.Random(0)

    def place(fleet: Fleet, waiting: Sequence[Job], _now: float) -> Iterable[tuple[Job, int]]:
        for job in chance.sample(waiting, len(waiting)):
            fitting = [node for node in range(NODES) if fleet.free[node] >= job.gpus]
            if fitting:
                yield job, min(fitting, key=lambda node: fleet.count[node])

    return place


def first_come() -> Policy:
    """Return a policy that packs, and that starts nothing before the first job that waits."""

    def place(fleet: Fleet, waiting: Sequence[Job], _now: float) -> Iterable[tuple[Job, int]]:
        for job in waiting:
            fitting = [node for node in range(NODES) if fleet.free[node] >= job.gpus]
            if not fitting:
                return
            yield job, min(fitting, key=lambda node: fleet.free[node])

    return place


def queue() -> Policy:
    """Return the decision of this collection. A round starts a bounded number of jobs, so ask until nothing starts."""
    admit, queues, usage = (collection.module(f"module_utils._queue.{name}") for name in ("admit", "queues", "usage"))
    listed, ledger = (collection.module(f"module_utils._ledger.{name}") for name in ("listed", "ledger"))
    state = ledger.swarm_state(listed.Listed([_node(number) for number in range(NODES)], [], [], 0.0), "gpu-swarm.")
    known = queues.check_queues({"research": {"time_limit": "none"}})
    work: dict[int, Any] = {}

    def running(job: Job, node: int, start: float) -> Any:
        return usage.Running(str(job.number), "research", "", f"n{node:02}", {GPU: job.gpus}, start + job.limit, False)

    def place(fleet: Fleet, waiting: Sequence[Job], now: float) -> Iterable[tuple[Job, int]]:
        by_number = {job.number: job for job in waiting}
        while by_number:
            for job in by_number.values():
                work.setdefault(job.number, _work(job))
            decisions = admit.admit(state, known, [work[number] for number in by_number], [running(*one) for one in fleet.running.values()], now)
            started = [(by_number.pop(int(one.work.service_id)), int(one.node[1:])) for one in decisions if one.node]
            work.update((int(one.work.service_id), one.work._replace(keeps=one.keeps)) for one in decisions if one.work.keeps != one.keeps)
            yield from started
            if len(started) < admit.MOST_ADMITTED:
                return

    return place


def _node(number: int) -> dict[str, Any]:
    resources = {"NanoCPUs": 10**12, "MemoryBytes": 2**42, "GenericResources": [{"DiscreteResourceSpec": {"Kind": GPU, "Value": GPUS}}]}
    description = {"Hostname": f"g{number:02}", "Platform": {"Architecture": "x86_64", "OS": "linux"}, "Resources": resources, "Engine": {}}
    return {"ID": f"n{number:02}", "Spec": {"Availability": "active"}, "Description": description, "Status": {"State": "ready"}}


def _work(job: Job) -> Any:
    waiting, scheduler = collection.module("module_utils._queue.waiting"), collection.module("module_utils._placement.scheduler")
    reserved = {"GenericResources": [{"DiscreteResourceSpec": {"Kind": GPU, "Value": job.gpus}}]}
    demand = scheduler.demand_of({"ID": "s", "Spec": {"TaskTemplate": {"Resources": {"Reservations": reserved}}}})
    return waiting.Work(str(job.number), str(job.number), "research", "", job.arrives, demand, time_limit_s=job.limit)


def simulate(jobs: Sequence[Job], policy: Policy) -> Outcome:
    """Run the jobs. The clock goes from one arrival or end to the next."""
    fleet, waits, busy = Fleet(), {}, 0.0
    begin, end = jobs[int(WARM_UP * len(jobs))].arrives, jobs[-1].arrives
    waiting: list[Job] = []
    ends: list[tuple[float, int]] = []
    arriving = list(reversed(jobs))
    while arriving or ends:
        now = min([*(job.arrives for job in arriving[-1:]), *(time for time, _number in ends[:1])])
        while ends and ends[0][0] <= now:
            job, node, start = fleet.running.pop(heapq.heappop(ends)[1])
            fleet.change(job, node, -1)
            busy += job.gpus * max(0.0, min(now, end) - max(start, begin))
        while arriving and arriving[-1].arrives <= now:
            waiting.append(arriving.pop())
        for job, node in policy(fleet, tuple(waiting), now):
            fleet.change(job, node, 1)
            assert fleet.free[node] >= 0, (job, node)
            fleet.running[job.number] = (job, node, now)
            heapq.heappush(ends, (now + job.duration, job.number))
            waiting.remove(job)
            waits[job.number] = now - job.arrives
    assert len(waits) == len(jobs), len(waits)
    return Outcome(waits, 100 * busy / (NODES * GPUS * (end - begin)))


POLICIES = {"plain Swarm": plain_swarm, "first come": first_come, "queue": queue}


class Figures(NamedTuple):
    """Hours, and percent of the GPUs."""

    mean: float
    p95: float
    eight: float
    eight_p95: float
    busy: float


def figures(outcomes: Sequence[tuple[Sequence[Job], Outcome]]) -> Figures:
    """Return the figures of all seeds together."""
    counted = [(job, outcome.waits[job.number] / HOUR) for jobs, outcome in outcomes for job in jobs[int(WARM_UP * len(jobs)) :]]
    everything, eight = ([wait for job, wait in counted if job.gpus >= least] for least in (1, GPUS))
    p95 = [statistics.quantiles(waits, n=20)[-1] for waits in (everything, eight)]
    return Figures(statistics.mean(everything), p95[0], statistics.mean(eight), p95[1], statistics.mean(outcome.busy for _jobs, outcome in outcomes))


def compare(workload: str, load: float) -> dict[str, Figures]:
    inputs = [jobs_of(workload, load, seed) for seed in SEEDS]
    return {name: figures([(jobs, simulate(jobs, policy())) for jobs in inputs]) for name, policy in POLICIES.items()}


def rows(workload: str, load: float, found: dict[str, Figures]) -> list[Row]:
    what, ours, plain = f"queue, {workload}, load {load}", found["queue"], found["plain Swarm"]
    is_goal = load == GOAL_LOAD
    return [
        row(f"{what}: 8-GPU jobs wait, mean / with plain Swarm (h)", ours.eight, plain.eight, WAIT_GOAL if is_goal else None),
        row(f"{what}: all jobs wait, mean / with plain Swarm (h)", ours.mean, plain.mean, None),
        row(f"{what}: busy GPUs with plain Swarm / with ours and 3 points (%)", plain.busy, ours.busy + POINTS_BELOW, 1.0 if is_goal else None),
    ]


def describe(workload: str, load: float, found: dict[str, Figures]) -> str:
    """Return the figures as text, for the page."""
    lines = [f"{workload}, load {load}: hours of waiting (mean, p95; of 8-GPU jobs mean, p95), busy GPUs"]
    return "\n".join(
        [
            *lines,
            *(f"  {name:12} {one.mean:8.2f} {one.p95:8.2f} {one.eight:8.2f} {one.eight_p95:8.2f} {one.busy:6.1f} %" for name, one in found.items()),
        ]
    )


def measure() -> list[Row]:
    found = []
    for workload in WORKLOADS:
        for load in LOADS:
            compared = compare(workload, load)
            print(describe(workload, load, compared), file=sys.stderr, flush=True)
            found += rows(workload, load, compared)
    return found


if __name__ == "__main__":
    print(table(measure()))
