# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from fleet_lab import host, member, named, step_with
from node_lab import UUIDS, gpu

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.verdicts import Verdict
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import END, MARKED, PREPARE, WINDOW, Host
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.outcome import HostState, Outcome, State
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report import provision_tables
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report.rerun import RerunCommand
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout import ends

FAILED = Outcome(State.FAILED, "dockerd did not start")
A = "GPU-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30"


def test_the_impact_of_a_run_is_shown():
    steps = {
        "done": step_with(),
        "gpu-1": step_with(needs=["configure", "restart"], impact=["2 GPUs not advertised", "restarts dockerd"]),
        "gpu-2": step_with(needs=["restart"], impact=["restarts dockerd"], waits_for=["service train (t.1)", "container x"], left_alone=True),
        "gpu-3": step_with(error="unreachable: no route"),
    }
    assert provision_tables.impact(steps, None).splitlines() == [
        "node   impact",
        "─────  " + "─" * len("waits for service train (t.1), container x, then: restarts dockerd"),
        "gpu-1  2 GPUs not advertised; restarts dockerd",
        "gpu-2  waits for service train (t.1), container x, then: restarts dockerd",
        "gpu-3  cannot be changed: unreachable: no route",
    ]
    assert provision_tables.impact({"done": step_with()}, None) == ""
    assert provision_tables.impact({}, None) == ""


BACK = "returns to service"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (step_with(groups=[MARKED, END]), BACK),
        (step_with(groups=[MARKED, END], maintained="x"), f"{BACK}; left alone, because maintenance x was already finished on this node"),
        (step_with(maintained="x"), "left alone, because maintenance x was already finished on this node"),
        (step_with(groups=[END], error="a clash", left_paused=True), "stays paused; cannot be changed: a clash"),
        (step_with(groups=[END], error="a clash", left_paused=True, by_hand=True), "cannot be changed: a clash"),
        (step_with(groups=[MARKED, END], left_paused=True, by_hand=True), "removes the marks of a pause that somebody has ended"),
        (
            step_with(needs=["restart"], groups=[MARKED, END], impact=["restarts dockerd"], waits_for=["container x"], left_alone=True),
            f"{BACK}; waits for container x, then: restarts dockerd",
        ),
        (step_with(needs=["restart"], groups=[WINDOW, MARKED, END], impact=["restarts dockerd"]), "restarts dockerd"),
    ],
)
def test_the_future_of_a_node_left_paused_is_reported(step, words):
    assert provision_tables.impact({"gpu-1": step}, None).splitlines()[2:] == ["gpu-1  " + words]


@pytest.mark.parametrize(
    ("step", "node", "outcome", "state"),
    [
        (step_with(), member(), None, "ready"),
        (step_with(), member(availability="drain", set_by_run=False), None, "drained, by hand"),
        (step_with(maintained="driver-570"), member(), None, "ready, left alone, because maintenance driver-570 was already finished on this node"),
        (
            step_with(),
            member(availability="pause", former_availability="active"),
            None,
            "still on pause: its former availability, active, could not be restored. Run this again",
        ),
        (
            step_with(),
            member(availability="pause", former_availability="active", paused_for=f"fault {A} reason=lost since=1"),
            None,
            f"paused for a fault: {A} lost. It returns to service with the first run that finds nothing wrong with it",
        ),
        (
            step_with(error="NVML: mismatch"),
            member(availability="pause", former_availability="active", paused_for="fault reason=mismatch"),
            None,
            "failed: NVML: mismatch. Paused for a fault (mismatch): it returns to service with the first run that finds nothing wrong with it",
        ),
        (step_with(error="NVML: mismatch"), member(former_availability="active"), None, "failed: NVML: mismatch"),  # the node was returned by hand
        (step_with(), member(state="down"), None, "down according to the manager"),
        (step_with(), member(shown=(0,)), None, "the manager shows 1 of 2 NVIDIA-GPU"),
        (step_with(), None, None, "not in the swarm"),
        (step_with(waits_for=["a", "b"], left_alone=True), member(), None, "waiting for a, b"),
        (step_with(waits_for=["a"]), member(), None, "ready"),
        (step_with(needs=["join", "move"]), None, Outcome(State.WAITING, "task b"), "waiting for task b"),
        (
            step_with(waits_for=["a"], groups=[MARKED]),
            member(availability="pause"),
            Outcome(State.WAITING, "container b"),
            "waiting for container b; paused",
        ),
        (step_with(groups=[MARKED]), member(), Outcome(State.WAITING, "finished job b"), "waiting for finished job b"),
        (step_with(groups=[PREPARE]), None, Outcome(State.WAITING, "container b"), "waiting for container b"),
        (step_with(groups=[PREPARE]), None, Outcome(State.FAILED, "2 errors:\n- one"), "failed: 2 errors: - one"),
        (step_with(), member(), FAILED, "failed: dockerd did not start"),
        (step_with(), member(), Outcome(State.LOST, "no route"), "lost: no route"),
        (step_with(), member(), Outcome(State.UNTOUCHED, "the run stopped before this node"), "untouched: the run stopped before this node"),
        (step_with(error="not assessed"), None, FAILED, "failed: not assessed"),
    ],
)
def test_the_state_of_a_host_is_shown(step, node, outcome, state):
    assert ends.state_of(host(), step, ends.End(node, outcome)).text == state


@pytest.mark.parametrize(
    ("node", "outcome", "state"),
    [
        (member(), None, "waiting for task a, task b"),
        (member(availability="pause", former_availability="active"), None, "waiting for task a, task b; paused"),
        (member(), FAILED, "failed: dockerd did not start"),
    ],
)
def test_a_host_whose_labels_were_refused_waits_for_the_task(node, outcome, state):
    verdict = Verdict.FAILED if outcome else Verdict.WAITING
    for found in (
        ends.state_of(host(), step_with(), ends.End(node, outcome, kept=("task a", "task b"))),
        provision_tables.deprovision_state(step_with(needs=["labels"]), ends.End(node, outcome, kept=("task a", "task b"))),
    ):
        assert (found.text, found.verdict) == (state, verdict)


@pytest.mark.parametrize(
    ("step", "outcome", "begin"),
    [
        (step_with(error="GPU-1 is gone. Put it back.", left_paused=True), None, "failed: GPU-1 is gone. Put it back"),
        (step_with(), Outcome(State.OUT, "NVML failed"), "out: NVML failed"),
        (step_with(left_paused=True), FAILED, "failed: dockerd did not start"),
    ],
)
def test_a_node_that_stays_paused_is_reported_with_its_remedy(step, outcome, begin):
    node = member(availability="pause", former_availability="active")
    message = f"{begin}. Still on pause: it returns to service with the first run that finds nothing wrong with it"
    assert ends.state_of(host(), step, ends.End(node, outcome)).text == message
    assert provision_tables.deprovision_state(step_with(error=step.error), ends.End(node, outcome)).text == message


def test_without_a_ledger_membership_is_unknown():
    assert ends.state_of(host(), step_with(), ends.End(None, None, answered=False)).text == "not known: no manager answered at the end"
    assert ends.state_of(host(), step_with(), ends.End(None, FAILED, answered=False)).text == "failed: dockerd did not start"


@pytest.mark.parametrize(
    ("old", "message"),
    [
        (member("n0", state="down", hostname="gpu-1"), ["gpu-1"]),
        (member("n0", state="ready", hostname="gpu-1"), []),  # two hosts that share a name
        (member("n0", state="down", hostname="gpu-9"), []),
        (member("n2", state="down", hostname="gpu-1"), []),  # another host of this run
    ],
)
def test_the_former_entry_of_a_host_that_joined_again_is_reported(old, message):
    nodes = {node["id"]: dict({"addr": "10.0.0.7"}, **node) for node in (member("n1", hostname="gpu-1"), old)}
    warnings = provision_tables.old_entries({"gpu-1": "n1", "gpu-2": "n2", "fresh": None}, nodes)
    assert [warning.split(":")[0] for warning in warnings] == message
    for warning in warnings:
        assert "(id n0, last seen at 10.0.0.7)" in warning
        assert "'docker node rm n0'" in warning


LEFT_OUT = [{"index": 2, "uuid": "x", "name": "H100", "reason": "GPU is lost"}, {"index": 5, "uuid": None, "name": None, "reason": "MIG is on"}]


@pytest.mark.parametrize(
    ("node", "outcome", "state"),
    [
        (member(), None, "ready, GPU 2 excluded: GPU is lost, GPU 5 excluded: MIG is on"),
        (member(availability="drain", set_by_run=False), None, "drained, by hand, GPU 2 excluded: GPU is lost, GPU 5 excluded: MIG is on"),
        (member(shown=(0,)), None, "the manager shows 1 of 2 NVIDIA-GPU"),
        (member(), FAILED, "failed: dockerd did not start"),
    ],
)
def test_a_node_that_offers_less_than_it_has_is_marked(node, outcome, state):
    assert ends.state_of(host(left_out=LEFT_OUT), step_with(), ends.End(node, outcome)).text == state


def test_a_card_that_is_lost_is_named_for_the_person_who_replaces_it():
    lost = {**LEFT_OUT[0], "last_known": True, "pci_bus_id": "00000000:C1:00.0", "slot": "12", "serial": "1322"}
    text = "ready, GPU 2 (last known as H100, x, PCI address 00000000:C1:00.0, slot 12, serial number 1322) excluded: GPU is lost"
    assert ends.state_of(host(left_out=[lost]), step_with(), ends.End(member(), None)).text == text


def test_hosts_have_rows():
    held = member(resources={"NVIDIA-GPU": named(0, 1, held=[1])})
    assert provision_tables.row(host(), held, READY) == ["gpu-1", "2 × NVIDIA-H100-80GB-HBM3 (79.6 GiB)", "2 NVIDIA-GPU", "1", "ready"]
    assert provision_tables.row(host(), member(shown=(0,)), State.UNTOUCHED.of("x"))[2:] == ["1 NVIDIA-GPU (decided: 2)", "1", "untouched: x"]
    assert provision_tables.row(host(), None, State.NOT_A_MEMBER.of())[2:] == ["– (decided: 2 NVIDIA-GPU)", "–", "not in the swarm"]
    assert provision_tables.row(host("m", gpu=False), member(shown=()), READY) == ["m", "–", "–", "–", "ready"]
    assert provision_tables.row(Host("dead", True, False, None), None, State.FAILED.of("x")) == ["dead", "–", "–", "–", "failed: x"]
    unread = host()
    unread.assessed["gpus"] = [gpu(0), dict(gpu(1), name=None, model=None, memory_mib=None)]
    assert provision_tables.row(unread, None, READY)[1] == "1 × NVIDIA-H100-80GB-HBM3 (79.6 GiB), 1 × ?"


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        ([{"index": 1, "uuid": UUIDS[1], "name": "NVIDIA L40", "reason": "GPU is lost", "last_known": True}], "1 × NVIDIA-L40"),
        ([{"index": 1, "uuid": None, "name": None, "reason": "GPU is lost", "last_known": True}], "1 × ?"),
        ([{"index": 0, "uuid": UUIDS[0], "name": "NVIDIA L40", "reason": "MIG is on"}], "1 × ?"),
    ],
)
def test_a_card_that_does_not_answer_has_the_model_on_record(left_out, words):
    lost = host(left_out=left_out)
    lost.assessed["gpus"] = [gpu(0), dict(gpu(1), uuid=None, name=None, model=None, memory_mib=None)]
    assert provision_tables.row(lost, None, READY)[1] == "1 × NVIDIA-H100-80GB-HBM3 (79.6 GiB), " + words


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ([], "–"),
        ([("Tesla-T4", None)], "1 × Tesla-T4"),
        ([("Tesla-T4", 15360)] * 8, "8 × Tesla-T4 (15.0 GiB)"),
        ([("NVIDIA-L40", 46068), ("Tesla-T4", 15360), ("Tesla-T4", 15360)], "1 × NVIDIA-L40 (45.0 GiB), 2 × Tesla-T4 (15.0 GiB)"),
        ([("Tesla-T4", 15360), (None, None)], "1 × Tesla-T4 (15.0 GiB), 1 × ?"),
    ],
)
def test_gpus_are_shown_by_model_and_memory(gpus, words):
    assert provision_tables.cards([model or "?" for model, _size in gpus], [size for _model, size in gpus]) == words


def test_the_table_at_the_end_is_printed():
    lines = provision_tables.table([provision_tables.row(host(), member(), READY)], None).splitlines()
    assert lines[0].split() == ["node", "GPUs", "advertised", "free", "state"]
    assert lines[2].startswith("gpu-1  2 × NVIDIA-H100-80GB-HBM3")


READY = State.READY.of()


def test_the_state_of_a_host_decides_and_not_its_text():
    states = {"a": HostState(State.READY, "failed: x"), "b": HostState(State.OUT, "ready"), "c": HostState(State.WAITING, "untouched: z")}
    assert provision_tables.by_verdict(states) == {Verdict.DONE: ["a"], Verdict.WAITING: ["c"], Verdict.UNTOUCHED: [], Verdict.FAILED: ["b"]}


def test_the_end_names_unfinished_hosts_and_the_command_to_continue():
    states = {"a": READY, "b": State.WAITING.of("x"), "c": State.LOST.of("y"), "d": State.UNTOUCHED.of("z"), "e": READY}
    verdicts = provision_tables.by_verdict(states)
    assert provision_tables.list_by_verdict(verdicts, None).splitlines() == ["done: 2 hosts", "waiting: b", "untouched: d", "failed: c"]
    command = provision_tables.command_for_the_rest(verdicts, lambda left: RerunCommand(f"ansible-playbook p.yml --limit {','.join(left)}", []))
    assert command == "To continue: ansible-playbook p.yml --limit b,d,c"
    more = provision_tables.command_for_the_rest(verdicts, lambda left: RerunCommand("x", ["token"])).splitlines()[-1]
    assert more == "and the values that this run had for token (-e), which may be secrets"


def test_if_all_are_done_the_outcome_is_enough():
    verdicts = provision_tables.by_verdict({"a": READY})
    command = provision_tables.command_for_the_rest(verdicts, lambda left: RerunCommand("x", []))
    assert (provision_tables.list_by_verdict(verdicts, None), command) == ("", "")


@pytest.mark.parametrize(
    ("states", "changed", "verdict", "line"),
    [
        ({"a": READY, "b": READY}, [], "done", "2 of 2 hosts are as they should be; nothing changed."),
        ({"a": READY, "b": READY}, ["b"], "done", "2 of 2 hosts are as they should be; changed: b."),
        ({"a": READY, "b": State.WAITING.of("x")}, ["b"], "waiting", "1 node waits for work to end: b. 1 of 2 hosts are as they should be."),
        (
            {"a": READY, "b": State.WAITING.of("x"), "c": State.FAILED.of("no space left. Make room")}, ["c"],
            "failed", "c: failed: no space left. 1 of 3 hosts are as they should be.",
        ),
        (
            {"a": State.LOST.of("y"), "b": State.UNTOUCHED.of("z")}, [],
            "failed", "a: lost: y, and 1 more. 0 of 2 hosts are as they should be.",
        ),
    ],
)  # fmt: skip
def test_the_outcome_is_one_line(states, changed, verdict, line):
    words = provision_tables.outcome(states, changed)
    assert (words.verdict, words.line) == (verdict, line)


def test_the_outcome_names_failed_hosts():
    """The outcome also names a host that failed later, for example in a play of the user after the host was finished."""
    states = {"a": READY, "b": State.WAITING.of("x"), "c": State.FAILED.of("y"), "d": State.UNTOUCHED.of("z")}
    assert set(provision_tables.outcome(states, []).hosts) == {"c", "d"}
    assert not provision_tables.outcome({"a": READY, "b": State.WAITING.of("x")}, []).hosts


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "A run would change 1 of 2 hosts."),
        ({"w": step_with(groups=[WINDOW, END], waits_for=["container x"])}, "A run would change 2 of 3 hosts. Waiting for work to end: w."),
        ({"e": step_with(groups=[END], error="unreachable")}, "A run would change 1 of 3 hosts. Cannot be changed: e."),
    ],
)
def test_a_run_in_check_mode_shows_what_a_run_would_do(more, said):
    words = provision_tables.check_outcome({"a": step_with(), "b": step_with(groups=[PREPARE, END]), **more})
    assert (words.line, words.verdict) == (f"Nothing was changed. {said}", "failed" if "Cannot" in said else "done")


# --- after deprovision ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "node", "outcome", "state"),
    [
        (step_with(), None, None, "deprovisioned"),
        (step_with(needs=["leave"]), None, None, "deprovisioned"),
        (step_with(needs=["labels"]), member(labels={"rack": "r1"}, bound=None), None, "deprovisioned"),
        (step_with(needs=["labels"]), member(labels={"rack": "r1"}), None, "the manager still shows labels of this collection. Run this again"),
        (step_with(needs=["leave"]), member(labels={}), None, "it left the swarm, but the manager still lists it. Run this again"),
        (step_with(needs=["entry"], entry="n1"), member(labels={}), None, "it left the swarm, but the manager still lists it. Run this again"),
        (step_with(needs=["labels"]), member(), None, "the manager still shows labels of this collection. Run this again"),
        (step_with(remains="it is the last"), member(labels={}), None, "still in the swarm: it is the last"),
        (
            step_with(remains="it is the last"),
            member(labels={}, availability="drain", former_availability="active"),
            None,
            "still on drain: its former availability, active, could not be restored. Run this again",
        ),
        (step_with(waits_for=["service train"], left_alone=True, remains="it is the last"), member(), None, "waiting for service train"),
        (step_with(needs=["leave"]), member(), FAILED, "failed: dockerd did not start"),
        (step_with(error="locked"), None, None, "failed: locked"),
    ],
)
def test_leftovers_of_a_deprovisioned_host_are_shown(step, node, outcome, state):
    assert provision_tables.deprovision_state(step, ends.End(node, outcome)).text == state


@pytest.mark.parametrize(
    ("step", "state"),
    [
        (step_with(needs=["labels"]), State.NOT_KNOWN),
        (step_with(needs=["leave"]), State.NOT_KNOWN),
        (step_with(needs=["entry"], entry="n9"), State.NOT_KNOWN),
        (step_with(groups=[MARKED, END]), State.NOT_KNOWN),
        (step_with(needs=["configure", "restart"]), State.ABSENT),  # a host that is in no swarm
    ],
)
def test_an_unconfirmed_removal_is_not_reported_as_done(step, state):
    assert provision_tables.deprovision_state(step, ends.End(None, None, answered=False)) == state.of()
    assert provision_tables.deprovision_state(step, ends.End(None, None)).text == "deprovisioned"


def test_only_successful_removals_are_reported_as_removed():
    step = step_with(needs=["labels", "leave"])
    assert provision_tables.deprovision_row(host(), step, State.ABSENT.of()) == ["gpu-1", "node labels, membership", "deprovisioned"]
    assert provision_tables.deprovision_row(host(), step, State.FAILED.of("x")) == ["gpu-1", "–", "failed: x"]
    broken_off = step_with(needs=["labels", "configure", "restart", "packages", "leave"])
    assert provision_tables.deprovision_row(host(), broken_off, State.FAILED.of("x"), files=True)[1] == "node labels, files, generic resources"
    assert provision_tables.deprovision_row(host(), step_with(needs=["labels"]), State.STILL_A_MEMBER.of("x"))[1] == "node labels"
    assert provision_tables.deprovision_row(host(), step_with(), State.ABSENT.of())[1] == "–"


def test_a_manager_that_remains_is_reported_beforehand():
    steps = {"m1": step_with(needs=["labels"], groups=[END], impact=["removes node labels"], remains="it is the last")}
    assert provision_tables.impact(steps, None).splitlines()[2:] == ["m1    removes node labels; remains in the swarm: it is the last"]
