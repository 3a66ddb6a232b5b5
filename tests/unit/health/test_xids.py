# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import xids
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.xids import Event

ACTION = "GPU recovery action changed from 0x0 (None) to %s"


@pytest.mark.parametrize(
    ("line", "event"),
    [
        (
            "3,1042,90211,-;NVRM: Xid (PCI:0000:c6:00): 79, pid=1101234, name=nvc:[driver], GPU has fallen off the bus.\n",
            Event("0000:c6:00", 79, "pid=1101234, name=nvc:[driver], GPU has fallen off the bus."),
        ),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", Event("0000:03:00", 14, "Channel 00000001")),
        ("NVRM: Xid (PCI:0000:10:1c): 63", Event("0000:10:1c", 63, "")),
        ("NVRM: GPU at PCI:0000:c6:00: GPU-4cf2f4a5-2c5a-5bd9-8d63-2a5e2f0e7d1b", None),
        ("my program says NVRM: Xid (of no card): 79", None),
        ("usb 1-1: new device", None),
    ],
)
def test_a_line_of_the_kernels_log(line, event):
    assert xids.event(line) == event


def test_both_ways_to_write_an_address():
    assert xids.bus("00000000:C1:00.0") == xids.bus("0000:c1:00") == "0000:c1:00"
    assert xids.bus("00010000:C1:00.0") != xids.bus("0000:c1:00")


@pytest.mark.parametrize(
    ("xid", "state"),
    [
        *((number, "ok") for number in (13, 31, 43, 45, 68, 109, 63, 94)),
        *((number, "fault") for number in (48, 62, 64, 74, 79, 95, 119, 120, 140)),
        *((number, "warning") for number in (1, 32, 143, 4711)),
    ],
)
def test_what_a_number_means(xid, state):
    assert xids.severity(Event("0000:c1:00", xid, "")) == state


@pytest.mark.parametrize(
    ("to", "state"),
    [("0x1 (GPU Reset Required)", "fault"), ("0x2 (Node Reboot Required)", "fault"), ("0x0 (None)", "ok"), ("?", "fault")],
)
def test_the_drivers_own_word_for_what_is_to_be_done(to, state):
    assert xids.severity(Event("0000:c1:00", 154, ACTION % to)) == state


def test_the_lists_are_settings():
    assert xids.severity(Event("0000:c1:00", 143, ""), faults=[143]) == "fault"
    assert xids.severity(Event("0000:c1:00", 79, ""), faults=[], ignored=[79]) == "ok"
    assert xids.severity(Event("0000:c1:00", 154, ""), faults=[], ignored=[154]) == "ok"


def test_no_number_is_in_both():
    assert not set(xids.FAULTS) & set(xids.IGNORED)
