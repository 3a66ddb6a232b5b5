# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.health import LABEL, reported


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, None),
        ("  ", None),
        ("ok", {"state": "ok", "cards": [], "since": None, "text": "ok"}),
        (
            "fault GPU-1234abcd… xid=79 since=2026-11-22T14:02Z",
            {"state": "fault", "cards": ["GPU-1234abcd"], "since": "2026-11-22T14:02Z", "text": "fault GPU-1234abcd… xid=79 since=2026-11-22T14:02Z"},
        ),
        ("FAULT driver", {"state": "fault", "cards": [], "since": None, "text": "FAULT driver"}),
    ],
)
def test_what_a_node_reports(value, found):
    one = node()
    one["Description"]["Engine"]["Labels"] = {"other": "fault", **({LABEL: value} if value is not None else {})}
    assert reported(one) == found


def test_a_node_without_labels_of_its_engine():
    assert reported(node()) is None
