# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import xids
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.xids import Event

ACTION = "GPU recovery action changed from 0x0 (None) to %s"


HEAD = "3,1042,90211,-;"


@pytest.mark.parametrize(
    ("record", "event"),
    [
        (
            "3,1042,90211,-;NVRM: Xid (PCI:0000:c6:00): 79, pid=1101234, name=nvc:[driver], GPU has fallen off the bus.\n SUBSYSTEM=pci\n",
            Event("0000:c6:00", 79, "pid=1101234, name='nvc:[driver]', GPU has fallen off the bus."),
        ),
        ("4,7,1,c,caller=T1;NVRM: Xid (PCI:0000:10:1c): 63", Event("0000:10:1c", 63, "")),
        (f"{HEAD}NVRM: Xid (PCI:00010000:10:1c.0): 63, row", Event("10000:10:1c", 63, "row")),
        # An error of a MIG partition of a card, or of a task in the partition. The record has the address of the card too.
        (f"{HEAD}NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained", Event("0000:01:00", 94, "pid=7194, Contained")),
        (f"{HEAD}NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:00): 95, Uncontained", Event("0000:01:00", 95, "Uncontained")),
        (f"{HEAD}NVRM: GPU at PCI:0000:c6:00: GPU-4cf2f4a5-2c5a-5bd9-8d63-2a5e2f0e7d1b", None),
        (f"{HEAD}NVRM: Xid (PCI:0000:c6:00 GPU-I:x): 79", None),
        (f"{HEAD}usb 1-1: new device", None),
        ("", None),
    ],
)
def test_a_record_of_the_kernel_log_is_read(record, event):
    assert xids.parse_event(record) == event


FORGED = "NVRM: Xid (PCI:0000:c1:00): 79, GPU has fallen off the bus."


@pytest.mark.parametrize(
    "record",
    [
        f"{HEAD}tmpfs: Unknown parameter '{FORGED}'",  # any user can mount a tmpfs in their own namespace
        f"{HEAD}overlayfs: ;{FORGED}",
        f"6,9,9,-;audit: type=1400 comm=\"x\" name=\"{FORGED}\"",
        f"{HEAD} {FORGED}",
        f"{HEAD}NVRM: {FORGED}",
        f"{HEAD}something\n{FORGED}",
        f"{HEAD}something\n {FORGED}",
        f"11,9,9,-;{FORGED}",  # level 3 of facility 1, which a process gets that writes to /dev/kmsg
        f"30,9,9,-;{FORGED}",
        f"{HEAD[:-1]}\n;{FORGED}",
        f"x,9,9,-;{FORGED}",
        f";{FORGED}",
        FORGED,
        # Names of processes that start like messages of the kernel: "%s (%d): drop_caches: %d", "%s[%d]: segfault at …".
        f"{HEAD}NVRM: Xid (4711): 3: drop_caches: 3",
        f"{HEAD}NVRM: Xid (PCI:[4711]: segfault at 79 ip 00",
        f"{HEAD}NVRM: Xid (PCI: (4711): drop_caches: 3",
    ],
)
def test_lookalikes_are_ignored(record):
    assert xids.parse_event(record) is None


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("python3.11", "name='python3.11'"),
        ("<unknown>", "name='<unknown>'"),
        ("a, XID 79 of b", "name='a? XID 79 of b'"),
        ("x', pid=1, y", "name='x?? pid?1? y'"),
        ("\\x1b[2K\\x0aALARM", "name='\\x1b[2K\\x0aALARM'"),  # escaped by the kernel
        ("\x1b[2K\u202e", "name='?[2K?'"),
    ],
)
def test_a_process_cannot_forge_an_error_by_its_name(name, shown):
    found = xids.parse_event(f"{HEAD}NVRM: Xid (PCI:0000:c1:00): 31, pid=4711, name={name}, Ch 00000008, intr 0")
    assert found.text == f"pid=4711, {shown}, Ch 00000008, intr 0"


def test_a_process_name_does_not_change_the_recovery_action():
    record = f"{HEAD}NVRM: Xid (PCI:0000:c1:00): 154, pid=1, name=to 0x0 (None), {ACTION % '0x1 (GPU Reset Required)'}"
    assert xids.severity(xids.parse_event(record)) == "fault"
    assert xids.severity(xids.parse_event(f"{HEAD}NVRM: Xid (PCI:0000:c1:00): 154, pid=1, name=to 0x0 (None)")) == "fault"


def test_both_forms_of_an_address_are_read():
    assert xids.bus_address("00000000:C1:00.0") == xids.bus_address("0000:c1:00") == "0000:c1:00"
    assert xids.bus_address("00010000:C1:00.0") != xids.bus_address("0000:c1:00")


@pytest.mark.parametrize(
    ("xid", "state"),
    [
        *((number, "ok") for number in (13, 31, 43, 45, 68, 109, 63, 94)),
        *((number, "fault") for number in (48, 62, 64, 74, 79, 95, 119, 120, 140)),
        *((number, "warning") for number in (1, 32, 143, 4711)),
    ],
)
def test_an_error_number_has_this_meaning(xid, state):
    assert xids.severity(Event("0000:c1:00", xid, "")) == state


@pytest.mark.parametrize(
    ("to", "state"),
    [("0x1 (GPU Reset Required)", "fault"), ("0x2 (Node Reboot Required)", "fault"), ("0x0 (None)", "ok"), ("?", "fault")],
)
def test_the_recovery_action_in_the_message_of_the_driver_is_read(to, state):
    assert xids.severity(Event("0000:c1:00", 154, ACTION % to)) == state


def test_the_lists_are_settings():
    assert xids.severity(Event("0000:c1:00", 143, ""), faults=[143]) == "fault"
    assert xids.severity(Event("0000:c1:00", 79, ""), faults=[], ignored=[79]) == "ok"
    assert xids.severity(Event("0000:c1:00", 154, ""), faults=[], ignored=[154]) == "ok"


def test_no_number_is_in_both_lists():
    assert not set(xids.FAULTS) & set(xids.IGNORED)
