# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import Step
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.durations import CHANGE_S, LONGEST_SILENCE_S, lease_seconds, restart_waits


@pytest.mark.parametrize(
    ("needs", "timeout", "maintain", "waits"),
    [
        (["restart"], 120, False, 120),
        (["restart"], 0, False, 0),
        (["restart"], LONGEST_SILENCE_S, False, LONGEST_SILENCE_S),
        (["restart"], LONGEST_SILENCE_S + 1, False, 0),  # a task of its own queries again and again
        (["toolkit", "restart"], 120, False, 0),
        (["maintain"], 120, True, 0),
    ],
)
def test_the_call_that_restarts_dockerd_waits_where_it_is_all_that_is_done(needs, timeout, maintain, waits):
    assert restart_waits(Step(needs=needs), timeout, maintain) == waits


def planned(*settings, to_change=None, lease=None):
    usual = {"provision_wait": 300, "provision_drain_timeout": 120, "maintain_timeout": 900}
    steps = {f"g{number}": {"settings": {**usual, **one}} for number, one in enumerate(settings, 1)}
    return {"settings": {"provision_lease": lease}, "steps": steps, "to_change": list(steps)[:to_change]}


EACH = 300 + 120 + CHANGE_S


@pytest.mark.parametrize(
    ("plan", "forks", "maintain", "seconds"),
    [
        (planned({}), 5, False, 2 * 300 + EACH),
        (planned(*[{}] * 5), 5, False, 2 * 300 + EACH),
        (planned(*[{}] * 6), 5, False, 2 * 300 + 2 * EACH),
        (planned(*[{}] * 6, to_change=5), 5, False, 2 * 300 + EACH),  # of the others nothing is changed
        (planned({}, to_change=0), 5, False, 2 * 300 + EACH),
        (planned({}), 5, True, 2 * 300 + EACH + 300 + 3 * 900),
        (planned({"provision_wait": 0}), 5, False, 120 + CHANGE_S),
        # The slowest host of a batch says how long it lasts, whichever comes first.
        (planned({"provision_wait": 0}, {"provision_drain_timeout": 600}), 5, False, 2 * 300 + 300 + 600 + CHANGE_S),
        (planned({}, {"maintain_timeout": 7200}), 5, True, 2 * 300 + EACH + 300 + 3 * 7200),
        (planned({}, lease=60), 5, True, 60),
    ],
)  # fmt: skip
def test_the_lease_lasts_as_long_as_a_batch_may_take(plan, forks, maintain, seconds):
    assert lease_seconds(list(plan["steps"]), plan, forks, maintain) == seconds


def test_a_lease_is_for_the_hosts_of_its_batch():
    plan = planned({}, {"provision_wait": 3600})
    assert lease_seconds(["g1"], plan, 5) == 2 * 300 + EACH
    assert lease_seconds(["g2"], plan, 5) == 2 * 3600 + 3600 + 120 + CHANGE_S
