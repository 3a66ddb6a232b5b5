# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run has come to; test_steps.py has what it notes, tests/unit/report what it shows."""

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
def test_a_run_that_changes_nothing_notes_that_what_failed_before_does_not_any_more(ledger, failed):
    assert failed_before(ledger) is failed
