# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whenever a run or a node is lost, the next run finishes the work, and no trace of the lost run remains."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

from . import health
from .plan import TOOLKIT, Accident
from .yard import GPU_NODES, NODES, Yard


@dataclass(frozen=True)
class Before:
    """The fleet before the first accident."""

    settings: dict[str, dict[str, Any]]
    files: dict[str, list[str]]


@pytest.fixture(scope="session")
def before(yard: Yard) -> Before:
    settings = {name: health.user_settings(yard.fleet[name]) for name in GPU_NODES}
    first = yard.start()
    assert first.end().rc == 0, first.output
    # The first run takes about as long as a change to another toolkit beside running tasks. If a run ends before its accident, its length replaces
    # this estimate.
    yard.lengths[TOOLKIT] = first.seconds
    yard.say(f"undisturbed, a first run takes {first.seconds:.1f} s")
    yard.employ()
    before = Before(settings, {name: health.files(yard.fleet[name]) for name in GPU_NODES})
    health.check(yard, before.settings, before.files)
    return before


def test_the_next_run_finishes_the_work(yard: Yard, before: Before, accidents: list[Accident]) -> None:
    for accident in accidents:
        yard.befall(accident)

    run = yard.start()
    assert run.end().rc == 0, run.output
    ended = time.monotonic()
    yard.await_work()
    yard.say(f"well again after a run of {run.seconds:.1f} s; services complete {time.monotonic() - ended:.1f} s later")
    health.check(yard, before.settings, before.files)

    again = yard.start().end()
    assert again.rc == 0, again.output
    assert again.changed() == dict.fromkeys(NODES, 0)
