# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import pace, verdict
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import Label

A, B, C = (f"GPU-0000000{index}-1111-2222-3333-444444444444" for index in range(3))
MIG = "MIG-00000000-1111-2222-3333-444444444444"


def gpu(uuid, state="ok", mig=(), action="none"):
    return {"uuid": uuid, "pci": "00000000:C1:00.0", "state": state, "reasons": [], "action": action, "mig": list(mig)}


def reading(*gpus, error=None):
    return {"error": error, "text": None, "gpus": list(gpus)}


def event(uuid, xid, state="fault"):
    return {"uuid": uuid, "xid": xid, "state": state}


CASES = {
    "all well": (reading(gpu(A), gpu(B)), [A, B], [], Label("ok")),
    "a lost card": (reading(gpu(A)), [A, B], [], Label("fault", B, "lost")),
    "a lost card with an XID": (reading(gpu(A)), [A, B], [event(B, 79)], Label("fault", B, "lost", 79)),
    "two lost cards": (reading(gpu(C)), [A, B, C], [], Label("fault", A, "lost", None, 2)),
    "a card that failed": (reading(gpu(A, "failed"), gpu(B)), [A, B], [], Label("fault", A, "failed")),
    "a failed card that is not advertised": (reading(gpu(A, "failed"), gpu(B)), [B], [], Label("warning", A, "failed")),
    "a card without a UUID": (reading(gpu(None, "failed"), gpu(B)), [A, B], [], Label("fault", A, "lost")),
    "a degraded card": (reading(gpu(A, "warning")), [A], [], Label("warning", A, "degraded")),
    "a fault before a warning": (reading(gpu(A, "warning"), gpu(B, "failed")), [A, B], [], Label("fault", B, "failed")),
    "a card that the driver wants reset": (reading(gpu(A, "warning", action="gpu_reset"), gpu(B)), [A, B], [], Label("fault", A, "reset")),
    "the driver wants a reset of the bus": (reading(gpu(A, "warning", action="bus_reset")), [A], [], Label("fault", A, "reset")),
    "the driver wants a reboot": (reading(gpu(A, "warning", action="node_reboot")), [A], [], Label("fault", A, "reboot")),
    "the driver wants a drain": (reading(gpu(A, "warning", action="drain_and_reset")), [A], [], Label("fault", A, "drain")),
    "the driver wants a drain of peers": (reading(gpu(A, "warning", action="drain_p2p")), [A], [], Label("fault", A, "drain")),
    "a reset of a card that is not advertised": (reading(gpu(A, "warning", action="gpu_reset"), gpu(B)), [B], [], Label("warning", A, "reset")),
    "an action for another component": (reading(gpu(A, "warning", action="recover_imex_domain")), [A], [], Label("warning", A, "degraded")),
    "an unknown action": (reading(gpu(A, "warning", action="unknown")), [A], [], Label("warning", A, "degraded")),
    "a driver without actions": (reading(gpu(A, action=None)), [A], [], Label("ok")),
    "an XID": (reading(gpu(A), gpu(B)), [A, B], [event(B, 95)], Label("fault", B, "xid", 95)),
    "an XID without a known meaning": (reading(gpu(A)), [A], [event(A, 4711, "warning")], Label("warning", A, "xid", 4711)),
    "an XID of a card that is not advertised": (reading(gpu(A), gpu(B)), [A], [event(B, 95)], Label("warning", B, "xid", 95)),
    "an XID of a removed card": (reading(gpu(A)), [A], [event(C, 95)], Label("ok")),
    "a lost MIG device": (reading(gpu(A)), [MIG], [], Label("fault", MIG, "lost")),
    "a card with MIG devices that failed": (reading(gpu(A, "failed", [MIG])), [MIG], [], Label("fault", A, "failed")),
    "a driver that cannot be read": (reading(error="mismatch"), [A], [], Label("fault", None, "mismatch")),
    "a driver that hangs": (reading(error="hang"), [A], [], Label("fault", None, "hang")),
    "a driver that has not answered yet": (reading(error="slow"), [A], [], Label("warning", None, "slow")),
    "a slow driver and XIDs": (reading(gpu(A), gpu(B), error="slow"), [A], [event(B, 95), event(A, 79)], Label("fault", A, "xid", 79)),
    "a slow driver and an XID of a card with MIG": (reading(gpu(A, mig=[MIG]), error="slow"), [MIG], [event(A, 79)], Label("fault", A, "xid", 79)),
    "a driver that answered late": ({**reading(gpu(A)), "slow": True}, [A], [], Label("warning", None, "slow")),
    "a late answer with a degraded card": ({**reading(gpu(A, "warning")), "slow": True}, [A], [], Label("warning", None, "slow")),
    "a late answer with a lost card": ({**reading(gpu(A)), "slow": True}, [A, B], [], Label("fault", B, "lost")),
    "no binding": (reading(error="binding"), [A], [], Label("warning", None, "binding")),
    "no advertised GPUs": (reading(gpu(A)), [], [], Label("ok")),
}


@pytest.mark.parametrize("case", CASES)
def test_a_reading_has_this_verdict(case):
    read, expected, events, found = CASES[case]
    assert verdict.assess_health(read, expected, events) == found


def test_advertised_gpus_are_on_record():
    assert verdict.advertised_uuids({"resources": [f"NVIDIA-GPU={A}", f"MIG-1g.10gb={MIG}", "SSD=1", "VRAM=8000"], "gpus": [A, B]}) == [A, MIG, B]
    assert verdict.advertised_uuids({"resources": [f"NVIDIA-SLOT={B}.slot1", f"NVIDIA-SLOT={B}.slot2"]}) == [B]
    assert verdict.advertised_uuids({"resources": [f"NVIDIA-GROUP={B}+{A}"]}) == [B, A]
    assert verdict.advertised_uuids({}) == []


OK, LOST = Label("ok"), Label("fault", A, "lost")


def test_a_verdict_counts_once_two_reads_agree():
    settled = pace.settle(pace.settle(pace.Settled(), OK), OK)
    assert (settled.verdict, settled.wait_s) == (OK, pace.POLL_S)
    settled = pace.settle(settled, LOST)
    assert (settled.verdict, settled.wait_s) == (OK, pace.CONFIRM_S)
    assert pace.settle(settled, OK).verdict == OK
    assert pace.settle(settled, LOST).verdict == LOST


def test_a_fault_has_its_start_time():
    shown = pace.wanted_label(LOST, OK, None, 1000.4)
    assert shown == Label("fault", A, "lost", since=1000)
    assert pace.wanted_label(LOST, shown, None, 2000) == shown
    assert pace.wanted_label(LOST, shown, "1f2e3d4c", 2000) == shown._replace(drift="1f2e3d4c")
    assert pace.wanted_label(LOST._replace(card=B), shown, None, 2000).since == 2000
    assert pace.wanted_label(OK, shown, None, 2000) == OK


@pytest.mark.parametrize(
    ("shown", "label", "since_write", "due"),
    [
        (OK, OK, None, False),
        (OK, OK, 1000, False),
        (None, OK, None, True),
        (Label("unwatched"), OK, 1, True),
        (Label("unknown"), OK, 1, True),
        (OK, LOST, 1, True),
        (Label("warning", A, "degraded"), LOST, 1, True),
        (LOST, OK, 119, False),
        (LOST, OK, 120, True),
        (LOST, LOST._replace(card=B), 59, False),
        (LOST, LOST._replace(card=B), 60, True),
        (LOST, LOST._replace(cards=2), 60, True),
        (LOST, LOST._replace(card=None, reason="mismatch"), 60, True),
        (LOST, LOST._replace(since=2000), 119, False),  # the same fault again
        (LOST._replace(cards=2), LOST, 119, False),
        (LOST._replace(card=B), Label("warning", A, "degraded"), 119, False),
        (OK, Label("ok", drift="1f2e3d4c"), 1, False),
        (OK, Label("ok", drift="1f2e3d4c"), None, True),
        (OK, Label("warning", A, "degraded"), 60, False),
    ],
)
def test_a_label_is_written_at_these_times(shown, label, since_write, due):
    assert pace.is_due(shown, label, since_write) is due


def test_a_card_that_comes_and_goes_is_written_once_a_minute_at_most():
    writes, shown, last = 0, OK, None
    for second in range(0, 3600, 2):
        label = OK if second % 4 else LOST
        if pace.is_due(shown, label, None if last is None else second - last):
            writes, shown, last = writes + 1, label, second
    assert writes <= 60


def test_two_cards_that_come_and_go_in_turn_are_written_once_a_minute_at_most():
    writes, shown, last = 0, OK, None
    for second in range(0, 3600, 2):
        label = LOST._replace(card=A if second % 4 else B)
        if pace.is_due(shown, label, None if last is None else second - last):
            writes, shown, last = writes + 1, label, second
    assert 50 <= writes <= 60


def test_errors_end_with_the_boot():
    events = pace.add_event([], A, 79, "fault")
    events = pace.add_event(events, A, 79, "fault")
    assert events == [event(A, 79)]
    assert pace.events_of_boot({"boot": "one", "events": events}, "one") == events
    assert pace.events_of_boot({"boot": "one", "events": events}, "another") == []
    assert pace.events_of_boot({}, "one") == []
