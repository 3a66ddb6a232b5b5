# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decisions of the role swarm_member for each host, in the states that a fleet can be in."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail

from ansible_collections.fleet.gpu_swarm.plugins.action.swarm_member_plan import ActionModule
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import label
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.joining import (
    Decision,
    Known,
    Leave,
    Survey,
    answers_of,
    decide,
    demotion_error,
    leave,
    promotion_error,
    survey,
)

ROOT = Path(__file__).parents[3]


def answer_of(state="inactive", node_id=None, manages=False, half_joined=False, error=None, missing=(), **more):
    """Return the answer of gpu_node about a host."""
    swarm = {"state": state, "node_id": node_id, "control_available": manages, "half_joined": half_joined, "error": error}
    return {"swarm": {**swarm, "managers": ["192.0.2.1:2377"]}, "missing": list(missing), **more}


FRESH = answer_of()
HALF_JOINED = answer_of("error", half_joined=True)
STOPPED = answer_of("unknown")
DEAD = {"unreachable": True, "msg": "No route to host"}


def manager(node_id, known=(), **more):
    """Return the state of a manager. ``known`` are the ids of the managers that it knows."""
    made = answer_of("active", node_id, manages=True, **more)
    return {**made, "swarm": {**made["swarm"], "id": "s1", "manager_ids": list(known)}}


def worker(node_id, **more):
    return answer_of("active", node_id, **more)


def node(node_id, role="worker", host=None, hostname=None):
    made = {"ID": node_id, "Spec": {"Role": role, "Labels": {"gpu-swarm.host": host} if host else {}}, "Status": {"Addr": "192.0.2.7"}}
    if role == "manager":
        made["ManagerStatus"] = {"Reachability": "reachable", "Addr": "192.0.2.7:2377"}
    return {**made, "Description": {"Hostname": hostname or node_id}}


ONE = [node("i1", "manager"), node("i3")]
TWO = [node("i1", "manager"), node("i2", "manager"), node("i3")]


@dataclass(frozen=True)
class Fleet:
    """The knowledge of a run when it reaches the host ``me``. By default m1 and m2 become managers, w1 and w2 workers."""

    assessed: dict[str, Any]
    me: str = "w1"
    inspected: dict[str, Any] = field(default_factory=dict)
    queried: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[dict[str, Any]] | None = None  # the manager's list, or None if the manager was not queried
    refused: str = ""  # the error of a manager that returned no list
    managers: tuple[str, ...] = ("m1", "m2")
    in_play: tuple[str, ...] | None = None
    move: bool = False
    external: tuple[str, ...] = ()

    @property
    def playing(self) -> list[str]:
        return list(self.in_play or self.assessed)

    @property
    def variables(self) -> dict[str, dict[str, Any]]:
        made: dict[str, dict[str, Any]] = {name: {} for name in [*self.managers, *self.playing, *self.assessed]}
        for key, answers in (("gpu_node_assessed", self.assessed), ("__swarm_member_inspected", self.inspected)):
            for name, answer in answers.items():
                made[name][key] = answer
        return made

    @property
    def listed(self) -> dict[str, Any]:
        if self.refused:
            return {"failed": False, "failed_when_result": False, "msg": self.refused}
        return {} if self.nodes is None else {"nodes": self.nodes}

    @property
    def role(self) -> str:
        return "manager" if self.me in self.managers else "worker"

    def survey(self) -> Survey:
        return survey(answers_of(self.variables, [*self.managers, *self.playing], self.queried), self.managers, self.playing, self.external)

    def known(self) -> Known:
        answer = self.inspected.get(self.me) or self.assessed[self.me]
        return Known(self.me, answer, self.survey(), self.listed)

    def decide(self) -> Decision:
        return decide(self.known(), self.role, self.move)


NEW = Fleet({"m1": FRESH, "m2": FRESH, "w1": FRESH})
RUNS = Fleet({"m1": manager("i1"), "m2": FRESH, "w1": worker("i3"), "w2": FRESH}, nodes=ONE)
OTHERS = Fleet({"m1": manager("i1"), "m2": FRESH, "w1": worker("x9")}, nodes=ONE)
# With --limit w1, the run queries the managers for w1. It queries m1 over the API of m1.
LIMITED = Fleet(
    {"w1": FRESH}, queried=[{"item": "m2", **manager("i2")}, {"item": "m1", "failed": False, "msg": "cannot be reached"}], nodes=TWO
)

# Which manager is queried, and what the host does: (action, initialises, joins, becomes_manager, would).
JOIN, MANAGE = "join the swarm as worker", "join the swarm as manager"
DECISIONS = {
    "the first manager initialises the swarm": (replace(NEW, me="m1"), "m1", ("join", True, False, False, "initialise the swarm")),
    "the second manager joins the swarm": (replace(NEW, me="m2"), "m1", ("join", False, True, True, MANAGE)),
    "a worker joins the swarm": (NEW, "m1", ("join", False, True, False, JOIN)),
    "a half-joined manager leaves and initialises the swarm": (
        Fleet({"m1": HALF_JOINED, "m2": FRESH}, me="m1"), "m1", ("recover", True, False, False, "initialise the swarm")
    ),
    "the first manager in the run initialises the swarm": (
        replace(NEW, me="m2", in_play=("m2", "w1")), "m2", ("join", True, False, False, "initialise the swarm")
    ),
    "a manager stays as it is": (replace(RUNS, me="m1"), "m1", ("none", False, False, False, "")),
    "a worker stays as it is": (RUNS, "m1", ("none", False, False, False, "")),
    "a manager joins an existing swarm": (replace(RUNS, me="m2"), "m1", ("join", False, True, True, MANAGE)),
    "a worker joins an existing swarm": (replace(RUNS, me="w2"), "m1", ("join", False, True, False, JOIN)),
    "a half-joined worker leaves and joins": (
        Fleet({"m1": manager("i1"), "w1": HALF_JOINED}, nodes=ONE),
        "m1",
        ("recover", False, True, False, "leave what a failed join left, and join the swarm as worker"),
    ),
    "a worker of another swarm moves": (
        replace(OTHERS, move=True), "m1", ("move", False, True, False, "leave another swarm, and join this one as worker")
    ),
    "a worker is promoted": (replace(RUNS, me="w1", managers=("m1", "w1")), "m1", ("promote", False, False, True, "become a manager")),
    "a manager is demoted": (
        Fleet({"m1": manager("i1"), "m2": FRESH, "w1": manager("i2")}, nodes=TWO), "m1", ("demote", False, False, False, "become a worker")
    ),
    "other hosts continue if a worker claims to run a swarm": (
        Fleet({"m1": FRESH, "w1": manager("i1"), "w2": FRESH}, me="w2", managers=("m1",)), "m1", ("join", False, True, False, JOIN)
    ),
    "a manager of the group swarm_managers is queried first": (
        Fleet({"w1": manager("i1"), "m2": manager("i2"), "w2": FRESH}, me="w2", nodes=TWO), "m2", ("join", False, True, False, JOIN)
    ),
    "a manager without an error is queried first": (
        Fleet({"m1": manager("i1", error="no leader"), "m2": manager("i2"), "w1": FRESH}, nodes=TWO), "m2", ("join", False, True, False, JOIN)
    ),
    "another manager is queried if the first is down": (
        Fleet({"m1": DEAD, "m2": manager("i2"), "w1": FRESH}, nodes=TWO), "m2", ("join", False, True, False, JOIN)
    ),
    "another manager is queried if dockerd of the first is stopped": (
        Fleet({"m1": STOPPED, "m2": manager("i2"), "w1": worker("i3")}, nodes=TWO), "m2", ("none", False, False, False, "")
    ),
    "managers outside of the run are queried": (LIMITED, "m2", ("join", False, True, False, JOIN)),
    "the newest answer of a host is used": (
        Fleet({"m1": STOPPED, "w1": STOPPED}, inspected={"m1": manager("i1"), "w1": worker("i3")}, managers=("m1",), nodes=ONE),
        "m1",
        ("none", False, False, False, ""),
    ),
    "a host's own answer overrides a query": (
        Fleet({"m1": manager("i1"), "w1": FRESH}, queried=[{"item": "m1", **FRESH}], managers=("m1",), nodes=ONE),
        "m1",
        ("join", False, True, False, JOIN),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DECISIONS)
def test_each_host_does_the_right_step(case):
    fleet, queried_manager, text = DECISIONS[case]
    decision = fleet.decide()
    assert decision.error is None
    assert fleet.survey().manager == queried_manager
    assert tuple(asdict(decision)[key] for key in ("action", "initialises", "joins", "becomes_manager", "would")) == text


@pytest.mark.parametrize(
    ("answer", "reacts", "has_service"),
    [
        ({"react": {"settings": {"pause": {}}}}, True, True),
        ({"react": {"settings": {"record": {}}}}, False, True),
        ({"react": {"settings": {}}}, False, True),  # a killed run
        ({"react": None}, False, False),
        ({}, False, False),
    ],
)
def test_a_host_may_have_the_service_with_some_parts(answer, reacts, has_service):
    decision = Fleet({"m1": manager("i1"), "w1": worker("i3", **answer)}, nodes=ONE).decide()
    assert (decision.reacts, decision.has_service) == (reacts, has_service)


@pytest.mark.parametrize(
    ("engine", "reported"), [({"Labels": {label.KEY: "ok"}}, True), ({"Labels": {label.KEY: ""}}, False), ({}, False), (None, False)]
)
def test_nodes_report_to_that_service(engine, reported):
    listed = [ONE[0], {**ONE[1], "Description": {"Hostname": "g1", "Engine": engine}}]
    assert Fleet({"m1": manager("i1"), "w1": worker("i3")}, nodes=listed).decide().reported is reported


REFUSED = {
    "no manager is named": (replace(NEW, managers=()), "The group swarm_managers is empty"),
    "a manager does not answer": (Fleet({"m1": FRESH, "m2": DEAD, "w1": FRESH}), "m2: No route to host"),
    "a manager was not queried": (Fleet({"m1": FRESH, "w1": FRESH}), "m2: it was not queried"),
    "the host is in another swarm": (OTHERS, "set swarm_member_move: true"),
    "the host manages another swarm": (
        Fleet({"m1": manager("i1"), "w1": manager("x9")}, nodes=ONE, move=True), "manager of another swarm. That swarm could be lost"
    ),
    "the host is locked": (Fleet({"m1": manager("i1"), "w1": answer_of("locked")}, nodes=ONE), "The swarm is locked on this node"),
    "the host's dockerd is stopped": (Fleet({"m1": manager("i1"), "w1": STOPPED}, nodes=ONE), "dockerd is not running on this host"),
    "the host has no Docker": (
        Fleet({"m1": manager("i1"), "w1": answer_of(missing=["engine"])}, nodes=ONE), "Docker Engine is not installed on this host"
    ),
    "the node belongs to another host": (
        Fleet({"m1": manager("i1"), "w1": worker("i3")}, nodes=[node("i1", "manager"), node("i3", host="w2")]),
        "says that the node belongs to the host w2",
    ),
    "only a host outside swarm_managers runs a swarm": (
        Fleet({"m1": FRESH, "w1": manager("i1")}, managers=("m1",)),
        "w1 reports that it is the manager of a swarm, but no manager of the group swarm_managers confirms this",
    ),
    "the manager is locked, and a worker claims to run the swarm": (
        Fleet({"m1": answer_of("locked", "i1"), "w1": manager("i3"), "w2": FRESH}, me="w2", managers=("m1",), nodes=ONE), "The swarm is locked on m1"
    ),
    "a manager of the group is only a worker": (
        Fleet({"m1": worker("i3"), "w1": manager("i1")}, nodes=ONE, managers=("m1",)), "put w1 into swarm_managers, at least until the other hosts"
    ),
    "the last manager would become a worker": (
        Fleet({"m1": DEAD, "w1": manager("i1")}, managers=("m1",), nodes=ONE), "No working swarm manager was found"
    ),
    "the swarm would lose its quorum": (
        Fleet(
            {"m1": manager("i1"), "w1": manager("i2")},
            nodes=[*TWO[:2], {**node("i4", "manager"), "ManagerStatus": {"Reachability": "unreachable", "Addr": "192.0.2.9:2377"}}],
        ),
        "1 of 2 managers would be reachable and 2 are needed",
    ),
    "the manager returns no list": (
        replace(RUNS, nodes=None, refused="The swarm has no quorum."),
        "The manager m1 did not return its list of nodes: The swarm has no quorum. If more than half of the swarm's managers are down",
    ),
    "the manager returns no list, and reported why": (
        Fleet({"m1": manager("i1", error="rpc error: no leader"), "w1": FRESH}, refused="500"), "its list of nodes: rpc error: no leader. If more"
    ),
    "the manager returns no list and no reason": (replace(RUNS, nodes=None, refused=" "), "its list of nodes: no reason given. If"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_the_reason_for_doing_nothing_is_named(case):
    fleet, words = REFUSED[case]
    assert words in (fleet.decide().error or "")


def test_one_manager_is_queried_for_all_hosts():
    assert Fleet({"w1": FRESH}).survey().unanswered == ["m1", "m2"]
    assert LIMITED.survey().unanswered == []  # an unreachable manager is not queried again
    assert NEW.survey().manager == "m1"
    assert replace(NEW, managers=()).survey().manager == ""


def test_a_manager_outside_the_inventory_is_used():
    class HostVars(dict):
        def get(self, name, default=None):
            raise AssertionError(name)

    assert answers_of(HostVars(m1={"gpu_node_assessed": FRESH}), ["ghost", "m1"], []) == {"m1": FRESH}


def test_values_emptied_by_an_earlier_playbook_are_no_answer():
    assert answers_of({"m1": {"gpu_node_assessed": FRESH, "__swarm_member_inspected": {}}}, ["m1"], []) == {"m1": FRESH}


@pytest.mark.parametrize("others", [{}, {"m2": FRESH, "w1": FRESH}])
def test_nothing_is_changed_on_the_host_of_an_external_manager(others):
    fleet = Fleet({"m1": {}, **others}, me="m1", external=("m1",))
    assert "m1 has swarm_manager_docker_host, so it is an external manager" in fleet.decide().error
    assert "m1 has swarm_manager_docker_host, so it is an external manager" in leave(fleet.known(), dissolve=True, entry="").error
    assert (fleet.survey().init_on, fleet.survey().in_play) == (None, False)


def test_an_invalid_address_is_an_error():
    variables = {"m1": {"swarm_manager_docker_host": "m1:2376"}}
    with pytest.raises(AnsibleActionFail, match="Write it as tcp://manager"):
        ActionModule.__new__(ActionModule)._survey({"managers": ["m1"], "queried": []}, {"ansible_play_hosts": ["w1"], "hostvars": variables})


# -- managers change one after another -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settled", "waits_for"),
    [
        ({"m1": {}, "m2": {}, "w1": {}}, None),
        ({"m1": {"__swarm_member_settled": True}, "m2": {"__swarm_member_settled": False}}, None),  # m2 does not wait for itself
        ({"m1": {"__swarm_member_settled": False}, "m2": {}, "m3": {"__swarm_member_settled": False}}, "m1, m3 should become a manager before m2"),
    ],
)
def test_a_manager_waits_for_earlier_managers(settled, waits_for):
    error = promotion_error("m2", "m0", settled, settled)
    assert error is None if waits_for is None else waits_for in error


THREE = [node("i1", "manager"), node("i2", "manager"), node("i3", "manager")]


@pytest.mark.parametrize(
    ("me", "words"),
    [("w1", None), ("w2", None), ("w3", "last manager and cannot become a worker"), ("w4", "manager of another swarm")],
)
def test_each_demotion_counts_earlier_ones(me, words):
    hosts = {name: manager(f"i{number}") for number, name in enumerate(["w1", "w2", "w3"], 1)} | {"w4": manager("x1"), "m1": FRESH}
    plans = {name: {"__swarm_member_plan": {"action": "demote", "node_id": hosts[name]["swarm"]["node_id"]}} for name in ("w1", "w2", "w3")}
    fleet = Fleet(hosts, me=me, nodes=THREE)
    error = demotion_error(fleet.known(), {"m1": {}, **plans, "w4": {"__swarm_member_plan": {"action": "none", "node_id": ""}}}, hosts)
    assert error is None if words is None else words in error


def test_no_demotion_without_the_managers_list():
    fleet = Fleet({"m1": manager("i1"), "w1": manager("i2")}, refused="timed out")
    assert "The manager m1 did not return its list of nodes: timed out. If" in demotion_error(fleet.known(), {}, ())


# -- leaving -------------------------------------------------------------------------------------------------------------

LEAVING = {
    "a worker": (RUNS, Leave(leaves=True, entry="i3", manager="m1")),
    "a manager is demoted first": (
        Fleet({"m1": manager("i1"), "m2": manager("i2")}, me="m1", nodes=TWO), Leave(leaves=True, demotes=True, entry="i1", manager="m2")
    ),
    "the last manager, with consent": (
        Fleet({"m1": manager("i1")}, me="m1", nodes=[node("i1", "manager")]), Leave(leaves=True, force=True, entry="i1")
    ),
    "a host that is in no swarm": (replace(RUNS, me="m2"), Leave(entry="e1", manager="m1")),
    "a host whose join failed": (Fleet({"m1": manager("i1"), "w1": HALF_JOINED}), Leave(leaves=True, force=True, entry="e1", manager="m1")),
    "the last manager of the group confirms another manager": (
        Fleet({"m1": manager("i1", known=["i1", "i2"]), "w1": manager("i2")}, me="m1", nodes=TWO, managers=("m1",)),
        Leave(leaves=True, demotes=True, entry="i1", manager="w1"),
    ),
    "no swarm exists": (NEW, Leave(entry="e1")),
    "a former manager with the manager service": (
        Fleet({"m1": manager("i1"), "w1": worker("i3", react={})}, nodes=ONE), Leave(leaves=True, entry="i3", manager="m1", has_service=True)
    ),
    "a host whose join failed, with the manager service": (
        Fleet({"m1": manager("i1"), "w1": {**HALF_JOINED, "react": {}}}),
        Leave(leaves=True, force=True, entry="e1", manager="m1", has_service=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LEAVING)
def test_a_host_leaves_in_this_way(case):
    fleet, text = LEAVING[case]
    assert leave(fleet.known(), dissolve=True, entry="e1") == text


STAYING = {
    "no manager answered": (
        Fleet({"w1": worker("i3")}, refused="a worker"), True, "No manager of the swarm of w1 answered (managers 192.0.2.1:2377)"
    ),
    "only a worker claims to run the swarm too": (
        Fleet({"m1": manager("i1"), "w1": manager("i3")}, me="m1", nodes=ONE, managers=("m1",)),
        True,
        "m1 is the last manager of its swarm, which also has the nodes i3",
    ),
    "no list of nodes": (replace(RUNS, nodes=None, refused="timed out"), True, "The manager m1 did not return its list of nodes: timed out. If"),
    "it is in another swarm": (OTHERS, True, "w1 (node id x9) is not in the swarm of m1. If it should leave its current swarm, run 'docker"),
    "the node belongs to another host": (
        replace(RUNS, nodes=[node("i1", "manager"), node("i3", host="w2")]), True, "says that the node belongs to the host w2"
    ),
    "other nodes would lose their last manager": (
        Fleet({"m1": manager("i1")}, me="m1", nodes=[node("i1", "manager"), node("i3", hostname="gpu-3")]),
        True,
        "m1 is the last manager of its swarm, which also has the nodes gpu-3. Have these leave first.",
    ),
    "the swarm would end without consent": (
        Fleet({"m1": manager("i1")}, me="m1", nodes=[node("i1", "manager")]),
        False,
        "m1 is the last manager of its swarm. When it leaves, the swarm ends",
    ),
    "its dockerd is stopped": (Fleet({"m1": manager("i1"), "w1": STOPPED}), True, "dockerd is not running on this host: start it."),
    "its swarm is locked": (Fleet({"m1": manager("i1"), "w1": answer_of("locked")}), True, "The swarm is locked on this node"),
    "it was a member before": (Fleet({"m1": manager("i1"), "w1": answer_of("error", "i3", error="expired")}), True, "swarm state error (expired)"),
}  # fmt: skip


@pytest.mark.parametrize("case", STAYING)
def test_the_reason_for_not_leaving_is_named(case):
    fleet, dissolve, words = STAYING[case]
    assert words in (leave(fleet.known(), dissolve, entry="").error or "")


# -- the role's tasks ----------------------------------------------------------------------------------------------------


def test_every_task_file_names_the_variables_that_it_reads_or_sets():
    for path in sorted((ROOT / "roles/swarm_member/tasks").glob("*.yml")):
        assert path.read_text(encoding="utf-8").startswith("---\n# "), path.name


def test_no_path_of_an_included_file_contains_a_host_variable():
    """Ansible looks for imported files in the folder of the included file. ansible-core 2.16 has no host variables during this search."""
    for path in sorted((ROOT / "roles/swarm_member/tasks").glob("*.yml")):
        for name in re.findall(r"include_tasks:\s+(\S.*)", path.read_text(encoding="utf-8")):
            assert re.findall(r"{{ (\S*)", name) in ([], ["item"], ["_swarm_member_file"]) or "'change' }}" in name, f"{path.name}: {name}"


def test_join_tokens_are_replaced_only_by_the_batch_that_used_them():
    """The run knows which tokens its joins used. Each batch replaces its tokens after its own joins."""
    tasks = {task["name"]: task for task in yaml.safe_load((ROOT / "roles/swarm_member/tasks/change.yml").read_text())}
    forget, replace_used = tasks["Forget the join tokens"], tasks["Replace the join tokens that were used"]
    assert forget["when"] == "_swarm_member_tokens | length > 0"
    assert f"{forget['register']} is not skipped" in replace_used["when"]


def test_tasks_that_read_join_tokens_show_nothing():
    """Callbacks must not show tokens either. The no_log of a task does not hide everything that an action sends to callbacks."""
    (task,) = [task for task in yaml.safe_load((ROOT / "roles/swarm_member/tasks/tokens.yml").read_text()) if "fleet.gpu_swarm.swarm_members" in task]
    assert task["no_log"] is True
