# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""python -m tests.bench: measures on the lab's fleet; prints a table and writes build/bench.json."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import Any

from tests.lab.lab import CHECKOUT

from . import check_run, parts, table
from .fleets import BenchError, Yard

# Parts that need no fleet, and parts that need one.
ALONE = {
    "nvml": parts.nvml,
    "ledger": parts.ledger,
    "record": parts.recorded,
    "queue": parts.queue,
    "page": parts.page,
    "many-hosts": parts.many,
    "roll": parts.rolled,
    "check": check_run.measure,
}
PARTS = ("no-change", "first-run", "out-of-service", "watcher", "guard", *ALONE)


def options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), metavar="PARTS", help="some of: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="how often each run is taken (default: %(default)s)")
    parser.add_argument("--sizes", default="3,12,48", metavar="N,N", help="fleets for no-change (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "build" / "bench.json", help="default: build/bench.json")
    given = parser.parse_args(argv)
    given.only = given.only.split(",")
    given.sizes = [int(size) for size in given.sizes.split(",")]
    if unknown := set(given.only) - set(PARTS):
        parser.error(f"--only: {', '.join(sorted(unknown))} is none of {', '.join(PARTS)}")
    if given.rounds < 1 or min(given.sizes) < 1:
        parser.error("--rounds and --sizes are numbers from 1")
    return given


def measure(given: argparse.Namespace) -> list[dict[str, Any]]:
    rows = [row for part, work in ALONE.items() if part in given.only for row in work()]
    if set(given.only) <= set(ALONE):
        return rows
    with Yard() as yard:
        if "no-change" in given.only:
            rows += parts.no_change(yard, given.rounds, given.sizes)
        if "first-run" in given.only:
            rows += parts.first_run(yard, given.rounds)
        if "out-of-service" in given.only:
            rows += parts.out(yard, given.rounds)
        if "watcher" in given.only:
            rows += parts.watched(yard)
        if "guard" in given.only:
            rows += parts.guarded(yard)
    return rows


def main(argv: list[str] | None = None) -> int:
    given = options(argv)
    signal.signal(signal.SIGTERM, lambda *_signal: sys.exit(1))  # so that the benchmark takes its fleets down
    before = table.load()
    try:
        rows = measure(given)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(rows, indent=2) + "\n")
    print(table.table(rows))
    print(f"\nmedians of {given.rounds} rounds on {table.machine()}; load {before} before, {table.load()} after; in {given.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
