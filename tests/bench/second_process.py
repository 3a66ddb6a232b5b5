# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures the second process of the managers' service on a big swarm: how much of a core it takes, and its memory.

``python -m tests.bench.second_process`` prints only this. The process reads the swarm and writes metrics, record and status. Its clock runs faster
than real time between two readings, because nothing happens then.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.lab.lab import CHECKOUT

from . import collection, record, swarm
from .ledger_read import chunks
from .table import Row, row, table

READINGS = 4
MINUTES = 4  # about the time between two readings of a swarm of this size
CPU_SHARE = 0.01
CPU_GOAL = 1.0
MEMORY_GOAL = 0.5


class Done(BaseException):
    """All answers are read. The process must not handle this as an error of the manager."""


class Manager:
    """A manager that answers each reading with the next of the prepared answers."""

    node_id, swarm_id = "n1", "c1"

    def __init__(self, folder: Path) -> None:
        self.folder, self.readings = folder, 0
        self.stream, self.stamp = collection.module("module_utils._swarm.json_stream"), collection.module("module_utils._tasks.tasks").stamp

    def cluster(self) -> Any:
        if self.readings == READINGS:
            raise Done
        return {"Spec": {"Labels": {}}}, self.stamp(record.START + self.readings * MINUTES * record.EVERY_S)

    def tasks(self) -> Iterator[Any]:
        self.readings += 1
        return self.stream.objects(chunks(self.folder / f"tasks-{self.readings}.json"))

    def services(self) -> Any:
        return json.loads((self.folder / "services.json").read_bytes())


def prepare(folder: Path) -> None:
    """Write the answers of a manager to each reading. Between two readings, tasks end and others begin."""
    swarm.write(folder, record.NODES, record.TASKS)
    tasks = json.loads((folder / "tasks.json").read_bytes())
    for number, minute in enumerate(range(0, READINGS * MINUTES, MINUTES), 1):
        (folder / f"tasks-{number}.json").write_text(json.dumps(tasks))
        for later in range(minute, minute + MINUTES):
            record.change(tasks, later)


def run(folder: Path) -> dict[str, float]:
    """Return {cpu, seconds, peak_mib} of this process, from the first reading until another one would be due."""
    readings, rounds, keeper, view, snapshot, recorder = (
        collection.module(f"module_utils.{name}")
        for name in ("_manager.readings", "_manager.rounds", "_metrics.keeper", "_manager.fleet_view", "_manager.snapshot", "_record.recorder")
    )
    nodes, problems, skipped = json.loads((folder / "nodes.json").read_bytes()), [], 0.0
    for name in ("metrics", "record"):
        (folder / name).mkdir()
    metrics = keeper.Keeper(str(folder / "metrics"), problems.append)
    observers = [
        readings.Observer("metrics", metrics.observe, metrics.is_needed),
        readings.Observer("status", snapshot.Snapshot(str(folder / "record"), view.FleetView(20)).observe),
        readings.Observer("record", recorder.Recorder(str(folder / "record")).observe),
    ]
    act, manager = readings.Readings(observers, problems.append, lambda: time.monotonic() + skipped), Manager(folder)
    started, cpu = time.monotonic(), time.process_time()
    with contextlib.suppress(Done):
        while True:
            act(manager, nodes, True)
            skipped += rounds.LISTENING_S
    assert not problems, problems
    return {"cpu": time.process_time() - cpu, "seconds": time.monotonic() - started + skipped, "peak_mib": _peak_mib()}


def _peak_mib() -> float:
    with open("/proc/self/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as made:
        prepare(Path(made))
        done = subprocess.run([sys.executable, "-m", "tests.bench.second_process", made], cwd=CHECKOUT, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    limit = collection.module("module_utils._manager.two_processes").SECOND_MIB
    what = f"the service of a manager, {record.NODES} nodes, {record.TASKS} tasks, {record.CHANGES_PER_S} task changes a second"
    return [
        row(f"{what}: CPU of its second process / a hundredth of the time (s)", found["cpu"], found["seconds"] * CPU_SHARE, CPU_GOAL),
        row(f"{what}: peak memory of its second process / its limit (MiB)", found["peak_mib"], limit, MEMORY_GOAL),
    ]


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1])))) if sys.argv[1:] else print(table(measure()))
