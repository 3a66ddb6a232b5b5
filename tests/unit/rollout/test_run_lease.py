# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import fleet_lab
import pytest
from fleet_lab import assessed, ledger, member

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.ends import ends
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.manager_updates import availability_updates, label_updates, wanted_labels
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.member import view
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.run_lease import CHANGE_S, is_due, lease_blocker, lease_seconds


def test_the_holder_of_the_lease_may_continue():
    assert lease_blocker({"acquired": True, "holder": "x"}) == ""


@pytest.mark.parametrize(
    ("answer", "due"),
    [
        ({"acquired": True, "renew_at": 1000.0}, True),
        ({"acquired": True, "renew_at": 1000.5}, False),
        ({"acquired": False, "holder": "x"}, False),  # the gate reports the run
        ({"skipped": True}, False),
        ({"failed": True, "msg": "no quorum"}, False),
    ],
)
def test_a_lease_is_renewed_when_half_of_it_is_over(answer, due):
    assert is_due(answer, now=1000.0) is due
    assert is_due({"renew_at": 0.0}) is True


def test_a_lease_that_another_run_held_meanwhile_is_not_the_same():
    answer = {"acquired": True, "holder": "x", "since": "2026-11-21T02:10:00Z"}
    assert lease_blocker(answer, "2026-11-21T02:10:00Z") == ""
    assert "another run took the lease" in lease_blocker(answer, "2026-11-21T01:00:00Z")
    assert "another run changes this swarm" in lease_blocker({**answer, "acquired": False}, "2026-11-21T01:00:00Z")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            {"acquired": False, "holder": "alice@c1 pid 12", "since": "2026-11-21T02:10:00Z", "expires_in": 812},
            ["alice@c1 pid 12 since 2026-11-21T02:10:00Z", "ends in 812 s", "-e provision_take_lease=true"],
        ),
        ({"acquired": False, "holder": "mine", "since": None, "expires_in": None}, [": mine. Its lease does not end by itself"]),
        ({"acquired": False, "holder": "bob", "since": None, "expires_in": -5}, [": bob. Its lease ended 5 s ago by the clock of a manager."]),
        ({"failed": True, "msg": "It has no quorum."}, ["could not be taken: It has no quorum. Fix that"]),
        ({"unreachable": True, "msg": "no route"}, ["could not be taken: no route. Fix that"]),
        ({}, ["did not say why"]),
    ],
)
def test_without_the_lease_nothing_is_changed(answer, words):
    assert [word for word in words if word not in lease_blocker(answer)] == []


MINE, OTHER = "alice@c1 pid 12", "bob@c2 pid 7"


def shows(holder, expires_in=60):
    """Return a ledger with a node without labels, in a swarm with a lease."""
    lease = holder and {"holder": holder, "since": "2026-11-21T02:10:00Z", "expires_in": expires_in}
    return {**ledger(member("n1", labels={}, bound=False, former_availability="active")), "swarm": {"lease": lease}}


def test_a_lease_that_another_run_took_during_a_wait_is_noticed():
    answer = {"acquired": True, "holder": MINE, "renew_at": 1000.0}
    assert [is_due(answer, book, now=0.0) for book in (None, shows(MINE), shows(None), shows(OTHER, -5), shows(OTHER))] == [False] * 3 + [True] * 2


@pytest.mark.parametrize(
    ("lease", "book", "lost"),
    [
        (None, None, False),  # there was no swarm when the run began
        (None, shows(OTHER), False),
        ({"acquired": True, "holder": MINE}, None, False),
        ({"acquired": True, "holder": MINE}, shows(MINE), False),
        ({"acquired": True, "holder": MINE}, shows(MINE, -5), False),  # the lease has expired, and no other run has taken it
        ({"acquired": True, "holder": MINE}, shows(None), False),
        ({"acquired": True, "holder": MINE}, shows(OTHER, -5), True),  # the lease looks expired by a manager's clock, but another run has it
        ({"acquired": True, "holder": MINE}, shows(OTHER), True),
        ({"acquired": True, "holder": MINE}, shows(OTHER, None), True),
        ({"acquired": False, "holder": OTHER}, None, True),
        ({"acquired": False, "holder": OTHER}, shows(None), True),
        ({"failed": True}, None, True),
        ({"skipped": True}, shows(MINE), True),
    ],
)
def test_nothing_is_written_without_the_lease(lease, book, lost):
    host = {"gpu_node_assessed": assessed("n1"), **({"gpu_swarm_lease": lease} if lease else {})}
    (known,) = view(["a"], {"a": host}, book)
    assert bool(known.lost_lease) is lost
    assert bool(label_updates(view(["a"], {"a": host}, book))) is not lost
    assert bool(availability_updates(view(["a"], {"a": host}, book), "former")) is not lost
    assert [update["host"] for update in wanted_labels(view(["a"], {"a": host}, book))] == ["a"]


def test_the_run_that_took_the_lease_is_named():
    (known,) = view(["a"], {"a": {"gpu_swarm_lease": {"acquired": True, "holder": MINE}}}, shows(OTHER))
    assert f"another run changes this swarm: {OTHER} since" in known.lost_lease


def test_work_that_was_left_undone_is_reported_for_each_host():
    lease = {"acquired": True, "holder": MINE}
    of_plan = {"a": ("n1", "gpu_swarm_label"), "b": ("n2", "gpu_swarm_marked"), "c": ("n3", "gpu_swarm_label")}
    hosts = {
        name: {"gpu_node_assessed": assessed(node_id), "gpu_swarm_lease": lease, **fleet_lab.planned(name, node_id, groups=[group])}
        for name, (node_id, group) in of_plan.items()
    }
    nodes = [member("n1", labels={}, bound=False), member("n2", bound=False, former_availability="active"), member("n3", bound="c")]
    book = {**ledger(*nodes), "swarm": {"lease": {"holder": OTHER, "since": None, "expires_in": None}}}
    left = {name: end.outcome for name, end in ends(view(hosts, hosts, book)).items() if end.outcome}
    assert {name: (outcome.state.value, outcome.reason.partition(":")[0]) for name, outcome in left.items()} == {
        "a": ("untouched", "its labels could not be set"),
        "b": ("untouched", "it could not be returned to service"),
    }
    assert all(OTHER in outcome.reason for outcome in left.values())
    assert [end.outcome for end in ends(view(hosts, hosts, {**book, "swarm": {}})).values()] == [None] * 3


# --- duration of the lease ------------------------------------------------------------------------------------------------


def planned(*settings, to_change=None, lease=None):
    usual = {"provision_wait": 300, "provision_drain_timeout": 120, "maintain_timeout": 900}
    steps = {f"g{number}": {"settings": {**usual, **one}} for number, one in enumerate(settings, 1)}
    return {"settings": {"provision_lease": lease}, "steps": steps, "to_change": list(steps)[:to_change]}


EACH = 300 + 120 + CHANGE_S


@pytest.mark.parametrize(
    ("plan", "forks", "maintain", "seconds"),
    [
        (planned({}), 5, False, 2 * 300 + EACH),
        (planned(*[{}] * 5), 5, False, 2 * 300 + EACH),
        (planned(*[{}] * 6), 5, False, 2 * 300 + 2 * EACH),
        (planned(*[{}] * 6, to_change=5), 5, False, 2 * 300 + EACH),  # the other hosts do not change
        (planned({}, to_change=0), 5, False, 2 * 300 + EACH),
        (planned({}), 5, True, 2 * 300 + EACH + 300 + 3 * 900),
        (planned({"provision_wait": 0}), 5, False, 120 + CHANGE_S),
        # The slowest host of a batch sets its duration.
        (planned({"provision_wait": 0}, {"provision_drain_timeout": 600}), 5, False, 2 * 300 + 300 + 600 + CHANGE_S),
        (planned({}, {"maintain_timeout": 7200}), 5, True, 2 * 300 + EACH + 300 + 3 * 7200),
        (planned({}, lease=60), 5, True, 60),
    ],
)  # fmt: skip
def test_the_lease_lasts_as_long_as_a_batch_may_take(plan, forks, maintain, seconds):
    assert lease_seconds(list(plan["steps"]), plan, forks, maintain) == seconds


def test_a_lease_belongs_to_the_hosts_of_its_batch():
    plan = planned({}, {"provision_wait": 3600})
    assert lease_seconds(["g1"], plan, 5) == 2 * 300 + EACH
    assert lease_seconds(["g2"], plan, 5) == 2 * 3600 + 3600 + 120 + CHANGE_S
