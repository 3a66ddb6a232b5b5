# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests joining and leaving a swarm with a daemon that goes through a list of states."""

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import join_leave
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.docker_unit import EngineError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.engine import Unavailable

SLOW = Unavailable("POST /swarm/join answered 503: Timeout was reached before node joined. The attempt continues in the background")
TAKEN = Unavailable("POST /swarm/join answered 503: This node is already part of a swarm")


def membership(state, manages=False, error=None):
    return {"state": state, "control_available": manages, "error": error}


class Daemon:
    """Shows one state after another, then always the last state. After a leave, the state is ``left``."""

    def __init__(self, *states, answer=None, left=None):
        self.states, self.answer, self.left, self.posted = list(states), answer, left or membership("inactive"), []

    def swarm(self):
        found = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(found, Exception):
            raise found
        return found

    def post(self, path, body=None, timeout=0):
        self.posted.append((path, body))
        if path.startswith("/swarm/leave"):
            if isinstance(self.left, Exception):
                raise self.left
            self.states = [self.left]
        elif self.answer:
            raise self.answer


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(join_leave, "POLL_S", 0)


JOINS = {
    "at once": Daemon(membership("active")),
    "after a while": Daemon(membership("pending"), membership("active", manages=True), membership("active")),
    "the daemon answers slowly": Daemon(EngineError("not answered within 30 s"), membership("active")),
    "in the background": Daemon(membership("pending"), membership("active"), answer=SLOW),
}


@pytest.mark.parametrize("case", JOINS)
def test_a_worker_joins(case):
    daemon = JOINS[case]
    assert join_leave.join(daemon, {"JoinToken": "x"}, False, 60) == membership("active")
    assert daemon.posted == [("/swarm/join", {"JoinToken": "x"})]


FAILS = {
    "refused, and the daemon forgot it": (Daemon(membership("inactive"), answer=EngineError("invalid token")), "invalid token", "inactive", False),
    "refused, and the daemon keeps a state": (
        Daemon(membership("error", error="x"), answer=EngineError("remote CA does not match")), "remote CA does not match", "inactive", True
    ),
    "the join never ends": (
        Daemon(membership("pending", error="no route to host."), answer=SLOW),
        "it did not become a working worker within 0 s: its swarm state is pending (no route to host)", "inactive", True,
    ),
    "the leave after a refused join fails": (
        Daemon(membership("error"), answer=EngineError("invalid token"), left=EngineError("busy")), "invalid token", "error", True
    ),
    "the node is already in a swarm and stays": (Daemon(membership("active"), answer=TAKEN), "already part of a swarm", "active", False),
    "the node became a manager": (Daemon(membership("active", manages=True)), "its swarm state is active", "active", False),
    "the daemon hangs": (Daemon(EngineError("hangs"), answer=EngineError("POST: hangs")), "POST: hangs", "unknown", False),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILS)
def test_a_join_that_fails_is_undone(case):
    daemon, words, state, left = FAILS[case]
    with pytest.raises(EngineError) as caught:
        join_leave.join(daemon, {}, False, 0)
    assert words in caught.value.message
    assert caught.value.details["swarm"]["state"] == state
    assert [path for path, _body in daemon.posted[1:]] == (["/swarm/leave?force=true"] if left else [])


def test_a_swarm_is_initialised():
    daemon = Daemon(membership("pending"), membership("active"), membership("active", manages=True))
    assert join_leave.initialise(daemon, {"Spec": {}}, 60) == membership("active", manages=True)
    assert daemon.posted == [("/swarm/init", {"Spec": {}})]


@pytest.mark.parametrize("answer", [EngineError("could not choose an IP address to advertise"), TAKEN])
def test_a_refused_initialisation_fails_at_once(answer):
    with pytest.raises(EngineError, match=answer.message):
        join_leave.initialise(Daemon(membership("active", manages=True), answer=answer), {}, 60)


@pytest.mark.parametrize(("force", "path"), [(True, "/swarm/leave?force=true"), (False, "/swarm/leave?force=false")])
def test_a_swarm_is_left(force, path):
    daemon = Daemon(membership("active"))
    assert join_leave.leave(daemon, force) == membership("inactive")
    assert daemon.posted == [(path, None)]
