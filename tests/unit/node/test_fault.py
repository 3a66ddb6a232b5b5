# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether a node is unfit for the GPUs that it advertises. The result is a text in the form of the watcher's label."""

from __future__ import annotations

import json

import pytest
from node_lab import UUIDS, LabNode, gpu

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import nvml
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine import hardware
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import fault

HEALTH = {"state": "ok", "reasons": [], "recovery_action": None}
FAILED = {**HEALTH, "state": "failed", "reasons": ["a row could not be remapped"]}
TO_RESET = {**HEALTH, "state": "warning", "recovery_action": "gpu_reset"}


def card(index, health=None, mig=()):
    return {**gpu(index), "health": health or HEALTH, "mig_devices": [{"uuid": uuid} for uuid in mig]}


@pytest.mark.parametrize(
    ("details", "uuids", "text"),
    [
        ({"hangs": "nvml"}, UUIDS[:1], "fault reason=hang"),
        ({"unreadable": "mismatch"}, UUIDS[:1], "fault reason=mismatch"),
        ({"unreadable": "library"}, UUIDS[:1], "fault reason=library"),
        ({}, UUIDS[:1], "fault reason=driver"),
        ({"missing": ["nvml_binding"]}, UUIDS[:1], None),  # the controller sends the binding with the call
        ({"unreadable": "mismatch"}, [], None),  # the node advertises nothing
    ],
)
def test_a_driver_that_cannot_be_read(details, uuids, text):
    assert fault.fault_from_error(details, uuids, 1000.0) == text


@pytest.mark.parametrize(
    ("details", "text"),
    [({"hangs": "nvml"}, None), ({"unreadable": "library"}, None), ({}, None), ({"unreadable": "mismatch"}, "fault reason=mismatch")],
)
def test_soon_after_a_boot_a_driver_is_still_being_loaded(details, text):
    assert fault.fault_from_error(details, UUIDS[:1], 179.0) == text
    assert fault.fault_from_error(details, UUIDS[:1], 180.0)


@pytest.mark.parametrize(
    ("timeout_s", "hung", "reported", "limit_s"),
    [
        (60, False, None, 60),
        (60, False, "ok", 60),
        (60, False, "fault reason=mismatch since=5", 60),
        (60, False, "warning reason=slow since=5", 60),  # a slow driver is still read
        (60, False, "fault reason=hang since=5 drift=12345678", 10),
        (60, True, None, 10),
        (5, True, "fault reason=hang since=5", 5),
        (300, False, None, 300),
    ],
)
def test_a_driver_that_is_known_to_hang_is_not_read(timeout_s, hung, reported, limit_s):
    assert fault.nvml_limit_s(timeout_s, hung, reported) == limit_s


HANGS = {"hangs": "nvml"}


@pytest.mark.parametrize(
    ("answers", "reported", "advertises", "fate", "reads"),
    [
        ([HANGS, None], None, True, "read", 2),
        ([HANGS, HANGS], None, True, "fault reason=hang", 2),
        ([HANGS, {"unreadable": "mismatch"}], None, True, "fault reason=mismatch", 2),
        # The watcher has seen the hang twice. Each read of a hung driver leaves a process behind.
        ([HANGS], "fault reason=hang since=5 drift=12345678", True, "fault reason=hang", 1),
        ([HANGS, None], "ok", True, "read", 2),
        # No node is paused for this error.
        ([HANGS], None, False, None, 1),
        ([{"missing": ["nvml_binding"]}], None, True, None, 1),
    ],
)
def test_one_failure_is_no_fault(answers, reported, advertises, fate, reads, tmp_path, monkeypatch):
    calls, limits = [], []

    def read(limit_s, *_options):
        limits.append(limit_s)
        calls.append(answers.pop(0))
        if calls[-1] is None:
            return {"gpus": [card(0)]}
        raise GpuSwarmError("NVML failed", **calls[-1])

    monkeypatch.setattr(nvml, "read_within", read)
    monkeypatch.setattr(hardware, "uptime_s", lambda: 1000.0)
    node = LabNode(tmp_path, nvml_timeout=60, health=reported is not None)
    monkeypatch.setattr(node, "_advertised_uuids", lambda: UUIDS[:1] if advertises else [])
    if reported:
        (tmp_path / "run" / "gpu-swarm").mkdir(parents=True)
        (tmp_path / "run" / "gpu-swarm" / "health.json").write_text(json.dumps({"label": reported, "pid": 1}))
    if fate == "read":
        assert node._read_nvml(retry=True)["gpus"]
    else:
        with pytest.raises(GpuSwarmError) as failed:
            node._read_nvml(retry=True)
        assert failed.value.details["fault"] == fate
    assert len(calls) == reads
    hung = ["reason=hang" in str(reported), *(one is HANGS for one in calls)]
    assert limits == [10 if hangs else 60 for hangs in hung[:reads]]


def error(index, state="fault"):
    return {"uuid": UUIDS[index], "xid": 79, "state": state}


MIG = "MIG-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30"


@pytest.mark.parametrize(
    ("gpus", "uuids", "errors", "text"),
    [
        ([card(0)], UUIDS[:2], (), f"fault {UUIDS[1]} reason=lost"),
        ([card(2)], UUIDS[:2], (), f"fault {min(UUIDS[:2])} reason=lost cards=2"),
        ([card(0), card(1, FAILED)], UUIDS[:2], (), f"fault {UUIDS[1]} reason=failed"),
        ([card(0)], [MIG], (), f"fault {MIG} reason=lost"),
        ([card(0, mig=[MIG])], [MIG], (), None),
        ([card(0), card(1)], UUIDS[:2], (), None),
        ([card(0), card(1, FAILED)], UUIDS[:1], (), None),  # no task can run on a card that is not advertised
        ([card(0, TO_RESET)], UUIDS[:1], (), f"fault {UUIDS[0]} reason=reset"),
        # These errors are not visible in NVML. Everything else was read again.
        ([card(0)], UUIDS[:1], [error(0)], f"fault {UUIDS[0]} reason=xid xid=79"),
        ([card(0)], UUIDS[:2], [error(1)], f"fault {UUIDS[1]} reason=lost xid=79"),  # the text equals the watcher's, so both are one fault
        ([card(0)], UUIDS[:1], [error(1)], None),
        ([card(0)], UUIDS[:1], [error(0, "warning")], None),
    ],
)
def test_faults_of_cards_are_found(gpus, uuids, errors, text):
    assert fault.fault_from_gpus(gpus, uuids, errors) == text


def test_advertised_gpus_are_on_record():
    record = {"/etc/docker/daemon.json": {"ours": {"resources": [f"NVIDIA-GPU={UUIDS[0]}", "VRAM=7", "SSD=a"], "gpus": [UUIDS[1]]}}}
    assert fault.advertised_on_record(record, "/etc/docker/daemon.json") == UUIDS[:2]
    assert fault.advertised_on_record(record, "/elsewhere") == fault.advertised_on_record({}, "/etc/docker/daemon.json") == []
