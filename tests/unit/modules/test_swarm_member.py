# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module's requests to dockerd, and its results. tests/unit/dockerd tests the membership itself."""

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.docker_unit import EngineError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.modules import swarm_member

NONE, WORKER, MANAGER = ({"state": state, "control_available": manages, "error": None} for state, manages in
                         (("inactive", False), ("active", False), ("active", True)))  # fmt: skip


class Daemon:
    def __init__(self, before, after=None):
        self.now, self.after, self.posted = before, after or before, {}

    def swarm(self):
        return self.now

    def get(self, path):
        return {"/swarm": {"JoinTokens": {"Worker": "w", "Manager": "m"}}}[path]

    def post(self, path, body=None, timeout=0):
        self.posted[path] = body
        self.now = self.after


@pytest.fixture(autouse=True)
def reachable(monkeypatch):
    monkeypatch.setattr(swarm_member, "find_reachable", lambda addresses, timeout: [one for one in addresses if "down" not in one])


def params(state, **more):
    defaults = {"role": "worker", "managers": ["m1:2377", "down:2377"], "join_token": "t", "port_timeout": 5, "timeout": 0}
    unset = dict.fromkeys(("advertise_addr", "data_path_addr", "default_addr_pool", "labels"))
    return {**defaults, **unset, "listen_addr": "0.0.0.0:2377", "subnet_size": 24, "force": False, "state": state, **more}


def test_a_worker_joins_over_the_managers_that_it_reaches():
    daemon = Daemon(NONE, WORKER)
    assert swarm_member.result(daemon, params("joined", advertise_addr="eth1"), False) == {"changed": True, "swarm": WORKER, "reachable": ["m1:2377"]}
    listening = {"ListenAddr": "0.0.0.0:2377", "AdvertiseAddr": "eth1", "DataPathAddr": ""}
    assert daemon.posted == {"/swarm/join": {**listening, "JoinToken": "t", "RemoteAddrs": ["m1:2377"]}}


def test_without_a_reachable_manager_nothing_is_tried():
    daemon = Daemon(NONE)
    with pytest.raises(GpuSwarmError) as caught:
        swarm_member.result(daemon, params("joined", managers=["down:2377"]), False)
    assert (caught.value.details, daemon.posted) == ({"swarm": NONE, "reachable": []}, {})


def test_a_failed_join_names_the_managers_that_were_reached():
    with pytest.raises(GpuSwarmError) as caught:
        swarm_member.result(Daemon(NONE, MANAGER), params("joined"), False)
    assert caught.value.details == {"swarm": MANAGER, "reachable": ["m1:2377"]}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, {"Spec": {"Labels": {}}}),
        ({"labels": {"gpu-swarm.isolation": "reserved", "n": 1}}, {"Spec": {"Labels": {"gpu-swarm.isolation": "reserved", "n": "1"}}}),
        (
            {"default_addr_pool": ["10.9.0.0/16"], "data_path_addr": "eth2"},
            {"DefaultAddrPool": ["10.9.0.0/16"], "SubnetSize": 24, "DataPathAddr": "eth2", "Spec": {"Labels": {}}},
        ),
    ],
)
def test_a_swarm_is_created(given, sent):
    daemon = Daemon(NONE, MANAGER)
    made = swarm_member.result(daemon, params("initialised", **given), False)
    assert made == {"changed": True, "swarm": MANAGER, "join_tokens": {"Worker": "w", "Manager": "m"}}
    assert daemon.posted == {"/swarm/init": {"ListenAddr": "0.0.0.0:2377", "AdvertiseAddr": "", "DataPathAddr": "", **sent}}


def test_a_swarm_is_left():
    daemon = Daemon(WORKER, NONE)
    assert swarm_member.result(daemon, params("left"), False) == {"changed": True, "swarm": NONE}
    assert daemon.posted == {"/swarm/leave?force=false": None}


@pytest.mark.parametrize("state", ["pending", "error", "locked"])
def test_an_operation_that_someone_else_started_is_left_alone(state):
    daemon = Daemon({**NONE, "state": state})
    with pytest.raises(GpuSwarmError, match="its swarm state is now %s" % state):
        swarm_member.result(daemon, params("joined"), False)
    assert daemon.posted == {}


def test_a_member_in_another_role_does_not_count():
    with pytest.raises(GpuSwarmError, match="did not become a working manager"):
        swarm_member.result(Daemon(WORKER), params("joined", role="manager"), False)


@pytest.mark.parametrize("answer", [None, EngineError("no leader")])
def test_creating_a_swarm_succeeds_even_if_its_tokens_cannot_be_read(monkeypatch, answer):
    daemon = Daemon(NONE, MANAGER)

    def get(path):
        if answer:
            raise answer

    monkeypatch.setattr(daemon, "get", get)
    assert swarm_member.result(daemon, params("initialised"), False) == {"changed": True, "swarm": MANAGER}


@pytest.mark.parametrize(
    ("state", "before", "check", "changed"),
    [
        ("joined", WORKER, False, False),
        ("initialised", MANAGER, False, False),
        ("left", NONE, False, False),
        ("joined", NONE, True, True),
        ("initialised", NONE, True, True),
        ("left", WORKER, True, True),
    ],
)
def test_a_finished_state_and_check_mode_change_nothing(state, before, check, changed):
    daemon = Daemon(before)
    assert swarm_member.result(daemon, params(state), check) == {"changed": changed, "swarm": before}
    assert daemon.posted == {}
