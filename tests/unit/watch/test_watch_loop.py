# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher's service: what it reports of what it reads, and when."""

from __future__ import annotations

import errno
import json
import os

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _replace
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import pace, xids
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine.uvm import UvmState
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch import gpu_errors, reader, watch_loop

UUID = "GPU-00000000-1111-2222-3333-444444444444"
CARD = {"index": 0, "uuid": UUID, "name": "Tesla T4", "pci_bus_id": "00000000:C1:00.0", "serial": "1322", "slot": None, "mig": []}
GPU = {"uuid": UUID, "pci": "00000000:C1:00.0", "state": "ok", "reasons": [], "action": None, "mig": [], "card": CARD}
WELL = {"error": None, "text": None, "gpus": [GPU]}
LOST = {"error": None, "text": None, "gpus": []}
SETTINGS = {"nvml_path": "/none", "nvml_timeout": 60, "health_faults": [79], "health_ignored": [13], "health_report": "faults"}


class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now

    time = monotonic


class Node:
    """The service with readings, and with a channel, that a test sets."""

    def __init__(self, home, monkeypatch):
        self.clock, self.reading, self.blocked, self.waits, self.written, self.uptime = Clock(), WELL, None, None, [], 9999.0
        self.status = home / "status.json"
        monkeypatch.setattr(watch_loop, "STATUS", str(self.status))
        monkeypatch.setattr(watch_loop, "time", self.clock)
        monkeypatch.setattr(watch_loop, "_uptime", lambda: self.uptime)
        self.uvm = UvmState(511, 511)
        monkeypatch.setattr(watch_loop.uvm, "read_uvm", lambda: self.uvm)
        monkeypatch.setattr(gpu_errors, "LOG", str(home / "none"))
        (home / "health").mkdir()
        daemon = home / "daemon.json"
        daemon.write_text('{"labels": ["fleet.gpu-swarm.health=ok"]}')
        settings = {**SETTINGS, "daemon_config": str(daemon), "runtime_config": str(home / "config.toml")}
        entry = {"written": None, "ours": {"resources": [f"NVIDIA-GPU={UUID}"]}}
        (home / "record.json").write_text(json.dumps({"files": {"another": entry}}))
        self.it = watch_loop.Service(str(home / "health"), settings)
        self.it._written.read = lambda: self.it._written
        self.it._written.expected = [UUID]
        self.it._starts.look = lambda noted: None
        self.it._reader.read = lambda patient: self.reading
        self.errors = []
        self.it._reader.events = lambda: [self.errors.pop() for _one in list(self.errors)]
        self.it._write = self.write
        self.toolkit, self.tried = None, []
        self.it._toolkit.problem = lambda uuids: self.tried.append(uuids) or self.toolkit

    def write(self, label):
        self.written.append(label)
        return {"blocked": self.blocked, "waits": self.waits}

    def inspect(self, times=1):
        for _time in range(times):
            self.it._inspect()
            self.clock.now += self.it._settled.wait_s
        return self.written


@pytest.fixture
def node(tmp_path, monkeypatch):
    return Node(tmp_path, monkeypatch)


def test_of_two_watchers_one_runs(node, monkeypatch):
    """The second one is started by hand, say. What reads NVML for the first, and may outlast it, does not take its place."""
    home = node.it._home
    first = watch_loop.lock_node(home)
    with pytest.raises(SystemExit, match="another watcher of the GPUs already runs on this node"):
        node.it.run()
    assert not node.status.exists()
    monkeypatch.setattr(reader, "_reading", lambda *_given: (WELL, True))
    reads = reader.Reader(home, SETTINGS, lambda: None)
    assert reads.read() == WELL
    try:
        os.close(first)
        os.close(watch_loop.lock_node(home))
    finally:
        reads.end()


def test_nothing_is_written_while_all_is_well(node):
    assert node.inspect(100) == []
    assert json.loads(node.status.read_text())["label"] == "ok"


OF_T4 = {**WELL, "gpus": [{**WELL["gpus"][0], "model": "Tesla-T4"}]}


def test_without_labels_of_the_node_the_model_is_reported_and_stays_when_a_card_is_lost(node):
    node.it._settings["model"] = True
    node.reading = OF_T4
    assert node.inspect(100) == ["ok model=Tesla-T4"]
    node.reading = LOST
    node.inspect(3)
    assert node.written[1].startswith(f"fault {UUID} reason=lost since=")
    assert node.written[1].endswith(" model=Tesla-T4")
    assert len(node.inspect(100)) == 2  # the same fault, since the same time


def test_cards_of_two_models_stay_such_when_one_of_them_is_lost(node):
    node.it._settings["model"], other = True, UUID[:-1] + "5"
    node.it._written.expected = [UUID, other]
    node.reading = {**OF_T4, "gpus": [*OF_T4["gpus"], {**OF_T4["gpus"][0], "uuid": other, "model": "NVIDIA-L4"}]}
    assert node.inspect(3) == ["ok model=mixed"]
    node.reading = OF_T4
    node.inspect(3)
    assert node.written[1].endswith(" model=mixed")


def test_a_node_with_labels_reports_no_model(node):
    node.reading = OF_T4
    assert node.inspect(100) == []


def test_a_fault_is_written_after_two_reads_and_once(node):
    node.inspect(3)
    node.reading = LOST
    assert node.inspect() == []
    assert node.it._settled.wait_s == pace.CONFIRM_S
    assert len(node.inspect(100)) == 1
    assert node.written[0].startswith(f"fault {UUID} reason=lost since=")


def test_a_card_that_is_lost_is_reported_with_where_it_is(node, tmp_path):
    """As it was read before, by this service or by the one before it. Nothing is written for that while all is well."""
    blank = {**GPU, "uuid": None, "pci": None, "state": "failed", "card": {**dict.fromkeys(CARD), "index": 0, "mig": []}}
    node.inspect(3)
    assert json.loads((tmp_path / "cards.json").read_text())["cards"] == [CARD]
    node.reading = {**WELL, "gpus": [blank]}
    node.inspect(3)
    (label,) = node.written
    assert label.startswith(f"fault {UUID} reason=lost since=")
    assert label.endswith(" pci=00000000:C1:00.0 serial=1322")
    assert json.loads((tmp_path / "cards.json").read_text())["cards"] == [CARD]
    node.it._written.expected = []  # somebody has consented to do without it
    node.inspect(100)
    assert node.written[1:] == [f"warning {UUID} reason=failed since={node.it._wanted.since} pci=00000000:C1:00.0 serial=1322"]


def test_what_takes_it_away_waits(node):
    node.inspect(3)
    node.reading = LOST
    node.inspect(2)
    node.reading = WELL
    began = node.clock.now
    while len(node.written) < 2:
        node.inspect()
    assert node.written[1] == "ok"
    assert node.clock.now - began >= pace.CALM_S - pace.POLL_S


def test_a_single_read_that_differs_is_nothing(node):
    node.inspect(3)
    for reading in (LOST, WELL) * 20:
        node.reading = reading
        node.inspect()
    assert node.written == []


def test_where_the_label_cannot_be_written_that_is_in_the_status_and_tried_again(node):
    node.inspect(3)
    node.reading, node.blocked = LOST, "somebody edits it"
    node.inspect(4)
    status = json.loads(node.status.read_text())
    assert (status["blocked"], status["label"].split()[0]) == ("somebody edits it", "fault")
    node.blocked = None
    node.inspect(3)
    assert json.loads(node.status.read_text())["blocked"] is None


def test_what_waits_for_tasks_is_in_the_status_and_a_new_fault_does_not_wait_for_it(node):
    node.inspect(3)
    node.reading = LOST
    node.inspect(2)
    node.reading, node.waits = WELL, "tasks run here (train)"
    node.inspect(50)
    tries = node.written[1:]
    assert (set(tries), len(tries)) == ({"ok"}, 2)  # each takes a process
    assert json.loads(node.status.read_text())["waits"] == "tasks run here (train)"
    node.reading, node.waits = {**WELL, "error": "driver", "gpus": []}, None
    node.inspect(2)
    assert node.written[-1].startswith("fault reason=driver")
    assert json.loads(node.status.read_text())["waits"] is None


@pytest.mark.parametrize("fault", [LOST, {**LOST, "error": "hang"}, {**LOST, "error": "mismatch"}])
def test_a_fault_that_comes_again_is_another_one_though_the_managers_never_saw_its_end(node, fault):
    """Its end waits for tasks that do not end, and whoever returned the node to service knows of the first one only."""
    node.inspect(3)
    node.reading = fault
    node.inspect(2)
    node.reading, node.waits = WELL, "tasks run here (train)"
    node.inspect(50)
    node.reading, node.waits = fault, None
    node.inspect(20)
    first, again = (label for label in node.written if label.startswith("fault"))
    assert first.split(" since")[0] == again.split(" since")[0]
    assert first != again
    assert node.written[-1] == again


def test_a_watcher_that_is_started_anew_goes_on_with_the_fault_that_it_finds(node, tmp_path):
    (tmp_path / "daemon.json").write_text(json.dumps({"labels": [f"fleet.gpu-swarm.health=fault {UUID} reason=lost since=5"]}))
    node.reading = LOST
    assert node.inspect(20) == []


def test_an_error_that_the_driver_logs(node, tmp_path):
    node.inspect(3)
    node.it._log.lines = lambda: ["3,1,1,-;NVRM: Xid (PCI:0000:c1:00): 79, GPU has fallen off the bus."]
    node.inspect(2)
    assert node.written[0].startswith(f"fault {UUID} reason=xid xid=79 since=")


def test_an_error_that_nvml_reports_and_the_log_too(node, capsys):
    node.inspect(3)
    lines = ["3,1,1,-;NVRM: Xid (PCI:0000:c1:00): 79, GPU has fallen off the bus."]
    node.it._log.lines = lambda: [lines.pop() for _one in list(lines)]
    node.errors.append(xids.Event("0000:c1:00", 79, ""))
    node.inspect(20)
    assert [label.split(" since")[0] for label in node.written] == [f"fault {UUID} reason=xid xid=79"]
    assert capsys.readouterr().out.count("XID 79") == 1


def test_what_the_driver_requires_is_a_fault(node):
    node.reading = {**WELL, "gpus": [{**WELL["gpus"][0], "state": "warning", "action": "gpu_reset"}]}
    node.inspect(3)
    assert node.written[0].startswith(f"fault {UUID} reason=reset since=")


@pytest.mark.parametrize(("uptime", "writes"), [(20.0, 0), (900.0, 1)])
def test_after_a_boot_the_driver_has_time_to_be_loaded(node, uptime, writes):
    node.reading, node.uptime = {"error": "driver", "text": "NVML: Driver Not Loaded", "gpus": []}, uptime
    assert len(node.inspect(5)) == writes


@pytest.mark.parametrize(("uptime", "writes"), [(20.0, 0), (900.0, 1)])
def test_cuda_needs_a_device_that_nvml_does_not_need(node, uptime, writes):
    """After a reboot nvidia-smi works, and every task of CUDA fails. What makes the device has the time that a driver has to be loaded."""
    node.inspect(3)
    node.uvm, node.uptime = UvmState(None, 511), uptime
    assert len(node.inspect(5)) == writes
    if writes:
        assert node.written[0].startswith("fault reason=uvm since=")
        assert json.loads(node.status.read_text())["reasons"] == ["the device /dev/nvidia-uvm does not exist"]
        node.uvm = UvmState(511, 511)
        assert node.inspect(50)[-1] == "ok"


def test_a_toolkit_that_gives_no_container_its_gpus_is_a_fault_with_its_words(node):
    node.inspect(3)
    node.toolkit = "'nvidia-ctk cdi list' does not list nvidia.com/gpu=GPU-1"
    assert node.inspect(5)[0].startswith("fault reason=toolkit since=")
    assert json.loads(node.status.read_text())["reasons"] == [node.toolkit]
    assert node.tried[0] == [UUID]
    node.toolkit = None
    assert node.inspect(50)[-1] == "ok"


@pytest.mark.parametrize("reading", [LOST, {**WELL, "error": "hang", "gpus": []}])
def test_the_toolkit_is_not_tried_where_the_readings_say_more(node, reading):
    node.inspect(3)
    node.tried.clear()
    node.reading = reading
    node.inspect(5)
    assert node.tried == []


def test_what_keeps_the_driver_from_being_read_comes_before_the_device(node):
    node.inspect(3)
    node.uvm, node.reading = UvmState(None, None), {"error": "hang", "text": "NVML gave no answer within 60 s", "gpus": []}
    assert node.inspect(3)[0].startswith("fault reason=hang")


@pytest.mark.parametrize(("uptime", "seen", "writes"), [(20.0, False, 0), (20.0, True, 1), (900.0, False, 1)])
def test_after_a_boot_mig_devices_have_time_to_be_made_and_a_card_that_was_there_is_lost(node, uptime, seen, writes):
    node.uptime = uptime
    if seen:
        node.inspect(2)
    node.reading = LOST
    assert len(node.inspect(5)) == writes


def test_while_a_fault_stands_the_reader_is_renewed_each_minute(node):
    node.inspect(3)
    ends = []
    node.it._reader.end = lambda: ends.append(node.clock.now)
    node.inspect(20)
    assert ends == []
    node.reading = LOST
    node.inspect(20)
    assert 2 <= len(ends) <= 4


def test_a_full_run_and_a_full_disk_end_nothing_and_each_is_said_once(node, monkeypatch, capsys):
    def full(path, mode="r", **more):
        if "w" in mode:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return open(path, mode, **more)

    node.inspect(3)
    with monkeypatch.context() as patched:
        patched.setattr(_replace, "open", full, raising=False)
        lines = ["3,1,1,-;NVRM: Xid (PCI:0000:c1:00): 79, GPU has fallen off the bus."]
        node.it._log.lines = lambda: [lines.pop() for _one in list(lines)]
        node.inspect(20)
        assert [label.split(" since")[0] for label in node.written] == [f"fault {UUID} reason=xid xid=79"]
        assert not node.status.exists()
        assert capsys.readouterr().out.count("No space left on device") == 2
    node.inspect(2)
    assert json.loads(node.status.read_text())["label"].startswith(f"fault {UUID} reason=xid")
    assert len(node.written) == 1
    assert gpu_errors.Events(node.it._home).read()[0]["xid"] == 79


SLOW = {"error": "slow", "text": "NVML has given no answer for 10 s", "gpus": []}
HANGS = {"error": "hang", "text": "NVML gave no answer within 20 s", "gpus": [], "slow": True}


def test_a_reading_that_takes_long_is_reported_and_one_that_takes_too_long_at_once(node):
    node.inspect(3)
    node.reading = SLOW
    node.inspect(2)
    assert [label.split(" since")[0] for label in node.written] == ["warning reason=slow"]
    node.reading = HANGS
    node.inspect()
    assert node.written[-1].startswith("fault reason=hang since=")
    assert json.loads(node.status.read_text())["reasons"] == ["NVML gave no answer within 20 s"]


def test_one_that_another_watcher_holds_up_takes_two_readings(node):
    """A child of the service before may still be about to end."""
    node.inspect(3)
    node.reading = {**HANGS, "slow": False}
    assert node.inspect() == []
    assert len(node.inspect()) == 1


def test_a_fault_stands_while_nothing_is_known(node):
    node.inspect(3)
    node.reading = LOST
    node.inspect(2)
    for reading in (SLOW, LOST) * 20:
        node.reading = reading
        node.inspect(3)
    assert len(node.written) == 1


def test_an_error_that_the_driver_logs_while_it_does_not_answer(node):
    """As when a card falls off the bus."""
    node.inspect(3)
    node.reading = SLOW
    lines = ["3,1,1,-;NVRM: Xid (PCI:0000:c1:00): 79, GPU has fallen off the bus."]
    node.it._log.lines = lambda: [lines.pop() for _one in list(lines)]
    node.inspect(2)
    assert [label.split(" since")[0] for label in node.written] == [f"fault {UUID} reason=xid xid=79"]


def test_a_driver_that_is_always_slow_is_a_warning_that_stays(node):
    node.inspect(3)
    for _minute in range(10):
        for node.reading in (SLOW, {**WELL, "slow": True}):
            node.inspect()
    assert [label.split(" since")[0] for label in node.written] == ["warning reason=slow"]
    node.reading = WELL
    node.inspect(20)
    assert node.written[-1] == "ok"


def test_after_a_boot_a_driver_that_starts_its_cards_is_not_reported(node):
    node.uptime, node.reading = 20.0, SLOW
    assert node.inspect(20) == []
    node.reading = WELL
    assert node.inspect(3) == []


def test_while_an_answer_is_to_come_it_is_looked_for_soon(node, monkeypatch):
    waits = []

    def wait(seconds, handles):
        waits.append(seconds)
        node.clock.now += 60
        return handles

    monkeypatch.setattr(node.it._lifetime, "wait", wait)
    for is_to_come in (False, True):
        monkeypatch.setattr(node.it._reader, "waits", lambda is_to_come=is_to_come: is_to_come)
        node.it._rest()
    assert waits == [pace.POLL_S, pace.CONFIRM_S]


def test_reasons_are_in_the_status(node):
    failed = {**WELL["gpus"][0], "state": "failed", "reasons": ["a memory row could not be remapped"]}
    node.reading = {**WELL, "gpus": [failed]}
    node.inspect(3)
    assert json.loads(node.status.read_text())["reasons"] == [f"{UUID}: a memory row could not be remapped"]


def test_a_label_that_somebody_else_put_there_is_written_anew(node, tmp_path):
    node.inspect(3)
    node.reading = LOST
    node.inspect(3)
    (tmp_path / "daemon.json").write_text('{"labels": ["fleet.gpu-swarm.health=ok"], "debug": true}')
    node.inspect()
    assert [label.split()[0] for label in node.written] == ["fault", "fault"]


@pytest.mark.parametrize("broken", ["", "[]", '{"labels": 1}', '{"labels": [1]}', '{"labels": ["rack=r1"]}'])
def test_a_file_without_a_label(tmp_path, broken):
    path = tmp_path / "daemon.json"
    path.write_text(broken)
    assert watch_loop._in_file(str(path)) is None
    assert watch_loop._in_file(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("line", "at_once"),
    [
        ("6,1,1,-;docker0: port 1 entered blocking state", False),
        ("3,1,1,-;NVRM: Xid (PCI:0000:c1:00): 79, lost", True),
        ("3,1,1,-;NVRM: Xid (PCI:0000:c1:00): 13, an application's own", False),  # which come by the thousand
        ("3,1,1,-;NVRM: Xid (PCI:0000:c1:00): 4711, a new one", True),
    ],
)
def test_only_an_error_of_the_driver_is_looked_at_before_its_time(node, monkeypatch, line, at_once):
    waits = []

    def wait(seconds, handles):
        waits.append(seconds)
        node.clock.now += 1.0
        return handles

    monkeypatch.setattr(node.it._lifetime, "wait", wait)
    node.inspect(2)
    node.it._log.handles, node.it._log.lines = lambda: [0], lambda: [line]
    node.it._rest()
    assert len(waits) == (1 if at_once else pace.POLL_S)
