# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import A, node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import KEY
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.health import reported

NOWHERE = {"pci_bus_id": None, "slot": None, "serial": None}
NOTHING_ELSE = {"card": None, "cards": 1, "reason": None, "xid": None, "since": None, "drift": False, "model": None, **NOWHERE, "returned": False}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, None),
        ("  ", None),
        ("ok", {"state": "ok", "text": "ok"}),
        (
            f"fault {A} xid=79 since=1795341600 cards=2",
            {"state": "fault", "card": A, "cards": 2, "xid": 79, "since": "2026-11-22T10:00:00Z", "text": f"fault {A} xid=79 2 cards"},
        ),
        (
            f"fault {A} reason=lost pci=00000000:C1:00.0 slot=12 serial=1322",
            {
                "state": "fault", "card": A, "reason": "lost", "pci_bus_id": "00000000:C1:00.0", "slot": "12", "serial": "1322",
                "text": f"fault {A} lost (PCI address 00000000:C1:00.0, slot 12, serial number 1322)",
            },
        ),
        ("fault reason=driver", {"state": "fault", "reason": "driver", "text": "fault driver"}),
        ("ok drift=1f2e3d4c", {"state": "ok", "drift": True, "text": "ok"}),
        ("ok model=Tesla-T4", {"state": "ok", "model": "Tesla-T4", "text": "ok"}),
        ("fault since=999999999999", {"state": "fault", "text": "fault"}),
        ("<b>anything", {"state": "unknown", "text": "unknown"}),
    ],
)
def test_the_report_of_a_node_is_read(value, found):
    one = node()
    one["Description"]["Engine"]["Labels"] = {"other": "fault", **({KEY: value} if value is not None else {})}
    assert reported(one, "gpu-swarm.") == (found and {**NOTHING_ELSE, **found})


def test_a_node_without_engine_labels_reports_nothing():
    assert reported(node(), "gpu-swarm.") is None
