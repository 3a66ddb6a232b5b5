# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests the process that pauses nodes: what it writes, and what it does after an error."""

from __future__ import annotations

import copy
import errno
import json
import time

import pytest
import swarm_api as api

from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _replace
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager import pausing, rounds
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import OutOfSequence, SwarmError

LOST = f"fault {api.A} reason=lost since=1795380328"
PAUSED_FOR = "gpu-swarm.paused-for"


class Swarm:
    """A manager with versioned nodes. ``before_write`` can change a node between reading and writing."""

    node_id = "m1"

    def __init__(self, *nodes):
        leader = api.node("m1", leader=True)
        self.by_id = {node["ID"]: node for node in [leader, *nodes]}
        self.failing: list = []
        self.before_write = lambda node_id: None
        self.writes = 0

    def nodes(self):
        if self.failing:
            raise self.failing.pop()
        return copy.deepcopy(list(self.by_id.values()))

    def update_node(self, node_id, version, spec):
        self.before_write(node_id)
        if self.failing:
            raise self.failing.pop()
        if self.by_id[node_id]["Version"]["Index"] != version:
            raise OutOfSequence("update out of sequence")
        self.writes += 1
        self.by_id[node_id] = {**self.by_id[node_id], "Spec": spec, "Version": {"Index": version + 1}}

    def operator(self, node_id, availability):
        node = self.by_id[node_id]
        self.by_id[node_id] = {**node, "Spec": {**node["Spec"], "Availability": availability}, "Version": {"Index": node["Version"]["Index"] + 1}}

    def spec(self, node_id):
        return self.by_id[node_id]["Spec"]


def faulty(node_id="g1", value=LOST):
    node = api.node(node_id)
    node["Description"]["Engine"]["Labels"] = {"fleet.gpu-swarm.health": value}
    return node


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.setattr(pausing, "STATUS", str(tmp_path / "status.json"))
    return lambda swarm: rounds.Rounds("/none", pausing.Pausing(20), lambda: None, connect=lambda params: swarm)


def test_a_node_is_paused_with_its_reason_in_one_update(start, capsys):
    swarm = Swarm(faulty())
    start(swarm).poll()
    spec = swarm.spec("g1")
    assert (spec["Availability"], swarm.writes) == ("pause", 1)
    assert spec["Labels"].pop("gpu-swarm.paused-since").endswith("Z")
    assert spec["Labels"] == {"gpu-swarm.former-availability": "active", PAUSED_FOR: LOST}
    assert f"node host-g1 (g1) is paused: it reports '{LOST}'" in capsys.readouterr().out


def test_a_node_is_written_once(start):
    swarm = Swarm(faulty())
    one = start(swarm)
    for _time in range(3):
        assert one.poll() == rounds.POLL_S
    assert swarm.writes == 1


def test_with_events_it_polls_seldom_and_again_at_its_turn(start, monkeypatch):
    """A manager that does not lead polls again at its turn. If the leader has not acted by then, this manager acts."""
    swarm = Swarm(faulty())
    one = start(swarm)
    one.bell.listens = True
    assert one.poll() == rounds.LISTENING_S
    swarm = Swarm(faulty(), api.node("m0", leader=True))
    swarm.by_id["m1"]["ManagerStatus"] = {"Leader": False}
    one = start(swarm)
    one.bell.listens = True
    assert [one.poll() for _time in range(2)] == [rounds.LISTENING_S] * 2
    now = time.monotonic() + 22
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert 7 < one.poll() <= 8


@pytest.mark.parametrize(("took_s", "rest_s"), [(0.0, 1), (0.05, 1), (0.1, 2), (0.2, 4), (3.0, 5)])
def test_polls_have_pauses_between_them(took_s, rest_s):
    """If nodes change all the time, polling must not use up the manager's time."""
    assert rounds.shortest_interval_s(took_s) == pytest.approx(rest_s)


@pytest.mark.parametrize("availability", ["pause", "drain"])
def test_an_operator_who_is_faster_wins(start, availability):
    """If someone changes the node between our read and our write, the manager refuses the update. The service then checks the node again."""
    swarm = Swarm(faulty())
    swarm.before_write = lambda node_id: swarm.operator(node_id, availability)
    one = start(swarm)
    assert one.poll() == rounds.AGAIN_S
    swarm.before_write = lambda node_id: None
    one.poll()
    assert swarm.spec("g1") == {"Labels": {}, "Role": "worker", "Availability": availability}


def test_a_change_by_someone_else_stays(start):
    swarm = Swarm(faulty())

    def label(node_id):
        swarm.spec(node_id)["Labels"]["rack"] = "r1"
        swarm.operator(node_id, "active")
        swarm.before_write = lambda node_id: None

    swarm.before_write = label
    one = start(swarm)
    one.poll()
    assert swarm.writes == 0
    one.poll()
    assert (swarm.spec("g1")["Availability"], swarm.spec("g1")["Labels"]["rack"]) == ("pause", "r1")


@pytest.mark.parametrize("where", ["read", "write"])
def test_a_manager_that_does_not_answer_is_waited_for(start, capsys, where):
    """A manager without a leader is treated in the same way. The error is logged once."""
    swarm, problem = Swarm(faulty()), SwarmError("The swarm on m1 has no quorum")
    one = start(swarm)
    if where == "read":
        swarm.failing = [problem, problem]
        one.poll()
    else:
        swarm.before_write = lambda node_id: swarm.failing.append(problem)
        one.poll()
    one.poll()
    swarm.before_write = lambda node_id: None
    assert swarm.writes == 0
    one.poll()
    assert swarm.spec("g1")["Availability"] == "pause"
    assert capsys.readouterr().out.count("has no quorum") == 1


def test_a_manager_that_has_joined_another_swarm_is_known_by_its_id_there(tmp_path, monkeypatch):
    """The manager leaves and joins between two polls, so no read fails. It leads the new swarm, so it pauses nodes at once."""
    monkeypatch.setattr(pausing, "STATUS", str(tmp_path / "status.json"))
    swarm = Swarm(faulty("g0", "ok"))
    one = rounds.Rounds("/none", pausing.Pausing(20), lambda: None, connect=lambda params: copy.copy(swarm))
    one.poll()
    swarm.node_id = "m9"
    swarm.by_id.clear()
    swarm.by_id.update({"m9": api.node("m9", leader=True), "g1": faulty()})
    one.poll()
    assert swarm.spec("g1")["Availability"] == "pause"


def test_a_process_killed_before_writing_is_started_again(start):
    swarm = Swarm(faulty())

    def kill(node_id):
        raise SystemExit

    swarm.before_write = kill
    with pytest.raises(SystemExit):
        start(swarm).poll()
    swarm.before_write = lambda node_id: None
    start(swarm).poll()
    assert (swarm.spec("g1")["Availability"], swarm.writes) == ("pause", 1)


def test_after_a_restart_it_knows_the_nodes_that_a_run_returned(start):
    """The node may still report the fault for a short time after the fault has ended."""
    swarm = Swarm(faulty())
    one = start(swarm)
    one.poll()
    one.poll()
    swarm.by_id["g1"] = faulty()
    start(swarm).poll()
    assert swarm.spec("g1")["Availability"] == "active"


def test_two_services_pause_each_node_once(start):
    """A former leader and a new leader both read the nodes before either of them writes."""
    swarm = Swarm(*(faulty(f"g{number}") for number in range(5)), *(faulty(f"w{number}", "ok") for number in range(20)))
    one, other = start(swarm), start(swarm)

    def both(node_id):
        swarm.before_write = lambda node_id: None
        other.poll()

    swarm.before_write = both
    one.poll()
    one.poll()
    assert swarm.writes == sum(spec["Spec"]["Availability"] == "pause" for spec in swarm.by_id.values()) == 5


def test_beyond_the_limit_each_fault_raises_only_one_alarm(start, capsys):
    swarm = Swarm(*(faulty(f"g{number}") for number in range(4)))
    one = start(swarm)
    for _time in range(3):
        one.poll()
    assert swarm.writes == 2
    logged = capsys.readouterr().out
    assert logged.count("ALARM") == 2
    assert "2 of the 4 GPU nodes are already paused" in logged


@pytest.mark.parametrize("limit", [20, 1])
def test_a_host_name_cannot_forge_a_log_line(start, capsys, limit):
    """The log has the host name when the node is paused, in an alarm, and if the pause fails."""
    nodes = [faulty(f"g{number}") for number in range(4)]
    for node in nodes:
        node["Description"]["Hostname"] = "h\nALARM: node m1 (m1) is paused\r\x1b[2K"
    swarm = Swarm(*nodes)
    swarm.before_write = lambda node_id: swarm.failing.append(SwarmError("g9\nALARM: x")) if node_id == "g1" else None
    start(swarm).poll()
    logged = capsys.readouterr().out
    assert len(logged.splitlines()) == 4
    assert not [line for line in logged.split("\n") if line.startswith("ALARM: node m1")]
    assert logged.isascii()
    assert logged.replace("\n", "").isprintable()


def test_a_full_run_keeps_no_node_from_being_paused(start, monkeypatch, capsys):
    def full(path, *_more, **_options):
        raise OSError(errno.ENOSPC, "No space left on device", path)

    swarm = Swarm(faulty())
    one = start(swarm)
    with monkeypatch.context() as patched:
        patched.setattr(_replace, "open", full, raising=False)
        for _time in range(3):
            one.poll()
    assert swarm.spec("g1")["Availability"] == "pause"
    assert capsys.readouterr().out.count("No space left on device") == 1
    one.poll()
    with open(pausing.STATUS, encoding="utf-8") as stream:
        assert json.load(stream)["handled"] == {"g1": LOST}


def test_its_status_shows_when_it_last_worked(start):
    swarm = Swarm(faulty())
    one = start(swarm)
    one.poll()
    one.poll()
    with open(pausing.STATUS, encoding="utf-8") as stream:
        assert json.load(stream)["handled"] == {"g1": LOST}
