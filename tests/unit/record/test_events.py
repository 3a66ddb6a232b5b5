# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which events two readings of a swarm show."""

from __future__ import annotations

import json

import pytest
from readings import DAY_S, HOUR, T, node, reading, service, task
from swarm_api import A, B, discrete, named

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import LEFT_OUT
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.reading import Reading
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record import events
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.events import find_events
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import stamp

LATER = T + 60
FAULT = f"fault {A} xid=79 since={T + 30}"


def between(before: Reading, after: Reading):
    """Return the events between two readings. The state between them is kept as JSON."""
    _events, state = find_events(None, before, None)
    return find_events(json.loads(json.dumps(state)), after, int(before.at))[0]


def of_nodes(*nodes, at=T, **options):
    return reading(at, nodes=nodes, **options)


def told(found):
    return [(event.what, event.node, event.cause, event.text) for event in found]


def updated(seconds_ago, made):
    return {**made, "UpdatedAt": stamp(LATER - seconds_ago)}


def test_nothing_happens_in_a_quiet_swarm():
    assert between(reading(T, [task()]), reading(LATER, [task()])) == []


def test_the_first_reading_knows_only_faults():
    found, _state = find_events(None, of_nodes(node(health=FAULT, availability="drain", State="down")), None)
    assert [(event.what, event.card, event.at, event.since) for event in found] == [("fault", A, T, T)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {"State": "down"}, ("node-down", "n1", "down", "is down (was ready)")),
        ({"State": "down"}, {"State": "disconnected"}, None),
        ({"State": "down"}, {}, ("node-up", "n1", "ready", "is ready (was down)")),
        ({}, {"State": "unknown"}, None),
        ({}, {"availability": "pause"}, ("node-paused", "n1", "hand", "paused by hand")),
        ({}, {"availability": "drain"}, ("node-drained", "n1", "hand", "drained by hand")),
        ({"availability": "drain"}, {}, ("node-returned", "n1", "hand", "returned to service by hand")),
    ],
)
def test_a_change_of_a_node_is_an_event(before, after, expected):
    found = between(of_nodes(node(**before)), of_nodes(updated(20, node(**after)), at=LATER))
    assert told(found) == ([expected] if expected else [])
    assert {event.since for event in found} <= {LATER - 20}


@pytest.mark.parametrize(("after", "expected"), [({}, []), ({"State": "down"}, [("node-down", "n1", "down", "is down (was ready)")])])
def test_a_new_leader_that_has_not_heard_a_node_yet_is_no_event(after, expected):
    _found, ready = find_events(None, of_nodes(node()), None)
    found, unknown = find_events(ready, of_nodes(node(State="unknown"), at=LATER), T)
    later, _state = find_events(unknown, of_nodes(node(**after), at=LATER + 5), LATER)
    assert (found, told(later)) == ([], expected)


MARK = {"gpu-swarm.former-availability": "active"}
BY_PROVISION = {**MARK, "gpu-swarm.paused-by": "provision"}
BY_SERVICE = {**MARK, "gpu-swarm.paused-for": FAULT}


@pytest.mark.parametrize(
    ("labels", "cause", "text"),
    [
        (BY_PROVISION, "run", "paused by provision"),
        (MARK, "run", "paused by a run"),
        (BY_SERVICE, "service", f"paused by the managers' service for a fault: {A} xid=79"),
        ({**BY_SERVICE, "gpu-swarm.paused-by": "maintain"}, "run", f"paused by maintain for a fault: {A} xid=79"),
    ],
)
def test_the_labels_tell_who_paused_a_node(labels, cause, text):
    assert told(between(of_nodes(node()), of_nodes(node(labels=labels, availability="pause"), at=LATER))) == [("node-paused", "n1", cause, text)]


@pytest.mark.parametrize(
    ("paused", "left", "cause", "text"),
    [
        (BY_PROVISION, {}, "run", "returned to service by provision"),
        (BY_SERVICE, {}, "run", "returned to service by a run"),
        (BY_SERVICE, BY_SERVICE, "hand", "returned to service by hand"),
        ({}, {}, "hand", "returned to service by hand"),
    ],
)
def test_the_labels_tell_who_returned_a_node(paused, left, cause, text):
    found = between(of_nodes(node(labels=paused, availability="pause")), of_nodes(node(labels=left), at=LATER))
    assert told(found) == [("node-returned", "n1", cause, text)]


def test_nodes_join_and_leave():
    found = between(of_nodes(node("n1"), node("n2")), of_nodes(node("n1"), node("n3"), at=LATER))
    assert told(found) == [("node-up", "n3", "joined", "joined the swarm"), ("node-down", "n2", "left", "left the swarm")]
    assert [event.hostname for event in found] == ["host-n3", "host-n2"]


def test_a_fault_begins_changes_and_ends():
    quiet, faulty = of_nodes(node(health="ok")), of_nodes(node(health=FAULT), at=LATER)
    (began,) = between(quiet, faulty)
    assert (began.what, began.card, began.cause, began.since, began.at) == ("fault", A, "xid 79", T + 30, LATER)
    assert began.text == f"reports a fault: fault {A} xid=79, since {stamp(T + 30)}"
    other = of_nodes(node(health=f"fault {B} reason=lost"), at=LATER)
    assert [(event.what, event.card, event.cause) for event in between(faulty, other)] == [("fault-ended", A, "xid 79"), ("fault", B, "lost")]
    assert told(between(faulty, of_nodes(node(health="ok"), at=LATER))) == [("fault-ended", "n1", "xid 79", f"reports the fault no more: {A} xid 79")]


def test_a_node_that_changes_only_the_time_of_its_fault_makes_no_event():
    assert between(of_nodes(node(health=FAULT)), of_nodes(node(health=FAULT.replace(str(T + 30), str(T + 31))), at=LATER)) == []


@pytest.mark.parametrize("claimed", [1, T - DAY_S, LATER + DAY_S, 253402300799, 999999999999])
def test_a_claimed_time_is_corrected_to_the_time_between_the_readings(claimed):
    (event,) = between(of_nodes(node()), of_nodes(node(health=f"fault {A} xid=79 since={claimed}"), at=LATER))
    assert T <= event.since <= LATER


# -- what a node advertises ------------------------------------------------------------------------------------------

BOTH, ONE = named(A, B), named(A)
EXCLUDED = {LEFT_OUT: f"fault {B} reason=lost"}


def resources(*steps):
    """Return the events of a node that advertises these resources, one after the other. A step may have labels."""
    state, found, at = None, [], T
    for step in steps:
        values, labels = step if isinstance(step, tuple) else (step, {})
        more, state = find_events(state, of_nodes(node(resources=values, labels=labels), at=at), at - 60 if state else None)
        state, at = json.loads(json.dumps(state)), at + 60
        found += [(event.what, event.card, event.cause, event.text) for event in more]
    return found


GONE = ("card-gone", B, "", "is no longer advertised")
BACK = ("card-back", B, "", "is advertised again")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([BOTH, ONE, ONE, BOTH, BOTH], [GONE, BACK]),
        ([BOTH, (ONE, EXCLUDED)], [("card-gone", B, "excluded", "is no longer advertised: lost")]),
        ([named(B), []], [GONE]),
        ([ONE, BOTH], [("policy", "", "NVIDIA-GPU 2", "advertises NVIDIA-GPU 2 instead of NVIDIA-GPU 1")]),
        ([BOTH, discrete(30720)], [("policy", "", "VRAM 30720", "advertises VRAM 30720 instead of NVIDIA-GPU 2")]),
        ([[], ONE], [("policy", "", "NVIDIA-GPU 1", "advertises NVIDIA-GPU 1 instead of nothing")]),
        ([discrete(10), discrete(20)], [("policy", "", "VRAM 20", "advertises VRAM 20 instead of VRAM 10")]),
        ([named(B, A), BOTH], []),
    ],
)
def test_cards_that_fail_are_told_from_changes_of_the_policy(steps, expected):
    assert resources(*steps) == expected


def test_a_hostile_node_cannot_fill_the_record():
    names = [[f"GPU-{turn}-{number}" for number in range(3000)] for turn in range(3)]
    found = resources(*(named(*values) for values in names))
    assert len(found) <= 2 * events.MOST_EVENTS
    _events, state = find_events(None, of_nodes(node(resources=named(*names[0]))), None)
    assert len(json.dumps(state)) < 100_000


def test_a_node_that_lies_hides_no_event_of_others():
    """Its thousands of cards change with each reading, and it comes first."""
    kinds = [[named(f"GPU-{turn}-{number}", kind=f"K{number % 6}")[0] for number in range(3000)] for turn in range(2)]
    tasks = [task("t1"), task("t2", slot=2)]
    before = of_nodes(node("n1", resources=kinds[0]), node("n2", leader=True), node("n3"))
    after = reading(LATER, tasks, [node("n1", resources=kinds[1], health=FAULT), node("n2"), node("n3", leader=True, State="down")])
    found = between(before, after)
    assert {"leader", "allocated-twice", "node-down", "fault"} <= {event.what for event in found}
    assert len(found) <= events.MOST_EVENTS_OF_NODE + 10


# -- the swarm -------------------------------------------------------------------------------------------------------


def test_a_new_leader_is_an_event_and_an_election_is_not():
    one, two = [node("n1", leader=True), node("n2")], [node("n1"), node("n2", leader=True)]
    assert told(between(of_nodes(*one), of_nodes(*two, at=LATER))) == [("leader", "n2", "", "leads the swarm instead of host-n1")]
    assert between(of_nodes(*one), of_nodes(node("n1"), node("n2"), at=LATER)) == []


def test_a_double_allocation_is_one_event():
    one, both = [task("t1")], [task("t1"), task("t2", slot=2)]
    (event,) = between(reading(T, one), reading(LATER, both))
    assert (event.what, event.card, event.cause) == ("allocated-twice", A, "t1+t2")
    assert event.text == f"NVIDIA-GPU {A} is allocated to train.1 and train.2"
    assert between(reading(T, both), reading(LATER, both)) == []


def refused(task_id="t9", code="mount", service_id="s1"):
    error = f"OCI runtime create failed: gpu-swarm: the service train is refused on this node (refusal: {code}): unknown"
    return task(task_id, state="failed", given=[], error=error, service=service_id)


def test_a_refusal_of_the_guard_is_one_event_for_each_service_and_code():
    services = [service("s1", "train"), service("s2", "other")]
    after = [refused(), refused("t8"), refused("t7", "forged"), refused("t6", service_id="s2"), task("t5", state="failed", error="gpu-swarm: hm")]
    found = between(reading(T, [refused()], services=services), reading(LATER, after, services=services))
    assert [(event.what, event.cause) for event in found] == [("guard-refusal", "mount other"), ("guard-refusal", "forged train")]
    assert found[0].text == "the guard refused a task of other (mount): the service train is refused on this node"


def test_work_of_a_queue_that_is_lost_with_its_node_is_one_event():
    def lost(*services):
        work = [{"service": name, "queue": "research", "state": "lost", "node": "host-n1"} for name in services]
        work.append({"service": "runs", "queue": "research", "state": "running", "node": "host-n1"})
        made = reading()
        return made._replace(ledger={**made.ledger, "queue": {"work": work}})

    (event,) = between(lost("b"), lost("a", "b"))
    assert (event.what, event.cause, event.node) == ("work-lost", "a", "n1")
    assert event.text == "a of the queue research is lost, because host-n1 does not answer"
    assert between(lost("a", "b"), lost("b")) == []
    assert len(find_events(find_events(None, lost(), None)[1], lost(*(f"s{number}" for number in range(900))), None)[0]) == 200


def run(ended, **more):
    return {"gpu-swarm.last-run": json.dumps({"ended": stamp(ended), "hosts": {"done": 7, "failed": 1, "waiting": 0}, **more})}


def test_a_run_is_an_event_with_the_outcome_of_its_hosts():
    lease = {"gpu-swarm.lease": json.dumps({"holder": "ada@control pid 7 (run 1.2)", "since": stamp(T), "until": stamp(T + HOUR)})}
    before = reading(T, labels={**run(T - DAY_S), **lease})
    (event,) = between(before, reading(LATER, labels=run(T + 40)))
    assert (event.what, event.since, event.text) == ("run", T + 40, "a run by ada@control ended: 7 done, 1 failed")
    assert between(reading(T, labels=run(T)), reading(LATER, labels=run(T))) == []
    assert len(between(reading(T), reading(LATER, labels=run(T + 40)))) == 1
    assert told(between(reading(T, labels=run(T)), reading(LATER))) == [("run", "", "deprovision", "deprovision ended")]


def test_the_marks_of_nodes_tell_which_playbook_ran():
    """The nodes are back in service when the run ends."""
    marked, state, found = node(labels=BY_PROVISION, availability="pause"), None, []
    steps = [([node()], T), ([marked], T), ([node()], T), ([node()], T + 150), ([node()], T + 170)]
    for number, (nodes, ended) in enumerate(steps):
        more, state = find_events(state, reading(T + number * 60, nodes=nodes, labels=run(ended)), T)
        found += [(event.what, event.cause, event.text) for event in more]
    assert found == [
        ("node-paused", "run", "paused by provision"),
        ("node-returned", "run", "returned to service by provision"),
        ("run", "provision", "provision ended: 7 done, 1 failed"),
        ("run", "", "a run ended: 7 done, 1 failed"),
    ]


def test_no_text_can_break_a_line_or_be_endless():
    nasty = node(health=None, resources=named("\x1b[2J\n" * 500, kind="K\x1b"))
    (event,) = between(of_nodes(node()), of_nodes(nasty, at=LATER))[-1:]
    assert event.text.isprintable()
    assert len(event.text) <= 500


def test_the_state_of_another_release_is_compared_with_nothing():
    assert find_events({"nodes": {"n9": "another form"}}, reading(T), T)[0] == []
