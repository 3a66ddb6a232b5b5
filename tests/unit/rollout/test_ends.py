# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of a run. test_steps.py tests the record of the result, and tests/unit/report tests its tables."""

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.ends import failed_before


@pytest.mark.parametrize(
    ("ledger", "failed"),
    [
        (None, False),
        ({"msg": "no route"}, False),
        ({"swarm": {"last_run": None}}, False),
        ({"swarm": {"last_run": {"hosts": {"done": 3}}}}, False),
        ({"swarm": {"last_run": {"hosts": {"done": 3, "failed": 0}}}}, False),
        ({"swarm": {"last_run": {"hosts": {"done": 3, "failed": 1}}}}, True),
    ],
)
def test_a_run_without_changes_records_that_earlier_failures_are_over(ledger, failed):
    assert failed_before(ledger) is failed
