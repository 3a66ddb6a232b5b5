# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process that loads NVML. It is queried repeatedly. If it hangs, the reader abandons it. Two such processes never run at once."""

from __future__ import annotations

import os
import select
import time

import nvml_lab
import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import xids
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program.clock import Clock
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch import reader

GPU = {"uuid": "GPU-00000000-1111-2222-3333-444444444444", "pci": "00000000:C1:00.0", "state": "ok", "reasons": [], "action": None, "mig": []}
WELL = {"error": None, "text": None, "gpus": [GPU]}


class ShiftedClock(Clock):
    """The reader's clock. Tests move the clock forward, so no result depends on the speed of the machine.

    While ``hangs`` exists, no answer comes, and a wait passes at once.
    """

    def __init__(self, hangs):
        self.passed, self.hangs = 0.0, hangs

    def monotonic(self):
        return time.monotonic() + self.passed

    def wait(self, seconds, handles):
        end = time.monotonic() + seconds
        while not (ready := super().wait(0.01, handles)) and time.monotonic() < end:
            if self.hangs.exists():
                self.let_pass(seconds)
                break
        return ready

    def let_pass(self, seconds):
        self.passed += seconds


class StoppedClock(Clock):
    def monotonic(self):
        return 0.0


class Fake:
    """What the child reads. The text of a reading is the process id of the child."""

    opened = None

    def __init__(self, work):
        self.work = work

    def reading(self):
        return {**self.work(), "text": str(os.getpid())}

    def rows(self, _request):
        return [self.work() and {"uuid": "GPU-1", "pids": []}]


@pytest.fixture
def clock(tmp_path):
    return ShiftedClock(tmp_path / "hangs")


@pytest.fixture
def made(tmp_path, clock):
    """Return a reader whose child runs this function."""
    readers = []

    def make(work, limit=5.0, clock=clock):
        settings = {"nvml_timeout": limit, "nvml_path": None}
        readers.append(reader.Reader(str(tmp_path), settings, lambda: None, clock, lambda *_settings: Fake(work)))
        return readers[-1]

    yield make
    for one in readers:
        one.end()


def test_one_process_answers_again_and_again(made):
    it = made(lambda: WELL)
    first, second = it.read(), it.read()
    assert first == second == {**WELL, "text": first["text"]}
    assert first["text"] != str(os.getpid())
    it.end()
    assert it.read()["text"] != first["text"]


def test_an_ended_process_is_an_unreadable_driver_and_the_next_read_starts_another(made, tmp_path):
    flag = tmp_path / "flag"

    def read():
        if not flag.exists():
            os._exit(3)
        return WELL

    it = made(read)
    assert it.read()["error"] == "driver"
    flag.touch()
    assert it.read()["error"] is None


def test_a_hung_process_is_given_up(made, tmp_path):
    flag = tmp_path / "flag"
    it = made(lambda: WELL if flag.exists() else time.sleep(600), limit=0.3)
    assert (it.read()["error"], it._child) == ("hang", None)
    flag.touch()
    it._settings["nvml_timeout"] = 60  # a busy machine starts the next process late
    assert it.read()["error"] is None


class Driver:
    """Simulates NVML in a child. NVML answers at once, but hangs while the file exists."""

    def __init__(self, hangs):
        self.hangs = hangs

    def __call__(self):
        while self.hangs.exists():
            time.sleep(0.01)
        return WELL


@pytest.fixture
def driver(clock):
    return Driver(clock.hangs)


def until(it, error, limit=20, **options):
    """Read until this error appears. Return this reading and the earlier readings."""
    found, end = [it.read(**options)], time.monotonic() + limit
    while found[-1]["error"] != error:
        assert time.monotonic() < end, found[-3:]
        time.sleep(0.02)
        found.append(it.read(**options))
    return found[-1], [one["error"] for one in found[:-1]]


def test_a_process_that_answered_before_hangs_sooner_and_is_slow_until_then(made, driver, clock):
    it = made(driver, limit=60)
    assert it.read()["error"] is None
    child = it._child
    driver.hangs.touch()
    began = clock.monotonic()
    assert (it.read()["error"], it.waits(), it._child) == ("slow", True, child)
    assert clock.monotonic() - began >= reader.SLOW_S
    clock.let_pass((reader.HANG_S - reader.SLOW_S) / 2)
    assert (it.read()["error"], it._child) == ("slow", child)
    clock.let_pass((reader.HANG_S - reader.SLOW_S) / 2)
    hanging = it.read()
    assert (hanging["error"], hanging["slow"], it._child) == ("hang", True, None)
    assert hanging["text"] == "NVML gave no answer within 20 s"
    # The next child must initialise the cards. It gets the whole time limit for this.
    assert [it.read()["error"] for _time in range(3)] == ["slow"] * 3
    clock.let_pass(1.5 * reader.HANG_S)
    assert it.read()["error"] == "slow"
    driver.hangs.unlink()
    well, _before = until(it, None)
    assert (well.get("slow"), it.waits()) == (None, False)


def test_a_late_answer_is_used_and_counts_as_slow(made, driver):
    it = made(driver, limit=60)
    it.read()
    child = it._child
    driver.hangs.touch()
    assert it.read()["error"] == "slow"
    driver.hangs.unlink()
    late, _before = until(it, None)
    assert (late["slow"], late["gpus"], it._child) == (True, [GPU], child)
    assert it.read() == {**WELL, "text": str(child)}


def test_after_a_boot_a_driver_has_time_to_start_its_cards(made, driver, clock):
    it = made(driver, limit=reader.HANG_S)
    driver.hangs.touch()
    assert it.read(patient=True)["error"] == "slow"
    child = it._child
    for _time in range(3):
        clock.let_pass(reader.HANG_S)
        assert (it.read(patient=True)["error"], it._child) == ("slow", child)
    driver.hangs.unlink()
    assert until(it, None, patient=True)[0].get("slow") is None
    driver.hangs.touch()
    assert it.read(patient=True)["error"] == "slow"
    clock.let_pass(reader.HANG_S)
    hanging = it.read(patient=True)
    assert (hanging["error"], hanging["slow"]) == ("hang", True)  # the cards are initialised


def test_hung_processes_are_reported_by_the_next_reading(made, driver, clock):
    it = made(driver, limit=60)
    it.read()
    assert it.processes() == [{"uuid": "GPU-1", "pids": []}]
    driver.hangs.touch()
    assert (it.processes(), it.processes()) == (None, None)
    assert it.read()["error"] == "slow"
    driver.hangs.unlink()
    assert until(it, None)[0]["gpus"] == [GPU]
    assert it.processes() == [{"uuid": "GPU-1", "pids": []}]
    driver.hangs.touch()
    assert it.processes() is None
    clock.let_pass(reader.HANG_S)
    assert it.read()["error"] == "hang"


@pytest.mark.parametrize(("timeout_s", "limit_s"), [(60, 20), (300, 260), (30, 20), (5, 5)])
def test_nvml_has_a_time_limit(tmp_path, timeout_s, limit_s):
    """If a user sets a longer limit than the default, the machine is slow, so later readings also get more time."""
    it = reader.Reader(str(tmp_path), {"nvml_timeout": timeout_s, "nvml_path": None}, lambda: None, Clock())
    assert it._limit_s() == timeout_s
    it._is_warm = True
    assert it._limit_s() == limit_s


def test_the_end_of_a_process_is_awaited(made):
    it = made(lambda: WELL, clock=StoppedClock())
    for _time in range(5):
        assert it.read()["error"] is None
        began = time.monotonic()
        it.end()
        assert it._child is None
        assert time.monotonic() - began < 30


def test_no_second_process_is_started_beside_the_first(made):
    first, second = made(lambda: WELL), made(lambda: WELL)
    assert first.read()["error"] is None
    assert second.read()["error"] == "hang"
    first.end()
    assert second.read()["error"] is None


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a reader of the lab's NVML, and the file that controls NVML."""
    path = tmp_path / "nvml.conf"
    path.write_text("[gpu 0-1]\nname = NVIDIA H100 80GB HBM3\ncompute = 9.0\nxid = 48\n")
    monkeypatch.setenv("GPU_LAB_NVML", str(path))
    (tmp_path / "health").mkdir()
    it = reader.Reader(str(tmp_path / "health"), {"nvml_timeout": 20, "nvml_path": nvml_lab.library()}, lambda: None, Clock())
    yield it, path
    it.end()


def await_events(it, number):
    found = []
    deadline = time.monotonic() + 60
    while len(found) < number and time.monotonic() < deadline:
        select.select(it.handles(), [], [], 0.1)
        found += it.events()
    return found


def registered(it, path):
    """Wait until NVML has registered the cards. NVML reports errors only after this time."""
    for xid in range(900, 999):
        with path.open("a") as stream:
            stream.write(f"[gpu 0]\nxid = {xid}\n")
        select.select(it.handles(), [], [], 0.2)
        if xid in [event.xid for event in it.events()]:  # the last error, so that none of these arrives later
            return
    raise AssertionError("no event came")


def test_errors_of_nvml_arrive_on_their_own_and_readings_continue(machine):
    it, path = machine
    read = it.read()
    assert [gpu["action"] for gpu in read["gpus"]] == ["none", "none"]
    registered(it, path)
    with path.open("a") as stream:
        stream.write("[gpu 1]\nxid = 79\nxid = 154\nxid = 95\nrecovery-action = gpu-reset\n")
    found = await_events(it, 2)
    second = xids.bus_address(read["gpus"][1]["pci"])
    assert found == [xids.Event(second, 79, ""), xids.Event(second, 95, "")]
    again = it.read()
    assert [(gpu["action"], gpu["state"]) for gpu in again["gpus"]] == [("none", "ok"), ("gpu_reset", "warning")]
    assert it.events() == []


def test_a_card_that_is_lost_ends_neither_readings_nor_the_process(machine):
    it, path = machine
    it.read()
    with path.open("a") as stream:
        stream.write("[gpu 1]\nfault = lost\n")
    child = it._child
    assert [gpu["state"] for gpu in it.read()["gpus"]] == ["ok", "failed"]
    assert [gpu["state"] for gpu in it.read()["gpus"]] == ["ok", "failed"]
    assert it._child == child


@pytest.mark.parametrize("line", ["events = off", "events = unsupported", "fault = nvmlDeviceRegisterEvents:not-supported"])
def test_a_driver_without_events_is_still_read(machine, line):
    it, path = machine
    path.write_text(f"[gpu 0]\nname = NVIDIA X\n{line}\n")
    assert it.read()["error"] is None
    with path.open("a") as stream:
        stream.write("xid = 79\n")
    assert it.read()["error"] is None
    assert it.events() == []


def test_a_process_that_ends_while_nobody_reads_is_noticed_and_replaced(machine):
    it, _path = machine
    it.read()
    child = it._child
    os.kill(child, 9)
    assert select.select(it.handles(), [], [], 5)[0]
    assert (it.events(), it.handles(), it._child) == ([], [], None)
    assert it.read()["error"] is None
    assert it._child not in (None, child)


def test_the_process_ends_with_the_service(made):
    it = made(lambda: WELL)
    child = int(it.read()["text"])
    os.close(it._pipes[0])  # simulates a killed service
    assert os.waitpid(child, 0)[0] == child
    it._child = None
    os.close(it._pipes[1])
