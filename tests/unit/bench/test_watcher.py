# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The benchmark measures the watcher in steady state, not while it starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.bench import watcher
from tests.bench.fleets import BenchError, Fleet

FLEET = Fleet("bench-1", Path("inventory.yml"), {})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Make a clock that counts seconds. A call of sleep moves the clock forward and returns at once."""
    clock = SimpleNamespace(now=0.0)

    def sleep(seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(watcher, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    return clock


def reads(monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace, moments: list[float]) -> None:
    """Simulate a child process of the watcher. The process exists from its first reading on, and sleeps after each reading."""

    def run(_fleet: Fleet, *words: str) -> str:
        number = sum(moment <= clock.now for moment in moments)
        if words[0] == "grep":
            return f"voluntary_ctxt_switches:\t{number}"
        return "7" if words[0] == "systemctl" else ("8" if number else "")

    monkeypatch.setattr(watcher, "_run", run)


def every(seconds: float, since: float) -> Iterator[float]:
    return (since + seconds * number for number in range(100))


@pytest.mark.parametrize(
    ("moments", "settled"),
    [
        ([0, 2, *every(10, 12)], 8),
        ([6, 8, *every(10, 18)], 12),  # the child starts later
        ([0, 2, 4, 6, 8, 10, *every(10, 20)], 16),  # the first readings differ from the rest
    ],
)
def test_the_benchmark_waits_until_two_readings_agree(
    monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace, moments: list[float], settled: float
) -> None:
    reads(monkeypatch, clock, moments)
    watcher._settle(FLEET)
    assert clock.now == settled


@pytest.mark.parametrize("moments", [[], list(every(2, 0))], ids=["no readings", "no two readings agree"])
def test_a_watcher_that_does_not_settle_is_not_measured(monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace, moments: list[float]) -> None:
    reads(monkeypatch, clock, moments)
    with pytest.raises(BenchError, match=r"bench-1 has not settled within 60 s"):
        watcher._settle(FLEET)
