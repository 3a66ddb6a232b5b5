# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures reading a big swarm's ledger, compared with json.loads of the same answers.

``python -m tests.bench.ledger_read`` prints only this. Times are taken in one interpreter, alternately. Memory is measured in a separate process for
each reader. This collection reads tasks in pieces as they arrive at the socket; json.loads needs the whole answer.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import collection, swarm
from .memory import peak_mib, print_peak_at_exit
from .table import Row, row, table

NODES, TASKS = 1000, 20000
ROUNDS = 7
MEMORY_ROUNDS = 3
TIME_GOAL = 1.0
MEMORY_GOAL = 0.5
CHUNK = 1 << 16


def chunks(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as body:
        while chunk := body.read(CHUNK):
            yield chunk


def own(folder: Path) -> Callable[[], Any]:
    stream, listed, ledger = (collection.module(f"module_utils.{name}") for name in ("_swarm.json_stream", "_ledger.listed", "_ledger.ledger"))

    def read() -> Any:
        nodes, services = (json.loads((folder / f"{name}.json").read_bytes()) for name in ("nodes", "services"))
        tasks = stream.objects(chunks(folder / "tasks.json"))
        return ledger.ledger(listed.Listed(nodes, tasks, services, time.time()), "gpu-swarm.")

    return read


def plain(folder: Path) -> Callable[[], Any]:
    return lambda: [json.loads((folder / f"{name}.json").read_bytes()) for name in ("nodes", "services", "tasks")]


WAYS = {"--own": own, "--plain": plain}


def _seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _check(found: Any) -> None:
    """Check that the swarm is large enough."""
    live = sum(len(node["tasks"]) for node in found["nodes"])
    assert live > TASKS // 3, live
    assert found["kinds"]["NVIDIA-GPU"]["held"] > TASKS // 4, found["kinds"]
    assert found["finished_jobs"], "no finished jobs"
    assert found["pending"], "nothing waits"


def measure() -> list[Row]:
    """Return the row of seconds, then the row of MiB."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        swarm.write(folder, NODES, TASKS)
        megabytes = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        works = [way(folder) for way in WAYS.values()]
        _check(works[0]())
        taken = [[_seconds(work) for work in works] for _round in range(ROUNDS)]
        seconds = [statistics.median(column) for column in zip(*taken, strict=True)]
        peaks = [[peak_mib("tests.bench.ledger_read", way, made) for way in WAYS] for _round in range(MEMORY_ROUNDS)]
        memory = [statistics.median(column) for column in zip(*peaks, strict=True)]
    what = f"ledger of {NODES} nodes, {TASKS} tasks ({megabytes:.0f} MB)"
    return [
        row(f"{what} / json.loads (s)", *seconds, TIME_GOAL),
        row(f"peak memory of the ledger of {TASKS} tasks / json.loads (MiB)", *memory, MEMORY_GOAL),
    ]


def main(arguments: list[str]) -> None:
    if arguments:
        print_peak_at_exit()
        WAYS[arguments[0]](Path(arguments[1]))()
        return
    print(table(measure()))


if __name__ == "__main__":
    main(sys.argv[1:])
