# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds services without room for their tasks, and services that lost their room during a run."""

from __future__ import annotations

import pytest
from fleet_lab import ledger, member, task

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.room import newly_pending, pending, rooms, without_room


def short(**services):
    return {**ledger(member()), "pending": [{"service": name, "count": count} for name, count in services.items()]}


def test_every_service_without_room_is_named():
    assert without_room(short(web=3, one=1)) == ["service web (3 tasks)", "service one (1 task)"]
    assert without_room({"msg": "no manager answered"}) == without_room(None) == []


# running and waiting tasks at the start, and now -> how many tasks have lost their room
ROOM = {
    "one task of four": ((4, 0), (3, 1), 1),
    "all four tasks": ((4, 0), (0, 4), 4),
    "a new service": (None, (0, 3), 0),
    "added replicas": ((4, 0), (4, 2), 0),
    "added replicas, and one former task": ((4, 0), (3, 3), 1),
    "removed replicas": ((4, 0), (2, 0), 0),
    "tasks that waited before": ((4, 2), (4, 2), 0),
    "tasks that waited before, and one that ran": ((4, 2), (3, 3), 1),
    "its last task, while two waited": ((1, 2), (0, 2), 0),  # another task of this service has ended
    "nothing had room": ((0, 2), (0, 5), 0),
}


@pytest.mark.parametrize(("then", "now", "lost"), ROOM.values(), ids=ROOM)
def test_only_services_with_room_at_the_start_can_lose_it(then, now, lost):
    def book(running, waiting):
        tasks = [task(f"web.{n}", "web") for n in range(running)]
        return {**ledger(member(tasks=tasks)), "pending": [{"service": "web", "count": waiting}] if waiting else []}

    before = rooms(book(*then)) if then else rooms(ledger(member()))
    reason = newly_pending(book(*now), before)
    assert reason == ([f"service web ({lost} task{'s' * (lost > 1)})"] if lost else [])


def test_a_job_that_starts_its_next_tasks_has_lost_no_room():
    jobs = [task(f"sweep.{n}", "sweep", movable=False) for n in range(3)]
    before = rooms({**ledger(member(tasks=jobs)), "pending": [{"service": "sweep", "count": 1}]})
    assert before == {"sweep": {"running": 0, "pending": 1}}
    assert newly_pending(short(sweep=3), before) == []


def test_pending_tasks_are_counted_by_service():
    # A service has a group for each reason why its tasks wait.
    book = {"pending": [{"service": "a", "count": 2}, {"service": "b", "count": 1}, {"service": "a", "count": 3}]}
    assert pending(book) == {"a": 5, "b": 1}
    assert pending(None) == pending(ledger()) == {}
    assert rooms(book) == {"a": {"running": 0, "pending": 5}, "b": {"running": 0, "pending": 1}}
    assert rooms(None) == {}


def test_resources_that_the_run_removes_for_good_count_as_no_loss():
    assert newly_pending(short(web=3), None) == []
