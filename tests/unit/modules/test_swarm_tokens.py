# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import cluster

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import OutOfSequence, SwarmError
from ansible_collections.fleet.gpu_swarm.plugins.modules import swarm_tokens as module


class FakeManager:
    """A swarm that another client changes before the first ``lost`` attempts to write it."""

    def __init__(self, lost=0, lease=None):
        self.lost = lost
        self.labels = {"owner": "bob", **({"gpu-swarm.lease": lease} if lease else {})}
        self.updates = []

    def cluster(self):
        return {**cluster(self.labels), "UpdatedAt": "2026-11-21T02:10:00Z"}, "2026-11-21T03:10:00Z"  # this manager's clock is ahead of the leader's

    def leader(self):
        return "m1"

    def update_cluster(self, version, spec, rotate=()):
        if self.lost:
            self.lost -= 1
            raise OutOfSequence("changed meanwhile")
        if rotate:
            self.updates.append((version, spec, rotate))


def run(manager, monkeypatch, rotate=("worker", "manager"), check_mode=False, holder=None):
    monkeypatch.setattr(module, "connect", lambda params: manager)
    return module.run({"rotate": list(rotate), "holder": holder}, check_mode)


@pytest.mark.parametrize("lost", [0, 9])
@pytest.mark.parametrize("rotate", [["worker"], ["manager"], ["worker", "manager"]])
def test_tokens_are_replaced_once_and_everything_else_stays(rotate, lost, monkeypatch):
    manager = FakeManager(lost)
    assert run(manager, monkeypatch, rotate) == {"changed": True}
    assert manager.updates == [(10, cluster({"owner": "bob"})["Spec"], rotate)]


@pytest.mark.parametrize(("rotate", "check_mode"), [(["worker"], True), ([], False)])
def test_check_mode_writes_nothing(rotate, check_mode, monkeypatch):
    manager = FakeManager()
    assert run(manager, monkeypatch, rotate, check_mode) == {"changed": bool(rotate)}
    assert manager.updates == []


def test_a_swarm_that_changes_forever_is_given_up(monkeypatch):
    with pytest.raises(SwarmError, match=r"10 attempts.*Run this again"):
        run(FakeManager(lost=10), monkeypatch)


LEASE = '{"holder": "alice", "since": "2026-11-21T02:00:00Z", "until": "2026-11-21T02:%02d:00Z"}'


@pytest.mark.parametrize(("lease", "holder"), [(LEASE % 20, "alice"), (LEASE % 5, "bob"), (None, "bob")])
def test_tokens_are_replaced_if_no_other_run_has_the_lease(lease, holder, monkeypatch):
    manager = FakeManager(lease=lease)
    assert run(manager, monkeypatch, holder=holder) == {"changed": True}
    assert len(manager.updates) == 1


@pytest.mark.parametrize("holder", ["bob", None])
def test_tokens_stay_while_another_run_changes_the_swarm(holder, monkeypatch):
    manager = FakeManager(lease=LEASE % 20)
    with pytest.raises(SwarmError, match=r"No join token was replaced, because another run changes this swarm: alice\. Its lease ends in 600 s"):
        run(manager, monkeypatch, holder=holder)
    assert manager.updates == []
