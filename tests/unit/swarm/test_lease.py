# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json

import pytest
from swarm_api import cluster

from ansible_collections.fleet.gpu_swarm.plugins.action.swarm_lease import acquire, renewable
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm import lease as swarm_lease
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import OutOfSequence, SwarmError
from ansible_collections.fleet.gpu_swarm.plugins.modules import swarm_lease as module
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.run_identity import this_run

LABEL = "gpu-swarm.lease"
CLOCK = "2026-11-21T02:10:00.652836451Z"
NOW = swarm_lease.seconds(CLOCK)
ALICE, BOB = "alice@c1 pid 12 (run 0a1b2c3d.99)", "bob@c2 pid 12 (run 4e5f6a7b.99)"


LEADER = "m1"


def lease(holder, since=-60, until=60, ttl=900, leader=LEADER):
    """Return a label with these times, in seconds from now."""
    times = {"since": swarm_lease.format_time(NOW + since), "until": swarm_lease.format_time(NOW + until)}
    return json.dumps({"holder": holder, **times, "ttl": ttl, "leader": leader})


def of_before(holder, until=60):
    """Return a label as 0.2.0 wrote it."""
    return json.dumps({"holder": holder, "since": swarm_lease.format_time(NOW - 60), "until": swarm_lease.format_time(NOW + until)})


class FakeManager:
    """A swarm with a version, like a manager's. `interfere` runs right before an update reaches the swarm.

    The leader's clock shows CLOCK. This manager's clock is `ahead` by this number of seconds.
    """

    def __init__(self, value=None, interfere=None, ahead=0, leaders=(LEADER,)):
        self.kept = cluster({"owner": "bob", **({LABEL: value} if value else {})})
        self.interfere = interfere or (lambda kept: None)
        self.ahead, self.leaders = ahead, list(leaders)
        self.updates = 0

    def leader(self):
        return self.leaders.pop(0) if len(self.leaders) > 1 else self.leaders[0]

    def cluster(self):
        return copy.deepcopy(self.kept), swarm_lease.format_time(NOW + self.ahead)

    def update_cluster(self, version, spec, rotate=()):
        self.interfere(self.kept)
        if self.kept["Version"]["Index"] != version:
            raise OutOfSequence("changed meanwhile")
        self.kept["Spec"] = copy.deepcopy(spec)
        self.kept["Version"]["Index"] += 1
        self.kept["UpdatedAt"] = CLOCK
        self.updates += 1

    @property
    def value(self):
        return self.kept["Spec"]["Labels"].get(LABEL)


@pytest.fixture
def run(monkeypatch):
    def run(manager, check_mode=False, **options):
        monkeypatch.setattr(module, "connect", lambda params: manager)
        given = {"state": "present", "holder": ALICE, "ttl": 900, "takeover": [], "force": False, "outcomes": None, "always": False}
        given.update(isolation=None, queues=None)
        return module.run(dict(given, **options), check_mode)

    return run


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60),
        ("1970-01-01T00:01:00.999999999Z", 60),
        ("1970-01-01T01:01:00.5+01:00", 60),
        ("1969-12-31T18:31:00-05:30", 60),
    ],
)
def test_times_as_go_writes_them(text, seconds):
    assert swarm_lease.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-21", "2026-11-21 02:10:00Z", "2026-11-21T02:10:00"])
def test_another_time_is_refused(text):
    with pytest.raises(ValueError, match="RFC 3339"):
        swarm_lease.seconds(text)


@pytest.mark.parametrize("ahead", [-3600, 0, 3600])
@pytest.mark.parametrize(
    ("value", "options", "acquired", "since", "taken_from"),
    [
        (None, {}, True, 0, None),
        (lease(ALICE), {}, True, -60, None),  # the lease was renewed
        (lease(ALICE, until=-1), {}, True, -60, None),
        (lease(BOB), {}, False, -60, None),
        (lease(BOB, until=1), {}, False, -60, None),
        (lease(BOB, until=0), {}, True, 0, BOB),
        (of_before(BOB), {}, False, -60, None),
        (of_before(BOB, until=0), {}, True, 0, BOB),
        (lease(BOB), {"force": True}, True, 0, BOB),
        (lease(BOB), {"takeover": [BOB]}, True, 0, BOB),
        (lease(BOB), {"takeover": ["eve"]}, False, -60, None),
        (lease(BOB, until=-1), {"force": True}, True, 0, BOB),
    ],
)
def test_the_leader_s_clock_decides_who_gets_the_lease(run, value, options, acquired, since, taken_from, ahead):
    manager = FakeManager(value, ahead=ahead)
    result = run(manager, **options)
    assert (result["acquired"], result["changed"], result["holder"]) == (acquired, acquired, ALICE if acquired else BOB)
    assert (result["since"], result["taken_from"]) == (swarm_lease.format_time(NOW + since), taken_from)
    if acquired:
        assert (result["expires_in"], manager.value) == (900, lease(ALICE, since, 900))
    else:
        assert manager.value == value


@pytest.mark.parametrize(("until", "ended"), [(-5, 5), (0, 0), (60, None)])
def test_a_replaced_lease_has_its_end(run, until, ended):
    assert run(FakeManager(lease(BOB, until=until)), force=True)["taken_after"] == ended


@pytest.mark.parametrize("leader", ["m2", ""], ids=["another leader", "not counted yet"])
@pytest.mark.parametrize("until", [-3600, 0, 3600])
def test_under_another_leader_a_lease_counts_from_its_beginning(run, leader, until):
    """Passed time cannot be told from a different clock. So the lease starts again now, and the next run continues to count from this start."""
    manager = FakeManager(lease(BOB, until=until, ttl=600, leader=leader))
    found = run(manager)
    assert (found["acquired"], found["holder"], found["expires_in"]) == (False, BOB, 600)
    assert manager.value == lease(BOB, until=600, ttl=600)
    assert not run(manager)["acquired"]
    manager.kept["Spec"]["Labels"][LABEL] = lease(BOB, until=0, ttl=600)  # ten minutes later
    assert run(manager).items() >= {"acquired": True, "taken_from": BOB, "taken_after": 0}.items()


def test_a_lease_of_any_duration_can_be_read(run):
    manager = FakeManager()
    assert run(manager, ttl=10**13)["acquired"]
    assert run(manager, ttl=10**13)["since"] == swarm_lease.format_time(NOW)


def test_if_the_leader_changes_its_time_is_read_again(run):
    manager = FakeManager(leaders=["m2", LEADER])
    assert run(manager)["acquired"]
    assert manager.value == lease(ALICE, 0, 900)


NO_LEASES = ["mine", "{}", "[]", "null", '{"holder": "x", "since": "y", "until": "z"}', '{"holder": "x", "since": 1, "until": 2}']
# With these durations the end of the lease is unknown.
NO_LEASES += [lease("x", ttl=ttl, leader="m2") for ttl in (float("inf"), float("nan"), 10**18, 0, -900, None)]


@pytest.mark.parametrize("value", NO_LEASES)
def test_an_invalid_lease_counts_as_held_until_it_is_taken(run, value):
    manager = FakeManager(value)
    expected = {"acquired": False, "holder": value, "since": None, "expires_in": None}
    assert run(manager).items() >= expected.items()
    assert manager.value == value
    assert run(manager, force=True)["taken_from"] == value


@pytest.mark.parametrize(
    ("value", "changed", "holder"),
    [
        (None, False, None),
        (lease(ALICE), True, None),
        (lease(ALICE, until=-1), True, None),
        (lease(BOB), False, BOB),
        (lease(BOB, until=-1), False, BOB),
    ],
)
def test_only_our_own_lease_is_released(run, value, changed, holder):
    manager = FakeManager(value)
    result = run(manager, state="absent")
    assert (result["changed"], result["acquired"], result["holder"]) == (changed, False, holder)
    assert (manager.updates, manager.value) == (int(changed), None if changed else value)


def test_everything_else_of_the_swarm_stays(run):
    manager = FakeManager()
    before = copy.deepcopy(manager.kept["Spec"])
    run(manager)
    assert {**manager.kept["Spec"], "Labels": {"owner": "bob"}} == before
    run(manager, state="absent")
    assert manager.kept["Spec"] == before


def test_a_swarm_may_have_no_labels(run):
    manager = FakeManager()
    manager.kept["Spec"]["Labels"] = None  # as Go writes an empty value
    assert run(manager)["acquired"]


def test_the_same_again_changes_nothing(run):
    assert not run(FakeManager(lease(ALICE, until=900)))["changed"]


@pytest.mark.parametrize(
    ("options", "value"), [({}, None), ({"force": True}, lease(BOB)), ({"state": "absent"}, lease(ALICE))], ids=["free", "forced", "released"]
)
def test_check_mode_reports_and_acquires_nothing(run, options, value):
    manager = FakeManager(value)
    found = run(manager, check_mode=True, **options)
    assert (manager.updates, manager.value) == (0, value)
    assert found == run(manager, **options)


def test_the_diff_shows_only_the_lease(run):
    shown = {"holder": ALICE, "since": "2026-11-21T02:10:00Z", "until": "2026-11-21T02:25:00Z"}
    assert run(FakeManager())["diff"] == {"before": {}, "after": {LABEL: shown}}
    assert run(FakeManager(lease(BOB)))["diff"]["before"] == run(FakeManager(lease(BOB)))["diff"]["after"]


def interfere_once(change):
    left = [change]

    def interfere(kept):
        if left:
            kept["Version"]["Index"] += 1
            left.pop()(kept["Spec"]["Labels"])

    return interfere


def test_the_loser_of_a_race_reads_again_and_is_refused(run):
    manager = FakeManager(interfere=interfere_once(lambda labels: labels.update({LABEL: lease(BOB)})))
    assert run(manager).items() >= {"acquired": False, "holder": BOB}.items()
    assert manager.value == lease(BOB)


def test_the_replaced_holder_is_known_even_if_the_second_update_is_late(run):
    manager = FakeManager(lease(BOB, until=-1))
    changes = iter([0, 0, 1])  # the leader's time, the lease, its end
    manager.interfere = lambda kept: kept["Version"].update(Index=kept["Version"]["Index"] + next(changes, 0))
    assert run(manager).items() >= {"acquired": True, "taken_from": BOB}.items()


def test_another_s_change_meanwhile_is_kept(run):
    manager = FakeManager(interfere=interfere_once(lambda labels: labels.update(owner="eve")))
    assert run(manager)["acquired"]
    assert manager.kept["Spec"]["Labels"]["owner"] == "eve"


def test_a_swarm_that_changes_forever_is_given_up(run):
    def busy(kept):
        kept["Version"]["Index"] += 1

    with pytest.raises(SwarmError, match=r"10 attempts.*Run this again"):
        run(FakeManager(interfere=busy))


@pytest.mark.parametrize(("options", "expected"), [({"holder": ""}, "holder is empty"), ({"holder": None}, "holder"), ({"ttl": 0}, "ttl is 0")])
def test_an_invalid_lease_is_refused_before_a_manager_is_queried(run, options, expected):
    with pytest.raises(SwarmError, match=expected):
        run(None, **options)


# --- on the controller ------------------------------------------------------------------------------------------------


class Module:
    """Returns one answer of the module for each call."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []

    def __call__(self, args):
        self.calls.append(args)
        return self.answers.pop(0)


def test_the_lease_of_a_run_that_has_ended_here_is_taken_at_once():
    ended = this_run().rpartition(".")[0] + ".1)"  # no process of a user starts at the first tick after boot
    run = Module({"acquired": False, "holder": ended}, {"acquired": True, "taken_from": ended})
    assert acquire(run, {"holder": ALICE, "takeover": ["eve"]})["acquired"]
    assert run.calls[1] == {"holder": ALICE, "takeover": ["eve", ended]}


@pytest.mark.parametrize(
    ("answer", "args"),
    [
        ({"acquired": True, "holder": ALICE}, {}),
        ({"acquired": False, "holder": BOB}, {}),
        ({"acquired": False, "holder": this_run()}, {}),
        ({"acquired": False, "holder": None}, {"state": "absent"}),
        ({"failed": True, "msg": "no quorum"}, {}),
        ({"unreachable": True}, {}),
    ],
)
def test_any_other_answer_is_kept(answer, args):
    assert acquire(Module(answer), args) == answer


def test_a_lease_is_renewed_after_half_of_its_time():
    assert renewable({"acquired": True, "expires_in": 900}, 1000.0)["renew_at"] == 1450.0
    for answer in ({"acquired": False, "expires_in": 900}, {"failed": True, "msg": "no quorum"}, {}):
        assert renewable(answer, 1000.0) == answer


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (lease(ALICE), {"holder": ALICE, "since": "2026-11-21T02:09:00Z", "expires_in": 60}),
        (lease(ALICE, until=-1), {"holder": ALICE, "since": "2026-11-21T02:09:00Z", "expires_in": -1}),
        ("release train", {"holder": "release train", "since": None, "expires_in": None}),
    ],
)
def test_a_lease_is_reported_unchanged(value, expected):
    assert swarm_lease.result(FakeManager(value).kept["Spec"], CLOCK) == expected


# -- the outcome of a run -------------------------------------------------------------------------------------------------

NOTE = json.dumps({"ended": swarm_lease.format_time(NOW), "hosts": {"done": 7, "waiting": 1}, "always": True})
OLD = json.dumps({"ended": "2026-11-01T00:00:00Z", "hosts": {"failed": 1}, "always": False})


@pytest.mark.parametrize(
    ("value", "before", "options", "after", "changed"),
    [
        (lease(ALICE), None, {}, NOTE, True),
        (lease(ALICE), OLD, {}, NOTE, True),
        (None, OLD, {}, NOTE, True),  # a run that changed nothing has no lease
        (lease(BOB), OLD, {}, OLD, False),
        (lease(ALICE), OLD, {"outcomes": None}, OLD, True),
        (lease(ALICE), OLD, {"outcomes": {}}, None, True),  # a run of deprovision
    ],
)
def test_a_run_records_its_outcome_when_it_releases_the_lease(run, value, before, options, after, changed):
    manager = FakeManager(value)
    if before:
        manager.kept["Spec"]["Labels"][swarm_lease.LAST_RUN] = before
    given = {"state": "absent", "outcomes": {"done": 7, "waiting": 1}, "always": True, **options}
    assert run(manager, **given)["changed"] is changed
    labels = manager.kept["Spec"]["Labels"]
    assert (labels.get(swarm_lease.LAST_RUN), labels["owner"], manager.updates) == (after, "bob", int(changed))


def test_the_outcome_of_a_run_stays_while_a_lease_is_acquired(run):
    manager = FakeManager()
    manager.kept["Spec"]["Labels"][swarm_lease.LAST_RUN] = OLD
    run(manager, outcomes={"done": 7})
    assert manager.kept["Spec"]["Labels"][swarm_lease.LAST_RUN] == OLD


def test_check_mode_records_nothing(run):
    manager = FakeManager()
    run(manager, check_mode=True, state="absent", outcomes={"done": 1})
    assert manager.updates == 0


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "x",
        "[]",
        "{}",
        '{"ended": "x", "hosts": {}}',
        '{"ended": "2026-11-01T00:00:00Z", "hosts": [1]}',
        '{"ended": "2026-11-01T00:00:00Z", "hosts": {"done": Infinity}}',
    ],
)
def test_an_invalid_record_is_ignored(value):
    assert swarm_lease.last_run({"Labels": {swarm_lease.LAST_RUN: value} if value is not None else None}) is None


def test_a_record_is_read_back():
    assert swarm_lease.last_run({"Labels": {swarm_lease.LAST_RUN: OLD}}) == {"ended": "2026-11-01T00:00:00Z", "hosts": {"failed": 1}, "always": False}


# --- queues -------------------------------------------------------------------------------------------------------------

QUEUES, ROUND = "gpu-swarm.queues", "gpu-swarm.queue-round"
TEXT = '{"research":{"weight":3}}'


@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize("check_mode", [False, True])
def test_the_queues_are_written_with_the_lease_and_only_if_they_differ(run, state, check_mode):
    manager = FakeManager()
    result = run(manager, check_mode, state=state, queues={"research": {"weight": 3}})
    assert (result["changed"], result["queues_before"], result["queues"]) == (True, "", TEXT)
    assert result["diff"]["after"][QUEUES] == TEXT
    assert manager.kept["Spec"]["Labels"].get(QUEUES) == (None if check_mode else TEXT)
    manager.kept["Spec"]["Labels"][QUEUES] = TEXT
    updates = manager.updates
    again = run(manager, check_mode, state="absent", queues={"research": {"weight": 3}})
    assert (again["queues_before"], again["queues"]) == (TEXT, TEXT)
    again = run(manager, check_mode, state="absent", queues={"research": {"weight": 3}})
    assert not again["changed"] or check_mode
    assert manager.updates == updates + (state == "present" and not check_mode)  # the release


def test_without_queues_their_labels_are_removed(run):
    manager = FakeManager()
    manager.kept["Spec"]["Labels"].update({QUEUES: TEXT, ROUND: "m1 7"})
    assert run(manager, state="absent")["queues"] == TEXT
    assert run(manager, state="absent", queues={})["queues"] == ""
    assert manager.kept["Spec"]["Labels"] == {"owner": "bob"}
    updates = manager.updates
    assert not run(manager, state="absent", queues={})["changed"]
    assert manager.updates == updates


def test_while_another_run_has_the_lease_the_queues_stay(run):
    manager = FakeManager(lease(BOB))
    result = run(manager, state="absent", queues={"research": {}})
    assert (result["queues"], result["queues_before"], result["holder"], manager.updates) == ("", "", BOB, 0)
