# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the simulator of tests/bench, with few jobs."""

from __future__ import annotations

import pytest

from tests.bench import queue_simulation as simulation
from tests.bench.queue_simulation import GPUS, NODES, Job


def job(number: int, arrives: float, gpus: int, duration: float = 100.0) -> Job:
    return Job(number, arrives, gpus, duration, 2 * duration)


@pytest.mark.parametrize("workload", simulation.WORKLOADS)
@pytest.mark.parametrize("load", simulation.LOADS)
def test_the_offered_load_is_as_asked(workload: str, load: float) -> None:
    jobs = simulation.jobs_of(workload, load, 1, most=3000)
    work = sum(one.gpus * one.duration for one in jobs)
    assert work / (NODES * GPUS * jobs[-1].arrives) == pytest.approx(load, rel=0.02)
    assert all(one.duration <= one.limit <= 5 * one.duration for one in jobs)
    assert jobs == simulation.jobs_of(workload, load, 1, most=3000)
    assert jobs != simulation.jobs_of(workload, load, 2, most=3000)


@pytest.mark.parametrize("policy", simulation.POLICIES)
def test_each_job_waits_until_it_fits(policy: str) -> None:
    whole = [job(number, 0.0, GPUS) for number in range(NODES)]
    waits = simulation.simulate([*whole, job(NODES, 10.0, GPUS), job(NODES + 1, 250.0, 1)], simulation.POLICIES[policy]()).waits
    assert waits == {**dict.fromkeys(range(NODES), 0.0), NODES: 90.0, NODES + 1: 0.0}


def test_plain_swarm_spreads_and_the_others_pack() -> None:
    small = [job(number, 0.0, 1, 1000.0) for number in range(NODES)]
    waits = {name: simulation.simulate([*small, job(NODES, 10.0, GPUS)], policy()).waits[NODES] for name, policy in simulation.POLICIES.items()}
    assert waits == {"plain Swarm": 990.0, "first come": 0.0, "queue": 0.0}


def test_the_queue_starts_small_work_beside_the_first_that_waits_and_does_not_delay_it() -> None:
    whole = [job(number, 0.0, GPUS, 100.0 + number) for number in range(NODES - 1)]
    large, endless, short = job(NODES, 10.0, GPUS), job(NODES + 1, 11.0, 1, 1000.0), job(NODES + 2, 12.0, 1, 10.0)
    used = job(NODES - 1, 0.0, 1, 500.0)  # leaves room for small work on the last node
    jobs = [*whole, used, large, endless, short]
    found = {name: simulation.simulate(jobs, simulation.POLICIES[name]()).waits for name in ("first come", "queue")}
    assert [found["first come"][one.number] for one in (large, endless, short)] == [90.0, 89.0, 88.0]
    assert [found["queue"][one.number] for one in (large, endless, short)] == [90.0, 0.0, 0.0]


def test_large_jobs_wait_less_with_the_queue_than_with_plain_swarm() -> None:
    jobs = simulation.jobs_of("philly", 0.85, 1, most=1500)
    found = {name: simulation.figures([(jobs, simulation.simulate(jobs, simulation.POLICIES[name]()))]) for name in ("plain Swarm", "queue")}
    assert found["queue"].eight < simulation.WAIT_GOAL * found["plain Swarm"].eight
    assert found["queue"].busy > found["plain Swarm"].busy - simulation.POINTS_BELOW
    rows = simulation.rows("philly", 0.85, {**found, "first come": found["queue"]})
    assert all(row["goal"] is None or row["ratio"] <= row["goal"] for row in rows)
