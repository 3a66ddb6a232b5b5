# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node_spec.eviction import evictions
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.keep import KEY, blocking_label, is_readable, may_be_moved
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.declaration import default_of

HOUR = 3600
NOW = epoch("2026-11-20T14:00:00Z")  # at this time, the tasks of swarm_api have run for two hours


def labelled(value, key=KEY):
    made = service()
    made["Spec"]["Labels"] = {key: value}
    return made


@pytest.mark.parametrize(
    ("value", "kept_at", "moved_at", "readable"),
    [
        ("true", [0, None, 10**9], [], True),
        (" True", [0], [], True),
        ("", [0, 10**9], [], True),
        ("false", [], [0, None, 10**9], True),
        ("12h", [0, None, 12 * HOUR - 1], [12 * HOUR, 10**9], True),
        ("2 d", [48 * HOUR - 1], [48 * HOUR], True),
        ("90m", [5399], [5400], True),
        ("30s", [29], [30], True),
        ("0s", [], [0, None], True),
        ("12", [0, 10**9], [], False),
        ("soon", [0, 10**9], [], False),
        ("-1h", [0, 10**9], [], False),
        ("12h30m", [10**9], [], False),
        ("1.5h", [10**9], [], False),
    ],
)
def test_a_label_keeps_a_task_until_this_time(value, kept_at, moved_at, readable):
    label = f"{KEY}={value}"
    assert [blocking_label(labelled(value), age, KEY) for age in kept_at] == [label] * len(kept_at)
    assert [blocking_label(labelled(value), age, KEY) for age in moved_at] == [None] * len(moved_at)
    assert is_readable(label) is readable


def test_without_the_label_nothing_is_kept():
    assert blocking_label(None, 0, KEY) is None
    assert blocking_label(service(), 0, KEY) is None
    assert blocking_label(labelled("true", "other"), 0, KEY) is None
    assert blocking_label(labelled("true", "other"), 0, "other") == "other=true"


@pytest.mark.parametrize(("movable", "kept", "may"), [(True, None, True), (True, "k=true", False), (False, None, False), (False, "k=true", False)])
def test_swarm_and_the_owner_both_decide(movable, kept, may):
    assert may_be_moved({"movable": movable, "kept": kept}) is may


@pytest.mark.parametrize(("value", "key", "kept"), [("true", KEY, True), ("3h", KEY, True), ("2h", KEY, False), ("true", "team.keep", False)])
def test_ledger_and_evictions_agree(value, key, kept):
    expected = f"{KEY}={value}" if kept else None
    before = {"Labels": {}, "Availability": "active"}
    change = {"id": "n1", "hostname": "h", "changed": True, "before": before, "after": dict(before, Availability="drain")}
    found = ledger(Listed([node()], [task("t1")], [labelled(value)], NOW, keep_label=key), "gpu-swarm.")
    ((evicted,),) = evictions([change], None, Listed((), [task("t1")], [labelled(value)], NOW, key))
    (record,) = found["nodes"][0]["tasks"]
    assert (record["kept"], evicted["kept"]) == (expected, expected)
    assert (record["movable"], evicted["movable"]) == (True, True)  # swarm still counts this task


def test_the_default_keep_label_is_the_same_everywhere():
    assert default_of("provision_keep_label") == KEY
