# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks how the benchmark of a rolling change sums up the records of its callback, and which records it refuses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.bench import roll
from tests.bench.fleets import BenchError
from tests.bench.memory import Used

TIMES = b"0m0.250s 0m0.250s\n"  # output of the shell command times: together half a second


def line(number, play, task="a task", runs=1):
    """Return a record of a task that used two seconds of CPU on the controller. The hosts wrote their times once."""
    before = {"at": 10.0, "cpu": 5.0, "hosts_bytes": 0, "rss_kib": 0}
    return {
        "number": number,
        "play": play,
        "task": task,
        "runs": runs,
        "from": before,
        "to": {"at": 13.0, "cpu": 7.0, "hosts_bytes": len(TIMES), "rss_kib": 2048},
    }


def test_the_batches_of_the_window_are_distinguished():
    batches = [line(number, roll.WINDOW, runs=number) for number in range(5, 10)]
    steps = roll._steps([line(0, "", "start"), line(1, roll.ASSESS), line(1, roll.ASSESS, "more"), *batches], TIMES)
    assert {name: (step.seconds, step.cpu, step.runs, step.rss_mib) for name, step in steps.items()} == {
        "start": (3, 1.5, 1, 2),
        roll.ASSESS: (6, 3, 2, 2),
        roll.IDLE: (6, 3, 5 + 6, 2),
        roll.BUSY: (6, 3, 7 + 8, 2),
        roll.MANAGER: (3, 1.5, 9, 2),
    }


@pytest.mark.parametrize(("most", "refused"), [({True: 1, False: 18}, False), ({True: 2, False: 18}, False), ({True: 3, False: 1}, True)])
def test_more_nodes_out_of_service_than_in_a_batch_are_an_error(most, refused):
    swarm = SimpleNamespace(busy=dict.fromkeys(range(20), True), most_out=most, calls={})
    work = (40, swarm, Used(0, 100.0, 8.0), [line(0, "", "start")], TIMES)
    if refused:
        with pytest.raises(BenchError, match="out of service"):
            roll._measured(*work)
        return
    found = roll._measured(*work)
    assert (found.cpu, found.seconds, found.allowed) == (7.5, 3, {True: 2, False: 18})
