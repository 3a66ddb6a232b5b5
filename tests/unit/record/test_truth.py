# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plays random days on a small swarm, whose truth the test knows, and compares the record with the truth.

Tasks wait, start, end, and leave the manager's list. dockerd stamps ended tasks anew. The manager is away at times.
"""

from __future__ import annotations

import random

import pytest
from readings import DAY_S, HOUR, T, node, reading, service, task
from swarm_api import named

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record import queries
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.database import open_for_reading
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.recorder import Recorder

LAST = T + 3 * DAY_S
OWNERS = ("alice", "bob", "carol")
SERVICES = [service(f"s{number}", f"job-{number}", owner=owner) for number, owner in enumerate(OWNERS)]
CARDS = [f"GPU-{number:08}-0000-0000-0000-000000000000" for number in range(8)]
NODES = [node(resources=named(*CARDS), leader=True)]


class Life:
    """The true life of one task. It has one card from ``begin`` to ``end``."""

    def __init__(self, number, card, chance, earliest):
        self.id, self.card, self.owner = f"t{number}", card, chance.randrange(len(OWNERS))
        self.created = earliest + chance.randrange(60, 4 * HOUR)
        self.begin = self.created + chance.choice([0, 5, 600])
        self.end = self.begin + chance.choice([3, 40, 500, HOUR, 20 * HOUR])
        self.unlisted = self.end + chance.choice([5, 300, 10**9])
        self.restamped = self.end + chance.choice([200, 10**9])  # dockerd restarts

    def listed(self, at):
        """Return the task as the manager lists it at this time, or None."""
        if not self.created <= at < self.unlisted:
            return None
        options = {"created": self.created, "service": f"s{self.owner}", "slot": 1}
        if at < self.begin:
            return task(self.id, self.created, "pending", given=[], node_id=None, **options)
        options["given"] = named(self.card)
        if at < self.end:
            return task(self.id, self.begin, **options)
        return task(self.id, self.restamped if at >= self.restamped else self.end, "complete", desired="shutdown", **options)


def lives(chance):
    """Return tasks that have a card one after the other."""
    made = []
    for card in CARDS:
        free_at = T
        while free_at < LAST:
            made.append(Life(len(made), card, chance, free_at))
            free_at = made[-1].end
    return made


def times(chance):
    """Return the times of the readings, with a night without any."""
    at, away = T, T + chance.randrange(DAY_S, 2 * DAY_S)
    while at <= LAST:
        yield at
        at += chance.choice([15, 60, 60, 60, 600])
        if at > away:
            at, away = at + chance.randrange(HOUR, 8 * HOUR), LAST + 1


@pytest.mark.parametrize("seed", range(3))
def test_the_record_agrees_with_the_truth_as_far_as_it_says_that_it_is_sure(seed, tmp_path):
    chance, recorder = random.Random(seed), Recorder(str(tmp_path))
    all_lives, readings = lives(chance), list(times(chance))
    for at in readings:
        tasks = list(filter(None, (life.listed(at) for life in all_lives)))
        assert recorder.observe(reading(at, tasks, NODES, SERVICES)) == []
        if chance.random() < 0.01:
            recorder = Recorder(str(tmp_path))  # the service was restarted
    db, truth = open_for_reading(str(tmp_path)), {life.id: life for life in all_lives}
    rows = [row for card in CARDS for row in queries.card(db, card)["allocations"]]
    assert len(rows) == len({row["task"] for row in rows})
    for row in rows:
        compare(row, truth[row["task"]], readings)
    missed = set(truth) - {row["task"] for row in rows}
    assert all(is_between_two_readings(truth[name], readings) for name in missed)
    compare_sums(db, [truth[row["task"]] for row in rows], readings[-1])


def compare(row, life, readings):
    """A time that is known is the true time. Other times are off by the time between two readings at most."""
    before = max(at for at in readings if at < life.begin or at == readings[0])
    assert row["owner"] == OWNERS[life.owner]
    assert row["begin"] == life.begin if row["begin_known"] else max(before, life.created) == row["begin"] <= life.begin
    if row["end"] is None:
        assert life.end > readings[-1]
    elif row["end_known"]:
        assert row["end"] in (life.end, life.restamped)
        assert row["end"] == life.end or not any(life.end <= at < life.restamped for at in readings)
    else:
        assert row["end"] == min(at for at in readings if at >= life.end)
        assert row["how"] == "gone"


def is_between_two_readings(life, readings):
    """Return whether no reading could see the task with its card."""
    return not any(life.begin <= at < life.unlisted for at in readings)


def compare_sums(db, recorded, last):
    usage = queries.usage(db, 0, LAST, "owner", LAST)
    by_day = queries.usage_by_day(db, 0, LAST, "owner", LAST)
    for row in usage:
        true_hours = sum(min(life.end, last) - life.begin for life in recorded if OWNERS[life.owner] == row["name"]) / 3600
        assert row["hours"] - row["estimated"] <= true_hours + 1e-6
        assert row["hours"] >= true_hours - 1e-6
        assert row["cards"] == pytest.approx(row["hours"])
        assert sum(day["cards"] for day in by_day if day["name"] == row["name"]) == pytest.approx(row["cards"])
    assert {row["name"] for row in usage} == set(OWNERS)
