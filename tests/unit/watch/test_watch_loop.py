# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher's service on a node: the labels that it reports, and the time of each report."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time

import checkout
import pytest
from docker_daemon import Daemon
from watcher_lab import KEY, LIMIT_S, OTHER, PCI, T4, UUID, XID_79, WatchedNode

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import pace, verdict
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch import watch_loop

L4 = f"[gpu 1]\nname = NVIDIA L4\nuuid = {OTHER}\n"
NO_GPU = ""
NO_DRIVER = "init = driver-not-loaded\n"
MISMATCH = "init = version-mismatch\n"
FAILED = T4 + "fault = lost\n"
LOST = f"fault {UUID} reason=lost"
XID = f"fault {UUID} reason=xid xid=79"
READING_S = verdict.SLOW_S  # how long a read waits for NVML at most


@pytest.fixture
def node(tmp_path, monkeypatch):
    it = WatchedNode(tmp_path, monkeypatch)
    yield it
    it.close()


def faults(node):
    """Return the written labels, without the text after the reason."""
    return [label.partition(" since=")[0] for label in node.written]


# -- when a label is written ---------------------------------------------------------------------------------------------


def test_nothing_is_written_while_all_is_well(node):
    assert node.step(10) == pace.CONFIRM_S + 9 * pace.POLL_S
    assert node.written == []
    assert node.status["label"] == "ok"


def test_a_fault_is_written_after_two_reads_and_once(node):
    node.step(3)
    node.set_nvml(NO_GPU)
    assert node.step() == pace.CONFIRM_S
    assert node.written == []
    assert node.step() == pace.POLL_S
    assert node.written == [f"{LOST} since=1024 pci={PCI} serial=1322"]
    node.step(15)
    assert len(node.written) == 1


def test_a_single_read_that_differs_is_nothing(node):
    node.step(3)
    for text in (NO_GPU, T4) * 5:
        node.set_nvml(text)
        node.step()
    assert node.written == []


def test_the_end_of_a_fault_waits_for_two_minutes(node):
    node.step(3)
    node.set_nvml(NO_GPU)
    node.step(2)
    reported = node.clock.now - pace.POLL_S
    node.set_nvml(T4)
    while len(node.written) < 2:
        node.step()
        assert node.clock.now < reported + 240
    assert node.written[1] == "ok"
    assert 120 <= node.clock.now - pace.POLL_S - reported < 120 + pace.POLL_S


def test_a_fault_of_another_card_waits_for_one_minute(node):
    node.advertise(UUID, OTHER)
    node.write_daemon_json("ok")
    node.set_nvml(T4 + L4)
    node.step(3)
    node.set_nvml(L4)
    node.step(2)
    reported = node.clock.now - pace.POLL_S
    node.set_nvml(NO_GPU)
    while len(node.written) < 2:
        node.step()
        assert node.clock.now < reported + 120
    assert " cards=2 " in node.written[1]
    assert 60 <= node.clock.now - pace.POLL_S - reported < 60 + pace.POLL_S


def test_where_the_label_cannot_be_written_that_is_in_the_status_and_tried_again(node):
    node.step(3)
    node.set_nvml(NO_GPU)
    node.answer(blocked="somebody edits it")
    node.step(2)
    assert len(node.written) == 1
    node.step(4)
    assert len(node.written) == 3  # a fault is tried again after 20 s
    assert (node.status["blocked"], node.status["label"].split()[0]) == ("somebody edits it", "fault")
    node.answer()
    node.step(3)
    assert (node.status["blocked"], len(node.written)) == (None, 4)


def test_a_label_that_is_no_fault_is_tried_again_after_a_minute(node):
    node.write_daemon_json("unwatched")
    node.answer(blocked="somebody edits it")
    assert node.step(12) == pace.CONFIRM_S + 11 * pace.POLL_S
    assert node.written == ["ok", "ok"]


def test_what_waits_for_tasks_is_in_the_status_and_a_new_fault_does_not_wait_for_it(node):
    node.step(3)
    node.set_nvml(NO_GPU)
    node.step(2)
    node.set_nvml(T4)
    node.answer(waits="tasks run here (train)")
    node.step(50)
    assert node.written[1:] == ["ok", "ok"]  # each attempt starts a process
    assert node.status["waits"] == "tasks run here (train)"
    node.set_nvml(NO_DRIVER)
    node.answer()
    node.step(2)
    assert faults(node)[-1] == "fault reason=driver"
    assert node.status["waits"] is None


@pytest.mark.parametrize(("text", "reason"), [(NO_GPU, "lost"), (None, "hang"), (MISMATCH, "mismatch")])
def test_a_fault_that_comes_again_is_another_one_though_the_managers_never_saw_its_end(node, text, reason):
    """The report of the end waits for tasks that do not end. A person who returned the node to service knows only the first fault."""
    node.step(3)

    def fail():
        node.set_nvml(text) if text is not None else node.hang_nvml()
        began = node.clock.now
        while f"reason={reason}" not in node.status["label"]:
            node.step()
            assert node.clock.now < began + 60

    fail()
    node.mend_nvml()
    node.answer(waits="tasks run here (train)")
    node.step(15)
    assert node.status["label"] == "ok"
    node.answer()
    fail()
    node.step(15)
    first, again = (label for label in node.written if label.startswith("fault"))
    assert first.split(" since")[0] == again.split(" since")[0]
    assert first != again
    assert node.written[-1] == again


def test_a_watcher_that_is_started_anew_goes_on_with_the_fault_that_it_finds(node):
    node.write_daemon_json(f"{LOST} since=5")
    node.set_nvml(NO_GPU)
    node.start()
    node.step(15)
    assert node.written == []


def test_a_label_that_somebody_else_put_there_is_written_anew(node):
    node.step(3)
    node.set_nvml(NO_GPU)
    node.step(3)
    node.write_daemon_json("ok", debug=True)
    node.step()
    assert faults(node) == [LOST, LOST]


def test_that_nobody_watches_is_corrected_at_once(node):
    """For example, a person ran the command that systemd runs after the service."""
    node.write_daemon_json("unwatched")
    node.step(2)
    node.write_daemon_json("unwatched")
    node.step()
    assert node.written == ["ok", "ok"]


@pytest.mark.parametrize("broken", ["", "[]", '{"labels": 1}', '{"labels": [1]}', '{"labels": ["rack=r1"]}', None])
def test_without_a_label_in_daemon_json_it_is_written_at_once(node, broken):
    (node.state / "record.json").unlink()
    node.daemon_config.unlink()
    if broken is not None:
        node.daemon_config.write_text(broken)
    node.start()
    node.step(2)
    assert node.written == ["ok"]


def test_files_that_somebody_changed_are_reported_and_again_once_they_are_as_before(node):
    node.step(3)
    node.resources = []
    node.write_daemon_json("ok")
    node.step(2)
    (label,) = node.written
    assert label.startswith("ok drift=")
    node.advertise(UUID)
    node.write_daemon_json(label)
    node.step(13)
    assert node.written == [label, "ok"]


# -- the model and the place of a card -----------------------------------------------------------------------------------


def test_without_labels_of_the_node_the_model_is_reported_and_stays_when_a_card_is_lost(node):
    node.settings["model"] = True
    node.start()
    node.step(15)
    assert node.written == ["ok model=Tesla-T4"]
    node.set_nvml(NO_GPU)
    node.step(15)
    assert faults(node)[1:] == [LOST]  # the fault and its start are unchanged
    assert node.written[1].endswith(" model=Tesla-T4")


def test_cards_of_two_models_stay_such_when_one_of_them_is_lost(node):
    node.settings["model"] = True
    node.advertise(UUID, OTHER)
    node.write_daemon_json("ok")
    node.set_nvml(T4 + L4)
    node.start()
    node.step(3)
    assert node.written == ["ok model=mixed"]
    node.set_nvml(T4)
    node.step(3)
    assert node.written[1].endswith(" model=mixed")


def test_a_card_that_is_lost_is_reported_with_where_it_is(node):
    """The place was read earlier, by this service or by the former service. While the card works, the place is not written into the label."""
    node.step(3)
    record = node.state / "cards.json"
    (card,) = json.loads(record.read_text())["cards"]
    assert (card["uuid"], card["pci_bus_id"], card["serial"]) == (UUID, PCI, "1322")
    node.set_nvml(FAILED)
    node.start()
    node.step(3)
    (label,) = node.written
    assert label.startswith(f"{LOST} since=")
    assert label.endswith(f" pci={PCI} serial=1322")
    assert json.loads(record.read_text())["cards"] == [card]
    node.advertise()  # somebody has consented to the loss of the card
    node.write_daemon_json(label)
    node.step(15)
    (warning,) = node.written[1:]
    assert warning.startswith(f"warning {UUID} reason=failed since=")
    assert warning.endswith(f" pci={PCI} serial=1322")


# -- what the cards are doing --------------------------------------------------------------------------------------------


def cards_now(node):
    return json.loads((node.root / "run" / "gpu-swarm" / "cards.json").read_text())


def test_each_inspection_writes_what_the_cards_are_doing(node):
    node.step()
    (card,) = cards_now(node)["cards"]
    assert (card["uuid"], card["temperature_c"], card["utilisation_percent"], card["throttle"]) == (UUID, 34, 0, [])
    node.set_nvml(T4 + "temperature = 90\nutilisation = 99\nthrottle = hw-thermal\n")
    node.step()
    (card,) = cards_now(node)["cards"]
    assert (card["temperature_c"], card["utilisation_percent"], card["throttle"]) == (90, 99, ["hw_thermal"])


def test_while_no_card_can_be_read_none_is_listed_and_a_slow_driver_changes_nothing(node):
    node.step()
    before = cards_now(node)
    node.stop_nvml()
    node.step()
    assert cards_now(node) == before
    node.go_on()
    node.set_nvml(NO_DRIVER)
    node.step(2)
    assert (cards_now(node)["cards"], cards_now(node)["at"] > before["at"]) == ([], True)


def test_a_card_that_reports_nothing_has_no_fault(node):
    functions = ("TemperatureV", "Temperature", "PowerUsage", "UtilizationRates", "ClockInfo")
    node.set_nvml(T4 + "".join(f"fault = nvmlDeviceGet{name}:unknown\n" for name in functions))
    node.step(3)
    (card,) = cards_now(node)["cards"]
    assert (card["temperature_c"], card["utilisation_percent"], card["sm_clock_mhz"]) == (None, None, None)
    assert (node.status["label"], node.written) == ("ok", [])


def test_the_metrics_for_node_exporter_are_written_too(node):
    folder = node.root / "textfile"
    folder.mkdir()
    node.settings["textfile"] = str(folder)
    node.start()
    node.step()
    assert f'gpu_swarm_card_temperature_celsius{{UUID="{UUID}"}} 34' in (folder / "gpu-swarm-cards.prom").read_text()


# -- errors that the driver logs -----------------------------------------------------------------------------------------


def test_an_error_that_the_driver_logs(node):
    node.step(3)
    node.log(XID_79)
    node.step(2)
    assert faults(node) == [XID]


def test_an_error_that_nvml_reports_and_the_log_too(node, capsys):
    """Both reports are one fault. The log has more details, so the watcher prints the error again with the text of the log."""
    text, said = [T4], []

    def fail():
        text.append("xid = 79\n")
        node.set_nvml("".join(text))

    node.step(3)
    node.clock.meanwhile = fail
    assert node.step() == 0  # the error ends the wait
    node.step(2)
    assert faults(node) == [XID]
    said.append(capsys.readouterr().out)
    node.log(XID_79)
    node.step(13)
    said.append(capsys.readouterr().out)
    node.clock.meanwhile = fail
    node.step(2)
    said.append(capsys.readouterr().out)
    assert [output.count("XID 79") for output in said] == [1, 1, 0]
    assert "fallen off the bus" in said[1]
    assert faults(node) == [XID]


@pytest.mark.parametrize(
    ("line", "at_once"),
    [
        ("6,1,1,-;docker0: port 1 entered blocking state", False),
        ("3,1,1,-;NVRM: Xid (PCI:0000:c1:00): 79, lost", True),
        ("3,1,1,-;NVRM: Xid (PCI:0000:c1:00): 13, an application's own", False),  # such errors occur in thousands
        ("3,1,1,-;NVRM: Xid (PCI:0000:c1:00): 4711, a new one", True),
    ],
)
def test_only_an_error_of_the_driver_is_looked_at_before_its_time(node, line, at_once):
    node.step(2)
    node.clock.meanwhile = lambda: node.log(line)
    assert node.step() == (0 if at_once else pace.POLL_S)


def test_an_error_that_the_driver_logs_while_it_does_not_answer(node):
    """For example, a card has fallen off the bus."""
    node.step(3)
    node.stop_nvml()
    node.log(XID_79)
    node.step(2)
    assert faults(node) == [XID]


def test_a_full_disk_ends_nothing_and_is_said_once_for_each_file(node, capsys):
    node.step(3)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        node.log(XID_79)
        node.step(15)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert faults(node) == [XID]
    assert not node.status_file.exists()
    said = capsys.readouterr().out
    assert said.count("File too large") == 3
    assert [said.count(name) for name in (str(node.status_file), "/run/gpu-swarm/cards.json", "events.json")] == [1, 1, 1]
    node.step(2)
    assert node.status["label"].startswith(XID)
    assert len(node.written) == 1
    assert json.loads((node.home / "events.json").read_text())["events"][0]["xid"] == 79


# -- conditions that are faults ------------------------------------------------------------------------------------------


def test_what_the_driver_requires_is_a_fault(node):
    node.set_nvml(T4 + "recovery-action = gpu-reset\n")
    node.step(2)
    assert faults(node) == [f"fault {UUID} reason=reset"]


def test_reasons_are_in_the_status(node):
    node.set_nvml(T4 + "compute = 8.0\necc = on\nremapped-failure = yes\n")
    node.step(2)
    assert node.status["reasons"] == [f"{UUID}: a memory row could not be remapped: the card must be replaced"]


@pytest.mark.parametrize(("uptime", "writes"), [(20, []), (900, ["fault reason=driver"])])
def test_after_a_boot_the_driver_has_time_to_be_loaded(node, uptime, writes):
    node.set_nvml(NO_DRIVER)
    node.set_uptime(uptime)
    node.step(5)
    assert faults(node) == writes


@pytest.mark.parametrize(("uptime", "writes"), [(20, []), (900, ["fault reason=uvm"])])
def test_cuda_needs_a_device_that_nvml_does_not_need(node, uptime, writes):
    """After a reboot nvidia-smi works, but every CUDA task fails. The device may be created as late as the driver may be loaded."""
    node.step(3)
    node.set_uvm(has_device=False)
    node.set_uptime(uptime)
    node.step(5)
    assert faults(node) == writes
    if writes:
        assert node.status["reasons"] == ["the device /dev/nvidia-uvm does not exist"]
        node.set_uvm(has_device=True)
        node.step(15)
        assert node.written[-1] == "ok"


def test_what_keeps_the_driver_from_being_read_comes_before_the_device(node):
    node.step(3)
    node.set_uvm(has_device=False)
    node.set_nvml(NO_DRIVER)
    node.step(2)
    assert faults(node) == ["fault reason=driver"]


@pytest.mark.parametrize(("uptime", "is_known", "writes"), [(20, False, []), (20, True, [LOST]), (900, False, [LOST])])
def test_after_a_boot_mig_devices_have_time_to_be_made_and_a_card_that_was_there_is_lost(node, uptime, is_known, writes):
    node.set_uptime(uptime)
    if is_known:
        node.step(2)
    node.set_nvml(NO_GPU)
    node.step(5)
    assert faults(node) == writes


def test_a_toolkit_that_gives_no_container_its_gpus_is_a_fault_with_its_words(node):
    node.install_toolkit()
    node.step(3)
    assert node.tried() == 1
    node.install_toolkit(works=False)
    node.step(8)
    assert faults(node) == ["fault reason=toolkit"]
    (reason,) = node.status["reasons"]
    assert reason.endswith("nvidia-container-cli info' ends with 1: load library failed")
    node.install_toolkit()
    node.step(15)
    assert node.written[-1] == "ok"


@pytest.mark.parametrize("text", [NO_GPU, FAILED, NO_DRIVER])
def test_the_toolkit_is_not_tried_where_the_readings_say_more(node, text):
    node.install_toolkit(works=False)
    node.set_nvml(text)
    node.step(8)
    assert node.tried() == 0


# -- a driver that answers late or never ---------------------------------------------------------------------------------


def test_a_reading_that_takes_long_is_reported_and_one_that_takes_too_long_at_once(node):
    node.step(3)
    node.hang_nvml()
    asked = node.clock.now
    assert node.step(2) == READING_S + 2 * pace.CONFIRM_S
    assert faults(node) == ["warning reason=slow"]
    while node.status["label"].startswith("warning"):
        assert node.status["reasons"] == ["NVML has given no answer for 10 s"]
        node.step()
        assert node.clock.now < asked + 60
    assert node.written[1:] == [f"fault reason=hang since={asked + 20:.0f}"]
    assert node.status["reasons"] == ["NVML gave no answer within 20 s"]


def test_one_that_another_watcher_holds_up_takes_two_readings(node):
    """A child of the former service may not have ended yet."""
    with open(node.home / "reader.lock", "w", encoding="ascii") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        node.step()
        assert node.written == []
        node.step()
        assert faults(node) == ["fault reason=hang"]


def test_a_fault_stands_while_nothing_is_known(node):
    node.step(3)
    node.set_nvml(NO_GPU)
    node.step(2)
    for _time in range(5):
        node.stop_nvml()
        node.step(3)
        node.go_on()
        node.step(3)
    assert faults(node) == [LOST]


def test_a_driver_that_is_always_slow_is_a_warning_that_stays(node):
    node.step(3)
    for _time in range(6):
        node.stop_nvml()
        node.step()
        node.go_on()
        node.step()
    assert faults(node) == ["warning reason=slow"]
    node.step(15)
    assert node.written[-1] == "ok"


def test_after_a_boot_a_driver_that_starts_its_cards_is_not_reported(node):
    node.set_uptime(20)
    node.hang_nvml()
    node.step(20)
    assert not node.status_file.exists()
    node.mend_nvml()
    node.start()
    node.step(3)
    assert node.written == []


def test_while_an_answer_is_to_come_it_is_looked_for_soon(node):
    assert node.step(3) == pace.CONFIRM_S + 2 * pace.POLL_S
    node.stop_nvml()
    assert [node.step() for _time in range(3)] == [READING_S + pace.CONFIRM_S, pace.CONFIRM_S, pace.CONFIRM_S]


def test_while_a_fault_stands_the_child_is_renewed_each_minute(node):
    node.step()
    first = node.child()
    node.step(10)
    assert node.child() == first
    node.set_nvml(NO_GPU)
    node.step(2)
    renewed = [node.clock.now]
    while len(renewed) < 3:
        before = node.child()
        node.step()
        if node.child() != before:
            renewed.append(node.clock.now)
        assert node.clock.now < renewed[-1] + 120
    assert renewed[2] - renewed[1] == 60 + pace.POLL_S


def test_a_child_that_still_has_to_answer_is_not_renewed(node):
    """Otherwise, a driver that hangs during a fault would be found later."""
    node.step(3)
    node.set_nvml(NO_GPU)
    while node.clock.now < 1050:
        node.step()
    asked = node.clock.now
    node.stop_nvml()
    node.step(6)
    assert node.status["label"] == f"fault reason=hang since={asked + 20:.0f}"


# -- the whole program ---------------------------------------------------------------------------------------------------


def await_file(path):
    deadline = time.monotonic() + LIMIT_S
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


# The watcher of this checkout, with this test's root directory.
PROGRAM = f"""
import json, os, sys
sys.path.insert(0, {checkout.SUPPORT!r})
import checkout
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch import commands
if sys.argv[1] == "watch":
    from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch.watch_loop import Service
    home = os.path.dirname(sys.argv[0])
    Service(home, json.load(open(home + "/settings.json")), sys.argv[2]).run()
else:
    commands.main()
"""
SYSTEMCTL = f"""\
#!/bin/sh
case "$1" in
    show) printf 'LoadState=loaded\\nActiveState=active\\nSubState=running\\nJob=0\\nNRestarts=0\\nMainPID={os.getpid()}\\n' ;;
    kill) cp "$(dirname "$0")/../state/daemon.json" "$(dirname "$0")/../loaded.json" ;;
    is-system-running) echo running ;;
esac
"""


@pytest.fixture
def program(node):
    """Return the command that starts the whole program of the watcher on the node."""
    node.program.write_text(PROGRAM)
    (node.home / "settings.json").write_text(json.dumps(node.settings))
    node.write_program("bin/systemctl", SYSTEMCTL)
    return [sys.executable, "-I", str(node.program)]


def test_of_two_watchers_one_runs(node, program):
    """For example, a person starts a second watcher. A child of the first watcher may still run later, but does not block a new watcher."""
    first = watch_loop.lock_node(str(node.home))
    second = subprocess.run([*program, "watch", str(node.root)], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert second.returncode == 1
    assert second.stderr.startswith("another watcher of the GPUs already runs on this node")
    assert not node.status_file.exists()
    node.step()
    assert node.child()
    os.close(first)
    os.close(watch_loop.lock_node(str(node.home)))


def test_the_managers_see_the_label_and_at_the_end_that_nobody_watches(node, program):
    loaded = node.root / "loaded.json"
    loaded.write_text(node.daemon_config.read_text())
    node.record_daemon_json()
    node.step(2)
    daemon = Daemon(node.settings["docker_socket"])
    daemon.answers = {
        "/info": lambda: {"ServerVersion": "28.3.3", "Labels": json.loads(loaded.read_text())["labels"]},
        "/containers/json": [],
    }
    try:
        node.set_nvml(NO_GPU)
        node.step(2)
        label = f"{LOST} since=1014 pci={PCI} serial=1322"
        assert json.loads(loaded.read_text())["labels"] == [KEY + label]
        assert (node.status["label"], node.status["blocked"]) == (label, None)
        stopped = subprocess.run([*program, "stopped"], capture_output=True, text=True, check=True)
        assert json.loads(stopped.stdout) == {"waits": None, "blocked": None}
        assert json.loads(loaded.read_text())["labels"] == [KEY + "unwatched"]
    finally:
        daemon.close()


def test_systemd_ends_the_service_and_with_it_a_child_that_hangs(node, program):
    node.write_daemon_json("warning reason=slow since=5")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(node.root / "notify"))
        systemd.settimeout(LIMIT_S)
        service = subprocess.Popen([*program, "watch", str(node.root)], env={**os.environ, "NOTIFY_SOCKET": str(node.root / "notify")})
        try:
            assert systemd.recv(100) == b"READY=1"
            assert (node.status["label"], node.status["pid"]) == ("warning reason=slow since=5", service.pid)
            assert systemd.recv(100) == b"WATCHDOG=1"  # the watcher waits for the child's first answer
            await_file(node.state / "cards.json")  # the watcher waits for the next inspection
            os.kill(node.child(service.pid), signal.SIGSTOP)
            service.send_signal(signal.SIGTERM)
            assert service.wait(LIMIT_S) == 0
            with open(node.home / "reader.lock", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the child has ended
        finally:
            service.kill()
            service.wait()
