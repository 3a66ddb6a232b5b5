# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each step of a run and of its windows, with a manager that answers from a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from fleet_lab import assessed, ledger, member, named, step_with, task
from host_vars import HostVars
from node_lab import resources

from ansible_collections.fleet.gpu_swarm.plugins.action import swarm_batch
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import Removal
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.batch import Batch
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.steps import STEPS

KEEP = "team.keep"
OF_RUN = {"provision_max_failed": 1, "provision_keep_label": KEEP, "provision_note_run": False}
SETTINGS = {"provision_wait": 60, "provision_drain_timeout": 20}
HELD = {"acquired": True, "holder": "me", "since": "10:00", "expires_in": 900, "renew_at": 500.0}
OTHERS = {"acquired": False, "holder": "bob", "since": "11:00", "expires_in": 90}
DEAD = {"failed": True, "msg": "no route"}
WRITTEN = {"nodes": []}
SERVICE, SWEEP = task("web.1", "web"), task("sweep.1", "sweep", movable=False)
LEFT, WAITS = {"state": "failed", "reason": "before"}, {"state": "waiting", "reason": "container x"}


class Manager:
    """Returns the answers for a module in turn, and repeats the last answer. By default, it reports that it wrote the requested values."""

    def __init__(self, **answers):
        answers = {"swarm_nodes": WRITTEN, "swarm_lease": HELD, **answers}
        self.answers = {name: list(found) if isinstance(found, list) else [found] for name, found in answers.items()}
        self.calls = []

    def __call__(self, module, **args):
        self.calls.append((module, args))
        left = self.answers[module]
        return left.pop(0) if len(left) > 1 else left[0]

    def calls_of(self, module):
        return [args for name, args in self.calls if name == module]


def polled(query, waits_for, timeout, say, delay=2):
    """Query at most ``timeout`` times: a round takes a second."""
    answer = query()
    for _round in range(int(timeout)):
        if not waits_for(answer):
            break
        answer = query()
    return answer


def plan(*names, **other):
    steps = {name: asdict(step_with(stops="containers", node_id=f"n-{name}", settings=SETTINGS)) for name in names}
    groups = {"gpu_swarm_window": list(names), "gpu_swarm_marked": list(names)}
    made = {"steps": steps, "to_change": list(names), "rooms": {}, "settings": dict(OF_RUN), "hosts_in": groups}
    kept = {"isolation": {"level": "off", "set": False, "change": {}}, "queues": {"wanted": None, "change": {}}}
    of_swarm = {**kept, "left_lease": "", "manager": "m", "managers": ["m"]}
    return {**made, **of_swarm, "only_paused": [], "cleared": [], "to_pause": {}, **other}


def batch(manager, names="ab", outcomes=None, variables=None, made=None, **other):
    made = made or plan(*names)
    hosts = {
        name: {
            "gpu_swarm_plan": made,
            "gpu_node_assessed": assessed(f"n-{name}"),
            "gpu_swarm_outcome": (outcomes or {}).get(name, {}),
            **(variables or {}).get(name, {}),
        }
        for name in names
    }
    options = {"lease": HELD, "ttl": 900, "say": lambda text: None, "poll": polled, "clock": lambda: 0.0, **other}
    return Batch(list(names), hosts, made, manager, **options)


def shown(*nodes, **others):
    """Return the ledger. By default a and b are members without tasks."""
    given = {node["id"] for node in nodes}
    return {**ledger(*nodes, *(member(f"n-{name}", bound=name) for name in "ab" if f"n-{name}" not in given)), **others}


# --- the beginning of a batch -------------------------------------------------------------------------------------------


def test_a_batch_begins_with_the_lease():
    manager = Manager(swarm_gpu_info=shown(), swarm_lease=HELD)
    answer = STEPS["begin"](batch(manager, lease={}))
    assert (answer["answered"], answer["outcomes"], answer["lease"]) == (True, {}, HELD)
    assert manager.calls_of("swarm_lease") == [{"ttl": 900, "force": False}]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"swarm_gpu_info": DEAD}, "no manager could be queried about the swarm (no route)"),
        ({"swarm_gpu_info": shown(), "swarm_lease": DEAD}, "the lease of this swarm could not be taken: no route"),
    ],
)
def test_a_silent_manager_leaves_the_batch_to_the_next_one(answers, reason):
    answer = STEPS["begin"](batch(Manager(**answers)))
    assert not answer["answered"]
    assert "lease" not in answer  # the next manager reads the holder of the lease
    assert {outcome["state"] for outcome in answer["outcomes"].values()} == {"untouched"}
    assert all(reason in answer["outcomes"][name]["reason"] for name in "ab")


def test_a_manager_that_lost_its_leader_is_given_time():
    manager = Manager(swarm_gpu_info=[{"failed": True, "swarm_state": "no_quorum"}] * 3 + [shown()], swarm_lease=HELD)
    assert STEPS["begin"](batch(manager))["answered"]
    assert len(manager.calls_of("swarm_gpu_info")) == 5  # the last query reads the tasks that must not be stopped


def test_another_run_s_lease_leaves_the_batch_untouched():
    made = plan(*"ab", settings={**OF_RUN, "provision_max_failed": 2})
    answer = STEPS["begin"](batch(Manager(swarm_gpu_info=shown(), swarm_lease=OTHERS), outcomes={"a": LEFT}, made=made))
    assert answer["answered"]
    assert list(answer["outcomes"]) == ["b"]  # the other run's lease stays unchanged
    assert "another run changes this swarm: bob" in answer["outcomes"]["b"]["reason"]


@pytest.mark.parametrize(("finds_room_after", "outcomes"), [(0, 0), (3, 0), (40, 2)])
def test_tasks_get_time_to_find_a_place(finds_room_after, outcomes):
    pending = {"pending": [{"service": "web", "count": 1}]}
    manager = Manager(swarm_gpu_info=[shown(**pending)] * finds_room_after + [shown(member("n-a", tasks=[SERVICE]))], swarm_lease=HELD)
    answer = STEPS["begin"](batch(manager, made=plan(*"ab", rooms={"web": {"running": 1, "pending": 0}})))
    assert len(answer["outcomes"]) == outcomes
    paused = bool(manager.calls_of("swarm_nodes"))
    assert (len(manager.calls_of("swarm_gpu_info")), paused) == (min(finds_room_after, 31) + 1 + paused, not outcomes)


def test_a_run_that_removes_resources_does_not_wait_for_services():
    """This holds for deprovision: if a service fits nowhere any more, it does not delay the next batch."""
    manager = Manager(swarm_gpu_info=shown(pending=[{"service": "web", "count": 1}]), swarm_lease=HELD)
    assert STEPS["begin"](batch(manager, made=plan(*"ab", rooms=None)))["outcomes"] == {}
    assert len(manager.calls_of("swarm_gpu_info")) == 2


def test_a_stopped_roll_waits_for_nothing():
    manager = Manager(swarm_gpu_info=shown(pending=[{"service": "web", "count": 1}]), swarm_lease=HELD)
    made = plan(*"abc", rooms={"web": {"running": 1, "pending": 0}})
    STEPS["begin"](batch(manager, "abc", outcomes={"c": {"state": "untouched", "reason": "x"}}, made=made))
    assert len(manager.calls_of("swarm_gpu_info")) == 1


def test_a_manager_that_the_quorum_needs_is_not_changed():
    managers = [member(f"n-{name}", "manager", bound=name) for name in "abc"]
    made = plan(*"abc", hosts_in={"gpu_swarm_window": list("abc"), "gpu_swarm_window_managers": list("abc")})
    down = [*managers[:2], {**managers[2], "reachability": "unreachable"}]
    running, answers = batch(Manager(swarm_gpu_info=ledger(*down), swarm_lease=HELD), "abc", made=made), {}
    running.hosts = ["a"]
    answers = STEPS["begin"](running)["outcomes"]
    assert "without this manager, only 1 of 3 managers would be reachable" in answers["a"]["reason"]


def test_hosts_that_may_be_changed_are_paused_in_the_same_call():
    manager = Manager(swarm_gpu_info=shown(), swarm_lease=HELD, swarm_nodes=WRITTEN)
    assert STEPS["begin"](batch(manager))["answered"]
    assert [update["id"] for args in manager.calls_of("swarm_nodes") for update in args["nodes"]] == ["n-a", "n-b"]


def test_a_batch_without_an_answering_manager_keeps_the_lease_for_the_others():
    answer = STEPS["begin"](batch(Manager(swarm_gpu_info=DEAD)))
    assert (answer["answered"], set(answer["outcomes"]), "lease" in answer) == (False, set("ab"), False)


def test_without_the_lease_no_host_is_paused():
    manager = Manager(swarm_gpu_info=shown(), swarm_lease=OTHERS)
    answer = STEPS["begin"](batch(manager))
    assert (set(answer["outcomes"]), manager.calls_of("swarm_nodes")) == (set("ab"), [])


# --- pause --------------------------------------------------------------------------------------------------------------


def test_nodes_are_paused_and_their_tasks_waited_for():
    busy = shown(member("n-a", bound="a", tasks=[SERVICE, SWEEP]))
    manager = Manager(swarm_gpu_info=[busy, busy, busy, shown()])
    answer = STEPS["begin"](batch(manager, outcomes={"b": WAITS}))
    assert answer == {"answered": True, "ledger": shown(), "lease": HELD, "outcomes": {}}
    update = {"id": "n-a", "host": "a", "availability": "pause", "remember": True}
    assert manager.calls_of("swarm_nodes") == [{"nodes": [update], "holder": "me", "keep_label": KEEP}]
    assert len(manager.calls_of("swarm_gpu_info")) == 4


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"swarm_nodes": DEAD}, "it could not be paused: no route"),
        ({"swarm_nodes": {"failed": True}}, "it could not be paused: the manager did not say why"),
        ({"swarm_gpu_info": [shown(), DEAD]}, "the manager did not say what runs here: no route"),
    ],
)
def test_a_manager_that_stops_answering_passes_the_wait_to_the_next_one(answers, reason):
    answer = STEPS["begin"](batch(Manager(**{"swarm_gpu_info": shown(), **answers})))
    assert not answer["answered"]
    assert answer["outcomes"] == {name: {"state": "failed", "reason": reason} for name in "ab"}


ELECTING = {"failed": True, "swarm_state": "no_quorum", "msg": "no leader"}


def test_an_election_does_not_end_the_wait_for_tasks():
    busy = shown(member("n-a", bound="a", tasks=[SWEEP]))
    manager = Manager(swarm_nodes=[ELECTING, WRITTEN], swarm_gpu_info=[busy, busy, ELECTING, ELECTING, busy, shown()])
    answer = STEPS["begin"](batch(manager))
    assert (answer["answered"], answer["outcomes"], answer["ledger"]) == (True, {}, shown())
    assert len(manager.calls_of("swarm_nodes")) == 2


def test_a_wait_continues_after_one_lost_connection():
    busy = shown(member("n-a", bound="a", tasks=[SWEEP]))
    answer = STEPS["begin"](batch(Manager(swarm_gpu_info=[busy, busy, DEAD, busy, shown()])))
    assert (answer["answered"], answer["outcomes"], answer["ledger"]) == (True, {}, shown())


@pytest.mark.parametrize("step", ["renew", "acquire", "begin"])
def test_a_lease_outlasts_an_election(step):
    """For example, after the reboot of a leader the node is back, but no leader is elected yet."""
    manager = Manager(swarm_gpu_info=shown(), swarm_lease=[ELECTING, ELECTING, HELD], swarm_nodes=WRITTEN)
    answer = STEPS[step](batch(manager))
    assert (answer["answered"], answer["outcomes"], answer["lease"]) == (True, {}, HELD)


@pytest.mark.parametrize(("lease", "holder"), [(HELD, {"holder": "me"}), ({}, {}), (OTHERS, {})])
def test_writes_need_the_lease(lease, holder):
    """A call may hang, and the run may no longer wait for it. Such a call must not write while another run has the lease."""
    manager = Manager(swarm_nodes=WRITTEN)
    made = plan(*"ab")
    for step in made["steps"].values():
        step["removal"] = asdict(Removal())
    STEPS["unlabel"](batch(manager, made=made, lease=lease, lease_known=True))
    [args] = manager.calls_of("swarm_nodes") or [{"nodes": []}]
    assert {key: value for key, value in args.items() if key not in ("nodes", "keep_label")} == holder


@pytest.mark.parametrize("step", [STEPS["drain"], STEPS["unlabel"]])
def test_without_hosts_nothing_is_done(step):
    manager = Manager()
    assert step(batch(manager, outcomes=dict.fromkeys("ab", LEFT)))["answered"]
    assert manager.calls == []


# --- drain --------------------------------------------------------------------------------------------------------------


def test_tasks_that_must_end_first_are_waited_for_and_others_are_drained():
    book = shown(member("n-a", bound="a", tasks=[SWEEP]), member("n-b", bound="b", tasks=[SERVICE]))
    manager = Manager(swarm_nodes=WRITTEN)
    answer = STEPS["drain"](batch(manager, ledger=book))
    assert answer["outcomes"] == {"a": {"state": "waiting", "reason": "task sweep.1 of service sweep"}}
    assert answer["drained"] == ["b"]
    assert [update["id"] for (args,) in [manager.calls_of("swarm_nodes")] for update in args["nodes"]] == ["n-b"]


def test_unreadable_containers_count_as_running():
    answer = STEPS["drain"](batch(Manager(), variables={"a": {"gpu_node_assessed": {"swarm": {"node_id": "n-a"}}}}, ledger=shown()))
    assert answer["outcomes"] == {"a": {"state": "waiting", "reason": "its containers, which could not be read"}}


@pytest.mark.parametrize(
    ("written", "answered", "outcome"),
    [
        (DEAD, False, {"state": "failed", "reason": "it could not be drained: no route"}),
        (
            {"nodes": [], "refused": [{"id": "n-a", "tasks": [{"service": "job", "slot": 1, "task": "t", "constraint": None, "reason": "drain"}]}]},
            True,
            {"state": "waiting", "reason": "task job.1 (started after the node was assessed, and a drain would stop it)"},
        ),
    ],
)
def test_a_node_that_is_not_drained_is_not_changed(written, answered, outcome):
    manager = Manager(swarm_nodes=written)
    answer = STEPS["drain"](batch(manager, "a", ledger=shown(member("n-a", bound="a", tasks=[SERVICE]))))
    assert (answer["answered"], answer["outcomes"], answer["drained"]) == (answered, {"a": outcome}, [])


@pytest.mark.parametrize(("now", "renewed"), [(0.0, False), (490.0, True), (600.0, True)])
def test_the_lease_is_renewed_when_it_would_be_due_after_the_drain(now, renewed):
    manager = Manager(swarm_lease=HELD)
    answer = STEPS["drain"](batch(manager, ledger=shown(), clock=lambda: now))
    assert bool(manager.calls_of("swarm_lease")) is renewed
    assert answer["outcomes"] == {}


@pytest.mark.parametrize(
    ("found", "words", "answered"),
    [
        (OTHERS, "another run changes this swarm: bob", True),
        ({**HELD, "since": "12:00"}, "another run took the lease", True),
        (DEAD, "could not be taken: no route", False),
    ],
)
def test_no_node_is_drained_without_the_same_lease(found, words, answered):
    manager = Manager(swarm_lease=found, swarm_nodes=WRITTEN)
    book = shown(member("n-a", bound="a", tasks=[SERVICE]))
    answer = STEPS["drain"](batch(manager, ledger=book, clock=lambda: 600.0))
    assert answer["answered"] is answered
    assert manager.calls_of("swarm_nodes") == []
    for name in "ab":
        assert words in answer["outcomes"][name]["reason"]
        assert (answer["outcomes"][name]["state"], answer["outcomes"][name]["leave_paused"]) == ("untouched", True)


JOB = {"service": "job", "node": "n-a", "kind": "NVIDIA-GPU", "values": [], "amount": 1, "clash": True}


@pytest.mark.parametrize(
    ("consent", "pruned", "reason"),
    [
        (True, {"removed": ["job"], "kept": []}, None),
        (True, {"removed": [], "kept": [{"reason": "it runs"}]}, "job job could not be removed: it runs"),
        (True, DEAD, "job job could not be removed: no route"),
        (False, None, "finished job job, which would run again (provision_remove_finished_jobs: true removes it)"),
    ],
)
def test_finished_jobs_are_removed_with_consent_or_waited_for(consent, pruned, reason):
    made = plan(*"ab")
    for step in made["steps"].values():
        step["work"]["remove_jobs"] = consent
    manager = Manager(swarm_job_prune=pruned)
    answer = STEPS["drain"](batch(manager, made=made, ledger=shown(finished_jobs=[JOB])))
    assert answer["outcomes"] == ({"a": {"state": "waiting", "reason": reason}} if reason else {})
    assert answer["answered"] is (pruned is not DEAD)


# --- return to service --------------------------------------------------------------------------------------------------


def test_nodes_return_to_service_by_one_call_if_the_manager_shows_their_resources():
    manager = Manager(swarm_nodes=WRITTEN)
    answer = STEPS["restore"](batch(manager, ledger=shown()))
    ((module, args),) = manager.calls
    assert (answer["answered"], module) == (True, "swarm_nodes")
    assert [(update["id"], update["availability"], update["if_shown"]) for update in args["nodes"]] == [
        ("n-a", "former", resources(0, 1)), ("n-b", "former", resources(0, 1)),
    ]  # fmt: skip


HELD_BACK = {"nodes": [], "held_back": [{"id": "n-a", "hostname": "a", "reason": "it is not ready"}]}


@pytest.mark.parametrize(
    ("first", "known"),
    [
        (HELD_BACK, {}),
        (DEAD, {}),
        (None, {"outcomes": {"b": {"state": "waiting", "reason": "x"}}}),
        (None, {"ledger": {}}),
        (None, {"ledger": "a job of a would run again"}),
    ],
)
def test_otherwise_each_node_is_checked_with_a_new_ledger(first, known):
    at_first = {**known, "ledger": shown(finished_jobs=[JOB])} if isinstance(known.get("ledger"), str) else {"ledger": shown(), **known}
    manager = Manager(swarm_gpu_info=shown(), swarm_nodes=[*([first] if first else []), WRITTEN])
    answer = STEPS["restore"](batch(manager, **at_first))
    names = [*(["swarm_nodes"] if first else []), "swarm_gpu_info", "swarm_nodes"]
    assert (answer["answered"], [module for module, _args in manager.calls]) == (True, names)
    assert not any("if_shown" in update for update in manager.calls[-1][1]["nodes"])


def test_a_manager_that_hung_is_not_called_again():
    manager, moments = Manager(swarm_nodes=DEAD), iter([0.0, 600.0])
    answer = STEPS["restore"](batch(manager, ledger=shown(), clock=lambda: next(moments)))
    assert (answer["answered"], [module for module, _args in manager.calls]) == (False, ["swarm_nodes"])


def test_nodes_return_to_service_when_the_manager_shows_their_resources():
    late = shown(member("n-a", bound="a", shown=()))
    manager = Manager(swarm_gpu_info=[late, late, shown()], swarm_nodes=[DEAD, WRITTEN])
    answer = STEPS["restore"](batch(manager, outcomes={"b": {"state": "waiting", "reason": "x"}}))
    assert answer["answered"]
    assert len(manager.calls_of("swarm_gpu_info")) == 3
    assert [[update["id"] for update in args["nodes"]] for args in manager.calls_of("swarm_nodes")] == [["n-a"], ["n-a"]]  # b stays paused


def test_a_manager_that_cannot_write_leaves_the_return_to_the_next_one():
    paused = shown(member("n-a", bound="a", former_availability="active", availability="pause"))
    answer = STEPS["restore"](batch(Manager(swarm_gpu_info=paused, swarm_nodes=DEAD)))
    assert not answer["answered"]


def test_an_unreadable_ledger_does_not_replace_the_last_one():
    manager = Manager(swarm_gpu_info=[shown(member("n-a", bound="a", shown=()), finished_jobs=[JOB]), DEAD], swarm_nodes=WRITTEN)
    answer = STEPS["restore"](batch(manager))
    assert "nodes" in answer["ledger"]
    assert [update["id"] for (args,) in [manager.calls_of("swarm_nodes")] for update in args["nodes"]] == ["n-b"]  # on a, the job would run again


def test_without_a_manager_nothing_is_written():
    manager = Manager(swarm_gpu_info=DEAD)
    answer = STEPS["restore"](batch(manager))
    assert (answer["answered"], manager.calls_of("swarm_nodes")) == (False, [])


# --- the start and the end of a run ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "calls"),
    [
        ({}, ["swarm_lease"]),
        ({"only_paused": ["a"]}, ["swarm_lease", "swarm_nodes"]),
        ({"cleared": ["a"]}, ["swarm_lease", "swarm_nodes"]),
        ({"to_change": [], "left_lease": "dead run"}, ["swarm_lease", "swarm_lease"]),
        ({"to_change": []}, []),
        ({"to_pause": {"a": "fault reason=mismatch"}}, ["swarm_lease", "swarm_nodes", "swarm_gpu_info"]),
        # If there is nothing else to do, no later step would release the lease.
        ({"to_pause": {"a": "fault reason=mismatch"}, "to_change": []}, ["swarm_lease", "swarm_nodes", "swarm_gpu_info", "swarm_lease"]),
    ],
)
def test_a_run_starts_with_the_lease_and_with_nodes_that_are_only_paused(made, calls):
    manager = Manager(swarm_lease=HELD, swarm_nodes=WRITTEN, swarm_gpu_info=shown())
    answer = STEPS["start"](batch(manager, lease={}, made=plan(*"ab", **made)))
    assert [name for name, _args in manager.calls] == calls
    assert (answer["answered"], answer["outcomes"]) == (True, {})


STALE = "fault GPU-b8307e85-5370-58d6-87c0-be1b403b4799 reason=lost since=1764000000"


def test_healthy_nodes_are_recorded_before_a_place_among_the_paused_is_freed():
    """Otherwise, a manager would pause the node at once for the fault that the node still reports."""
    manager = Manager(swarm_lease=HELD, swarm_nodes=WRITTEN)
    made = plan(*"ab", cleared=["b"], only_paused=["a"])
    found = {name: {"gpu_node_assessed": assessed(f"n-{name}", health={"label": "ok", "shown": STALE})} for name in "ab"}
    STEPS["start"](batch(manager, lease={}, made=made, variables=found))
    (call,) = manager.calls_of("swarm_nodes")
    assert [(update["id"], update["availability"], update["over"]) for update in call["nodes"]] == [
        ("n-b", "former", STALE), ("n-a", "former", STALE)
    ]  # fmt: skip


@pytest.mark.parametrize(("paused", "returned"), [(True, ["n-b"]), (False, [])])
def test_a_healthy_node_that_was_paused_too_early_returns_at_the_end(paused, returned):
    node = member("n-b", bound="b", **({"availability": "pause", "former_availability": "active", "paused_for": STALE} if paused else {}))
    manager = Manager(swarm_lease=HELD, swarm_nodes=WRITTEN, swarm_gpu_info=shown(node))
    made = plan(*"ab", cleared=["b"], hosts_in={"gpu_swarm_end": ["a"]})
    found = {"b": {"gpu_node_assessed": assessed("n-b", health={"label": "ok", "shown": STALE})}}
    STEPS["finish"](batch(manager, made=made, variables=found))
    written = [update for call in manager.calls_of("swarm_nodes") for update in call["nodes"]]
    assert [update["id"] for update in written if update.get("availability") == "former"] == returned
    assert all(update["over"] == STALE for update in written)


def test_a_leftover_lease_is_released_only_after_the_leader_says_that_it_has_ended():
    manager = Manager(swarm_lease={"acquired": False, "holder": "alice"})
    answer = STEPS["start"](batch(manager, lease={}, made=plan(*"ab", to_change=[], left_lease="alice")))
    assert [args.get("state", "present") for _name, args in manager.calls] == ["present"]
    assert (answer["lease"], answer["outcomes"]) == ({}, {})


UNKNOWN = {"failed": True, "msg": "No such node", "unknown": ["n-a"]}
REFUSED = {"failed": True, "msg": "no quorum"}


@pytest.mark.parametrize(
    ("answers", "written", "answered", "warned"),
    [
        ([WRITTEN], [["n-a", "n-b"]], True, []),
        ([UNKNOWN, WRITTEN], [["n-a", "n-b"], ["n-b"]], True, []),
        ([UNKNOWN, REFUSED], [["n-a", "n-b"], ["n-b"]], False, ["b: could not be paused for a fault: no quorum"]),
        ([REFUSED], [["n-a", "n-b"]], False, ["a, b: could not be paused for a fault: no quorum"]),
    ],
)
def test_nodes_with_faults_are_paused_where_possible(answers, written, answered, warned):
    """If this manager cannot pause them, the next manager tries."""
    manager, said = Manager(swarm_lease=HELD, swarm_nodes=answers, swarm_gpu_info=shown()), []
    made = plan(*"ab", to_pause={"a": "fault reason=mismatch", "b": "fault reason=hang"})
    answer = STEPS["start"](batch(manager, lease={}, made=made, warn=said.append))
    assert [[update["id"] for update in args["nodes"]] for args in manager.calls_of("swarm_nodes")] == written
    assert (answer["answered"], said) == (answered, warned)


def test_without_the_lease_no_node_returns_to_service_or_is_paused():
    manager = Manager(swarm_lease=OTHERS)
    made = plan(*"ab", to_change=["a"], only_paused=["b"], to_pause={"a": "fault reason=hang"})
    answer = STEPS["start"](batch(manager, lease={}, made=made))
    assert [name for name, _args in manager.calls] == ["swarm_lease"]
    assert list(answer["outcomes"]) == ["a"]


def test_hosts_do_not_join_a_swarm_while_another_run_has_the_lease():
    answer = STEPS["acquire"](batch(Manager(swarm_lease=OTHERS), made=plan(*"ab", to_change=["a"])))
    assert [(name, outcome["state"]) for name, outcome in answer["outcomes"].items()] == [("a", "untouched")]
    assert "another run changes this swarm: bob" in answer["outcomes"]["a"]["reason"]
    assert STEPS["acquire"](batch(Manager(swarm_lease=HELD)))["outcomes"] == {}


@pytest.mark.parametrize(("found", "reason"), [(HELD, None), ({**HELD, "since": "12:00"}, "another run took the lease")])
def test_a_renewed_lease_stays_the_same(found, reason):
    answer = STEPS["renew"](batch(Manager(swarm_lease=found)))
    assert [outcome["state"] for outcome in answer["outcomes"].values()] == (["out", "out"] if reason else [])
    assert all(reason in outcome["reason"] for outcome in answer["outcomes"].values())


def test_the_end_returns_nodes_and_labels_them_and_releases_the_lease():
    paused = shown(member("n-a", bound="a", former_availability="active", availability="pause"), member("n-b", bound="b", labels={}))
    refused = {"id": "n-a", "tasks": []}
    manager = Manager(swarm_gpu_info=[paused, shown()], swarm_nodes=[{**WRITTEN, "refused": [refused]}, DEAD], swarm_lease={"acquired": False})
    made = plan(*"ab")
    made["hosts_in"]["gpu_swarm_label"] = ["b"]
    answer = STEPS["finish"](batch(manager, made=made))
    written = [[(update["id"], update.get("availability")) for update in args["nodes"]] for args in manager.calls_of("swarm_nodes")]
    assert written == [[("n-a", "former")], [("n-b", None)]]
    assert manager.calls_of("swarm_lease") == [{"state": "absent", "outcomes": {"done": 2}, "always": False}]
    assert (answer["answered"], answer["ledger"], answer["refused"], answer["unlabelled"]) == (True, shown(), [refused], "no route")


RELEASED = {"acquired": False, "isolation": "off", "isolation_before": "off", "changed": True}


@pytest.mark.parametrize(
    ("written", "calls"),
    [
        ({**WRITTEN, "lease": RELEASED}, 0),
        ({**WRITTEN, "refused": [{"id": "n-b", "tasks": []}]}, 1),
        (WRITTEN, 1),  # the lease was not released by this call
        (DEAD, 1),
    ],
)
@pytest.mark.parametrize("lease", [HELD, {}])
def test_the_call_that_writes_the_last_labels_releases_the_lease(written, calls, lease):
    manager = Manager(swarm_gpu_info=shown(member("n-b", bound="b", labels={})), swarm_nodes=written, swarm_lease=RELEASED)
    made = plan(*"ab")
    made["hosts_in"]["gpu_swarm_label"] = ["b"]
    STEPS["finish"](batch(manager, made=made, lease=lease, holder="me"))
    (call,) = manager.calls_of("swarm_nodes")
    assert {name: call[name] for name in ("release", "outcomes", "always")} == {"release": "me", "outcomes": {"done": 2}, "always": False}
    assert [one["outcomes"] for one in manager.calls_of("swarm_lease")] == [{"done": 2}] * calls


@pytest.mark.parametrize(
    ("node", "other"),
    [
        ({"state": "down"}, {}),  # after the call, the run must still wait for the node
        ({"former_availability": "active", "availability": "pause"}, {}),
        ({}, {"absent": True}),
        ({}, {"check_mode": True}),
    ],
)
def test_otherwise_the_lease_is_released_at_the_very_end(node, other):
    there = shown(member("n-a", bound="a", **node), member("n-b", bound="b", labels={}))
    manager = Manager(swarm_gpu_info=[there, shown()], swarm_nodes=WRITTEN, swarm_lease=RELEASED)
    made = plan(*"ab")
    made["hosts_in"]["gpu_swarm_label"] = ["b"]
    STEPS["finish"](batch(manager, made=made, **other))
    assert [call for call in manager.calls_of("swarm_nodes") if "release" in call] == []
    assert [module for module, _args in manager.calls if module != "swarm_gpu_info"][-1] == "swarm_lease"


def test_a_host_whose_batch_did_not_have_the_lease_does_not_return_at_the_end():
    """Another run may have paused the host in the meantime, and may have released its lease already."""
    paused = shown(*(member(f"n-{name}", bound=name, former_availability="active", availability="pause") for name in "ab"))
    manager = Manager(swarm_gpu_info=[paused, shown()], swarm_nodes=WRITTEN, swarm_lease={"acquired": False})
    untouched = {"state": "untouched", "reason": "another run changes this swarm"}
    kept = {"a": {"gpu_swarm_lease": HELD}, "b": {"gpu_swarm_lease": OTHERS}}
    STEPS["finish"](batch(manager, outcomes={"b": untouched}, variables=kept))
    assert [[update["id"] for update in args["nodes"]] for args in manager.calls_of("swarm_nodes")] == [["n-a"]]


def test_the_end_records_how_many_hosts_have_each_outcome():
    there = shown(*(member(f"n-{name}", bound=name) for name in "abc"))
    manager = Manager(swarm_gpu_info=there, swarm_nodes=WRITTEN, swarm_lease={"acquired": False})
    made = plan(*"abc", hosts_in={})
    made["settings"]["provision_note_run"] = True
    kept = {"a": {"state": "waiting", "reason": "a task"}, "b": {"state": "lost", "reason": "x"}}
    STEPS["finish"](batch(manager, "abc", made=made, outcomes=kept, lease={}))
    assert manager.calls_of("swarm_lease") == [{"state": "absent", "outcomes": {"done": 1, "waiting": 1, "failed": 1}, "always": True}]


@pytest.mark.parametrize(
    ("of_step", "node", "verdict"),
    [
        ({}, {}, "done"),
        ({"error": "its policy names no GPU"}, {}, "failed"),
        ({"left_alone": True, "waits_for": ["a task"]}, {}, "waiting"),
        ({}, None, "failed"),  # the host is not in the swarm
        ({}, {"state": "down"}, "failed"),
        ({}, {"former_availability": "active", "availability": "pause"}, "failed"),  # the node could not be returned to service
        ({}, {"shown": ()}, "failed"),  # the manager shows other resources than decided
        ({}, {"availability": "pause", "set_by_run": False}, "done"),  # a user decides when that ends
    ],
)
def test_the_end_records_what_the_report_shows(of_step, node, verdict):
    nodes = [member("n-b", bound="b")] + ([] if node is None else [member("n-a", bound="a", **{"shown": (0,), **node})])
    manager = Manager(swarm_gpu_info={"nodes": nodes}, swarm_nodes=WRITTEN, swarm_lease={"acquired": False})
    made = plan(*"ab", hosts_in={})
    made["steps"]["a"] = asdict(step_with(**{"stops": "containers", "node_id": "n-a", "settings": SETTINGS, **of_step}))
    found = assessed("n-a", gpus=1)
    STEPS["finish"](batch(manager, made=made, variables={"a": {"gpu_node_assessed": found}}, lease={}))
    (noted,) = manager.calls_of("swarm_lease")
    assert noted["outcomes"] == dict(Counter(["done", verdict]))


def test_the_end_records_unfit_and_lost_nodes():
    fault = "fault GPU-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30 reason=lost"
    paused = member("n-a", bound="a", former_availability="active", availability="pause", paused_for=fault)
    manager = Manager(swarm_gpu_info=shown(paused), swarm_nodes=WRITTEN, swarm_lease={"acquired": False})
    made = plan(*"abcd", hosts_in={})
    made["steps"]["c"]["error"] = "unreachable: no route"
    STEPS["finish"](batch(manager, "ab", made=made, lease={}))
    assert manager.calls_of("swarm_lease")[0]["outcomes"] == {"failed": 2, "done": 2}


def test_the_final_state_is_awaited_before_it_is_recorded():
    late = shown(member("n-a", bound="a", state="down"))
    manager = Manager(swarm_gpu_info=[late, late, shown()], swarm_nodes=WRITTEN, swarm_lease={"acquired": False})
    STEPS["finish"](batch(manager, made=plan(*"ab", hosts_in={}), lease={}))
    assert [module for module, _args in manager.calls] == ["swarm_gpu_info"] * 3 + ["swarm_lease"]
    assert manager.calls_of("swarm_lease")[0]["outcomes"] == {"done": 2}


def test_a_deprovision_leaves_no_record():
    manager = Manager(swarm_gpu_info=shown(), swarm_nodes=WRITTEN, swarm_lease={"acquired": False})
    STEPS["finish"](batch(manager, absent=True, made=plan(*"ab", hosts_in={})))
    assert [call["outcomes"] for call in manager.calls_of("swarm_lease")] == [{}]
    STEPS["finish"](batch(manager, absent=True, made=plan(*"ab", hosts_in={}), lease={}))
    assert len(manager.calls_of("swarm_lease")) == 1


def test_a_check_run_only_reads_at_the_end():
    manager = Manager(swarm_gpu_info=shown(member("n-a", bound="a", shown=())))
    assert STEPS["finish"](batch(manager, lease={}, check_mode=True, made=plan(*"ab", hosts_in={})))["answered"]
    assert len(manager.calls) == 1


def test_the_end_of_a_deprovision_reads_what_remains():
    manager = Manager(swarm_gpu_info=[shown(), DEAD], swarm_lease={"acquired": False}, swarm_nodes=WRITTEN)
    answer = STEPS["finish"](batch(manager, absent=True))
    assert (answer["answered"], answer["ledger"]) == (True, DEAD)  # the state is unknown


def test_a_host_whose_labels_could_not_be_removed_is_not_done():
    made = plan(*"ab")
    for step in made["steps"].values():
        step["removal"] = asdict(Removal())
    answer = STEPS["unlabel"](batch(Manager(swarm_nodes=DEAD), made=made))
    assert answer["outcomes"] == {name: {"state": "failed", "reason": "its labels could not be removed: no route"} for name in "ab"}


def test_resources_in_the_fixtures_equal_the_decided_ones():
    assert shown()["nodes"][0]["resources"] == {"NVIDIA-GPU": named(0, 1)}


# --- the action ---------------------------------------------------------------------------------------------------------


def acted(monkeypatch, execute, step="unlabel", of_plan=None, **task_vars):
    """Run the action with ``execute`` in place of a module, and return its result."""
    monkeypatch.setattr(swarm_batch.ActionBase, "run", lambda self, tmp, task_vars: {})
    action = swarm_batch.ActionModule.__new__(swarm_batch.ActionModule)
    action._connection = None
    action._task = SimpleNamespace(args={"step": step, "hosts": ["a"], "docker_host": "tcp://m"}, delegate_to="m", check_mode=False)
    action._display = SimpleNamespace(display=lambda text: None, columns=79)
    action._execute_module = execute
    made = plan("a", **(of_plan or {}))
    made["steps"]["a"]["removal"] = asdict(Removal())
    made["settings"]["provision_lease"] = 600
    hosts = {"a": {"gpu_swarm_plan": made, "gpu_node_assessed": assessed("n-a"), "gpu_swarm_lease": HELD}}
    hostvars = HostVars(hosts)
    answer = action.run(None, {"gpu_swarm_plan": made, "hostvars": hostvars, "ansible_forks": 5, "inventory_hostname": "a", **task_vars})
    assert hostvars.queried == []  # a query would template the whole plan for each host
    return answer


@pytest.mark.parametrize("error", [AnsibleConnectionFailure("no route"), AnsibleError("the connection plugin found no docker"), OSError("no ssh")])
def test_a_manager_without_a_connection_counts_as_silent(monkeypatch, error):
    """With run_once, a failed task would fail for all hosts."""

    def execute(**call):
        raise error

    answer = acted(monkeypatch, execute)
    assert (answer["answered"], answer.get("failed", False), answer["manager"]) == (False, False, "m")
    assert str(error) in answer["outcomes"]["a"]["reason"]


def test_writes_are_reported_as_changes(monkeypatch):
    calls = []

    def execute(module_name, module_args, task_vars):
        calls.append((module_name, module_args))
        return {"nodes": [], "changed": True, "diff": {"before": "x"}, "warnings": ["w"]}

    answer = acted(monkeypatch, execute)
    assert (answer["answered"], answer["changed"], answer["diff"], answer["warnings"]) == (True, True, [{"before": "x"}], ["w"])
    [(name, args)] = calls
    assert (name, args["docker_host"], list(args["nodes"][0])[:2]) == ("fleet.gpu_swarm.swarm_nodes", "tcp://m", ["id", "host"])


def test_a_warning_of_every_query_is_kept_once(monkeypatch):
    def execute(**call):
        return {**shown(), **HELD, "warnings": ["w"]}

    assert acted(monkeypatch, execute, "begin")["warnings"] == ["w"]


# --- isolation ----------------------------------------------------------------------------------------------------------

LEVEL = {"isolation": {"level": "audit", "set": True, "change": {"level": "audit", "nodes": {"n-a": "off"}, "listed": ["n-a"]}}}


@pytest.mark.parametrize(("to_change", "released"), [(["a"], False), ([], True)])
def test_the_level_of_the_swarm_is_written_with_the_lease_before_any_node_is_changed(to_change, released):
    manager = Manager(swarm_lease=HELD)
    answer = STEPS["start"](batch(manager, lease={}, made=plan(*"ab", to_change=to_change, **LEVEL)))
    first, *more = manager.calls_of("swarm_lease")
    assert first == {"ttl": 900, "force": False, "isolation": LEVEL["isolation"]["change"]}
    assert more == ([{"state": "absent"}] if released else [])
    assert answer["answered"]


@pytest.mark.parametrize(("before", "changed"), [("off", True), ("audit", False)])
def test_another_level_of_the_swarm_is_a_change_and_the_lease_is_none(monkeypatch, before, changed):
    def execute(**call):
        return {**HELD, "changed": True, "isolation": "audit", "isolation_before": before, "diff": {"before": {}, "after": {}}}

    answer = acted(monkeypatch, execute, "start", LEVEL)
    assert (answer["changed"], len(answer["diff"])) == (changed, int(changed))


@pytest.mark.parametrize(
    ("node", "before", "changed", "diffs"),
    [
        ({"changed": True}, "audit", True, 1),
        ({"changed": False}, "audit", False, 1),  # except for the lease
        ({"changed": False}, "off", True, 2),
    ],
)
def test_a_lease_that_was_released_with_the_labels_is_no_change(monkeypatch, node, before, changed, diffs):
    lease = {**RELEASED, "isolation": "audit", "isolation_before": before, "diff": {"before": {}, "after": {}}}

    def execute(**call):
        return {"nodes": [node], "lease": lease, "changed": True, "diff": {"before": {}, "after": {}}}

    answer = acted(monkeypatch, execute)
    assert (answer["changed"], len(answer["diff"])) == (changed, diffs)


def test_labels_of_the_swarm_that_could_not_be_written_are_reported():
    said: list[str] = []
    STEPS["start"](batch(Manager(swarm_lease=OTHERS), lease={}, made=plan(*"ab", to_change=[], **LEVEL, **QUEUES), warn=said.append))
    expected = "the run did not write the isolation and the queues of the swarm, because another run changes this swarm. Run this again."
    assert said == [expected]


# --- queues -------------------------------------------------------------------------------------------------------------

WANTED = {"research": {"weight": 3}}
QUEUES = {"queues": {"wanted": WANTED, "change": {"queues": WANTED}}}


@pytest.mark.parametrize(("to_change", "released"), [(["a"], False), ([], True)])
def test_queues_are_written_with_the_lease_before_any_node_is_changed(to_change, released):
    manager = Manager(swarm_lease=HELD)
    STEPS["start"](batch(manager, lease={}, made=plan(*"ab", to_change=to_change, **QUEUES)))
    first, *more = manager.calls_of("swarm_lease")
    assert first == {"ttl": 900, "force": False, "queues": WANTED}
    assert more == ([{"state": "absent"}] if released else [])


@pytest.mark.parametrize(("before", "changed"), [("", True), ("{}", False)])
def test_other_queues_of_the_swarm_are_a_change(monkeypatch, before, changed):
    def execute(**call):
        return {**HELD, "changed": True, "queues": "{}", "queues_before": before, "diff": {"before": {}, "after": {}}}

    answer = acted(monkeypatch, execute, "start", QUEUES)
    assert (answer["changed"], len(answer["diff"])) == (changed, int(changed))


@pytest.mark.parametrize(("text", "written"), [('{"research":{"weight":3}}', None), ("", WANTED)])
def test_the_end_writes_queues_that_the_beginning_could_not_write(text, written):
    manager = Manager(swarm_gpu_info=shown(swarm={"queues": text}), swarm_nodes=WRITTEN, swarm_lease={"acquired": False})
    STEPS["finish"](batch(manager, made=plan(*"ab", **QUEUES)))
    assert manager.calls_of("swarm_lease")[0].get("queues") == written


@pytest.mark.parametrize(("bound", "written"), [("b", None), (None, {})])
def test_the_queues_are_removed_with_the_last_node(bound, written):
    there = {**ledger(member("n-a", bound=False), member("n-b", bound=bound)), "swarm": {"queues": "{}"}}
    manager = Manager(swarm_gpu_info=there, swarm_nodes=WRITTEN, swarm_lease={"acquired": False})
    STEPS["finish"](batch(manager, made=plan(*"ab", hosts_in={}), absent=True))
    assert manager.calls_of("swarm_lease")[0].get("queues") == written


@pytest.mark.parametrize(("is_set", "level"), [(True, {"level": "audit"}), (False, {})])
def test_the_end_writes_which_nodes_reached_the_level(is_set, level):
    made = plan(*"abc", isolation={**LEVEL["isolation"], "set": is_set})
    for name in "abc":
        made["steps"][name]["target"]["isolation"] = "audit"
    there = shown(*(member(f"n-{name}", bound=name) for name in "abc"))
    manager = Manager(swarm_gpu_info=there, swarm_nodes=WRITTEN, swarm_lease={"acquired": False})
    variables = {name: {"gpu_node_applied": {"failed": True} if name == "b" else assessed(f"n-{name}")} for name in "abc"}
    STEPS["finish"](batch(manager, "abc", made=made, variables=variables))
    written = manager.calls_of("swarm_lease")[0]["isolation"]
    assert written == {**level, "nodes": {"n-a": "audit", "n-b": "off", "n-c": "audit"}, "listed": ["n-a", "n-b", "n-c"]}


@pytest.mark.parametrize(("bound", "written"), [("b", {"listed": ["n-b"]}), (None, {"level": "off", "listed": []})])
def test_the_level_is_removed_with_the_last_node(bound, written):
    kept = {"swarm": {"isolation": {"label": "audit", "level": "audit"}}}
    there = {**ledger(member("n-a", bound=False), member("n-b", bound=bound)), **kept}
    manager = Manager(swarm_gpu_info=there, swarm_nodes=WRITTEN, swarm_lease={"acquired": False})
    STEPS["finish"](batch(manager, made=plan(*"ab", hosts_in={}), absent=True))
    assert manager.calls_of("swarm_lease")[0]["isolation"] == written
