# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures recording one reading of a big swarm, compared with computing the swarm's ledger, which each reading does anyway.

``python -m tests.bench.record`` prints only this. Between two readings, ten tasks a second end and as many begin.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import collection, swarm
from .table import Row, row, table

NODES, TASKS = 1000, 20000
CHANGES_PER_S, EVERY_S = 10, 60
START = 20000 * 86400.0  # midnight, so that no day ends in between
ROUNDS = 7
TIME_GOAL = 0.5


def _readings(folder: Path) -> Iterator[tuple[float, Any]]:
    """Yield (seconds that the ledger took, reading), one minute after the other, without end."""
    listed, ledger, reading = (collection.module(f"module_utils.{name}") for name in ("_ledger.listed", "_ledger.ledger", "_ledger.reading"))
    nodes, services, tasks = (json.loads((folder / f"{name}.json").read_bytes()) for name in ("nodes", "services", "tasks"))
    for minute in itertools.count():
        at = START + minute * EVERY_S
        started = time.perf_counter()
        result = ledger.ledger(listed.Listed(nodes, tasks, services, at), "gpu-swarm.")
        took = time.perf_counter() - started
        yield took, reading.Reading(at, nodes, tasks, services, {}, dict(result, owners={}, swarm={}), True, "n1", "gpu-0000", "c1", {})
        change(tasks, minute)


def change(tasks: list[dict[str, Any]], minute: int) -> None:
    """End tasks with GPUs, and start others in their place. ``minute`` counts from START."""
    chance, stamp = random.Random(minute), collection.module("module_utils._tasks.tasks").stamp(START + (minute + 0.5) * EVERY_S)
    running = [number for number, task in enumerate(tasks) if task.get("GenericResources") and task["Status"]["State"] == "running"]
    for number in chance.sample(running, CHANGES_PER_S * EVERY_S):
        task = tasks[number]
        tasks.append({**task, "ID": swarm.identity("later", minute, number), "Status": {**task["Status"], "Timestamp": stamp}})
        tasks[number] = {**task, "DesiredState": "shutdown", "Status": {**task["Status"], "State": "complete", "Timestamp": stamp}}
    ended = [number for number, task in enumerate(tasks) if task["Status"]["State"] == "complete"]
    for number in sorted(ended[: max(0, len(tasks) - TASKS)], reverse=True):
        del tasks[number]  # a manager keeps only the latest ended tasks


def measure() -> list[Row]:
    recorder = collection.module("module_utils._record.recorder")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        swarm.write(folder, NODES, TASKS)
        own, taken = recorder.Recorder(made), []
        for took, reading in itertools.islice(_readings(folder), ROUNDS + 1):
            started = time.perf_counter()
            found = own.observe(reading)
            taken.append((time.perf_counter() - started, took))
            assert not found, found
        seconds = [statistics.median(column) for column in zip(*taken[1:], strict=True)]
    what = f"record a reading of {NODES} nodes, {TASKS} tasks, {CHANGES_PER_S} task changes a second"
    return [row(f"{what} / its ledger (s)", *seconds, TIME_GOAL)]


if __name__ == "__main__":
    print(table(measure()))
