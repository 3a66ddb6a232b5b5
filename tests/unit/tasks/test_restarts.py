# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Observed with leaders of Docker 20.10.24 and 26.1.5: after a second drain, a task with one attempt is not started again.

This also holds for a window of 20 s. A task of a global service always starts again when its node is back.
"""

from __future__ import annotations

import pytest
from swarm_api import node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node_spec.eviction import evictions

S = 1_000_000_000


def made(at, attempts, window=None, ended=False, slot=1, image="bb:1", condition="any", **other):
    """Return a task that was created ``at`` seconds after ten o'clock."""
    one = task(f"t{at}-{slot}-{image}", slot=slot, **dict({"state": "shutdown", "desired": "shutdown"} if ended else {}, **other))
    one["Spec"]["RestartPolicy"] = {"Condition": condition, "MaxAttempts": attempts, **({"Window": window * S} if window else {})}
    one["Spec"]["ContainerSpec"]["Image"] = image
    one["CreatedAt"] = "2026-11-22T10:%02d:%02d.5Z" % divmod(at, 60)
    return one


def gone(*at, **options):
    return [made(one, ended=True, **options) for one in at]


# case -> (the tasks of a slot, the remaining attempts of the running task)
CASES = {
    "no limit": ([made(0, 0)], None),
    "never restarted": ([made(0, 1)], 1),
    "drained once": ([*gone(0, attempts=1), made(30, 1)], 0),
    "two of three": ([*gone(0, 30, attempts=3), made(60, 3)], 1),
    "three of three": ([*gone(0, 30, 60, attempts=3), made(90, 3)], 0),
    "in any order": ([made(90, 3), *gone(30, 60, 0, attempts=3)], 0),
    "a window, and drained long after the restart": ([*gone(0, attempts=1, window=20), made(30, 1, window=20)], 0),
    "a window without the first two tasks": ([*gone(0, 30, 60, attempts=3, window=120), made(600, 3, window=120)], 2),
    "a window with all tasks": ([*gone(0, 540, 560, attempts=3, window=120), made(600, 3, window=120)], 0),
    "restarts of another version of the service": ([*gone(0, 30, attempts=1, image="bb:0"), made(60, 1)], 1),
    "restarts of another slot": ([*gone(0, 30, attempts=1, slot=2), made(60, 1)], 1),
    "restarts of another service": ([*gone(0, 30, attempts=1, service="s2"), made(60, 1)], 1),
    "restarts at an unknown time": ([*({**one, "CreatedAt": None} for one in gone(0, 1, attempts=1, window=5)), made(600, 1, window=5)], 0),
}


@pytest.mark.parametrize(("tasks", "left"), CASES.values(), ids=CASES)
def test_a_task_can_be_moved_while_an_attempt_is_left(tasks, left):
    (record,) = ledger(Listed([node()], iter(tasks), [service(), service("s2")]), "gpu-swarm.")["nodes"][0]["tasks"]
    assert (record["restarts_left"], record["movable"]) == (left, left != 0)


def test_a_task_without_restarts_is_never_movable():
    (record,) = ledger(Listed([node()], [made(0, 3, condition="none")], [service()]), "gpu-swarm.")["nodes"][0]["tasks"]
    assert (record["restarts_left"], record["movable"]) == (3, False)


def test_a_global_service_uses_no_attempts():
    tasks = [*gone(0, 30, attempts=1, slot=None), made(60, 1, slot=None)]
    (record,) = ledger(Listed([node()], tasks, [service(mode="Global")]), "gpu-swarm.")["nodes"][0]["tasks"]
    assert (record["restarts_left"], record["movable"]) == (None, True)


def test_evictions_use_the_same_rule():
    """This holds even if the list has the former tasks after the running task. Each of several changes gets the same result."""
    before, after = {"Labels": {"m": "1"}, "Availability": "active"}, {"Labels": {}, "Availability": "active"}
    change = {"id": "n1", "hostname": "h", "changed": True, "before": before, "after": after}
    drained = dict(change, after=dict(before, Availability="drain"))
    tasks = [made(30, 1), made(30, 1, slot=2), *gone(0, attempts=1, node_id="n9")]
    found = evictions([change, drained], None, Listed((), iter(tasks), [service(constraints=["node.labels.m==1"])]))
    assert [[(record["slot"], record["movable"]) for record in records] for records in found] == [[(1, False), (2, True)]] * 2
