# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps of the role swarm_member (pure): which hosts run the swarm, which steps make a host a member, and whether the host may take these steps.

Each step returns a record for the role's tasks. If a step is impossible, the record has an ``error``. membership.py decides about a single host.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...module_utils._health import label
from ...module_utils._node.manager_state import PAUSE
from . import advertised
from .membership import Answer, Candidate, Node, find_swarm, membership, swarm_of, unconfirmed_claim

# The facts with a host's answers about itself, the newest last: the assessment, and this role's own query. The role queries the host if there is no
# assessment, and after a change.
ANSWERS = ("gpu_node_assessed", "__swarm_member_inspected")
# Facts that the role sets: the host's Decision, and False while the swarm may count the host among its managers before it works as one.
DECISION, SETTLED = "__swarm_member_plan", "__swarm_member_settled"

# hostvars
Variables = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Survey:
    """Which hosts run the swarm, by the answers of the hosts of a run and of the queried managers."""

    live: list[str]  # the hosts that run it, in the order in which they are queried
    init_on: str | None  # the host on which it is initialised
    error: str | None  # why no host runs it and it cannot be initialised
    manager: str  # the host that is or will be queried about the others; empty if there is none
    complaint: str  # the error that this manager reports about its swarm
    in_play: bool  # whether that manager may be changed in this run
    unanswered: list[str]  # the managers without an answer yet
    new_managers: list[dict[str, Any]]  # the swarm answers of hosts that become managers before any manager is demoted
    external: list[str] = field(default_factory=list)  # the managers that are only queried over their API and never changed
    claims: list[str] = field(default_factory=list)  # the hosts that claim to run a swarm, without confirmation by a manager


@dataclass(frozen=True)
class Known:
    """The data that decides the step of a host."""

    host: str  # its name in the inventory
    answer: Answer  # its own answer
    survey: Survey
    listed: Mapping[str, Any]  # the manager's answer with its nodes, as swarm_members returns it; empty if no manager was queried

    @property
    def nodes(self) -> list[Node] | None:
        return self.listed.get("nodes")


@dataclass(frozen=True)
class Decision:
    """The steps that bring a host to the wanted membership."""

    action: str = "none"  # none, join, recover, move, promote, demote, or unknown; see membership()
    node_id: str = ""  # its id in the swarm if the host is a member
    initialises: bool = False  # the host initialises the swarm
    joins: bool = False  # the host joins an existing swarm, or the swarm that another host initialises
    becomes_manager: bool = False  # by a join or a promotion; the next new manager must wait until then
    reacts: bool = False  # the host has the part of the managers' service that pauses nodes with faults
    has_service: bool = False  # the host has the managers' service, with any part that a run installs
    noted: str = ""  # the warning about an advertised address that differs from the configured one
    reported: bool = False  # nodes of the swarm report to that service
    would: str = ""  # the change that check mode reports
    error: str | None = None  # why nothing is done


@dataclass(frozen=True)
class Leave:
    """How a host leaves its swarm."""

    leaves: bool = False  # the host is in a swarm
    demotes: bool = False  # the host becomes a worker first
    force: bool = False  # only if the host was never a full member, or if the swarm ends with it
    entry: str = ""  # the node id that is removed from the manager's list
    manager: str = ""  # the host that removes the node from that list; empty if no host can
    has_service: bool = False  # the host has the managers' service, with any part that a run installs
    error: str | None = None  # why the host may not leave


# -- who runs the swarm --------------------------------------------------------------------------------------------------


def answers_of(variables: Variables, names: Iterable[str], queried: Iterable[Mapping[str, Any]]) -> dict[str, Answer]:
    """Return the answers of hosts, by name. ``queried`` are the results of a loop over managers. If a host has its own answer, this answer is used.
    """
    answers: dict[str, Answer] = {result["item"]: result for result in queried}
    for name in dict.fromkeys(names):
        if name in variables:  # hostvars returns an undefined value for a name that is not in the inventory
            host = variables[name]
            answers.update((name, host[key]) for key in ANSWERS if host.get(key))
    return answers


def survey(answers: Mapping[str, Answer], managers: Iterable[str], play_hosts: Iterable[str], external: Iterable[str] = ()) -> Survey:
    """Find the hosts that run the swarm, or the host where it may be initialised. ``play_hosts`` are the hosts of the play."""
    managers, external = list(managers), list(external)
    in_play = [name for name in play_hosts if name not in external]
    swarm = find_swarm(answers, managers, in_play)
    manager = next((name for name in [*swarm["live"], swarm["init_on"]] if name), "")
    answer = answers.get(manager) or {}
    return Survey(
        **swarm,
        manager=manager,
        complaint=str((swarm_of(answer) or {}).get("error") or ""),
        in_play=manager in in_play,
        unanswered=[name for name in managers if name not in answers],
        new_managers=[swarm_of(answers.get(name)) or {} for name in managers if name in in_play],
        external=external,
    )


def _has_service(answer: Answer) -> bool:
    return answer.get("react") is not None


def _reacts(answer: Answer) -> bool:
    """Return whether the host has the part of the managers' service that pauses nodes."""
    return PAUSE in ((answer.get("react") or {}).get("settings") or {})


def _reports(node: Node) -> bool:
    engine = (node.get("Description") or {}).get("Engine") or {}
    return bool((engine.get("Labels") or {}).get(label.KEY))


# -- how a host joins -------------------------------------------------------------------------------------------------

JOIN_TEXTS = {
    "join": "join the swarm as {role}",
    "recover": "leave what a failed join left, and join the swarm as {role}",
    "move": "leave another swarm, and join this one as {role}",
}
CHANGE_TEXTS = {
    **JOIN_TEXTS,
    "unknown": "find out whether this node is a member, once the manager answers",
    "promote": "become a manager",
    "demote": "become a worker",
}


def decide(known: Known, role: str, move: bool, advertise_addr: str = "") -> Decision:
    """Decide how a host becomes a member in ``role``. ``move`` says whether the host may leave another swarm first."""
    new_managers = [{"swarm": swarm} for swarm in known.survey.new_managers]
    plan = membership(Candidate(known.answer, role, known.host, move, advertise_addr), known.nodes, new_managers=new_managers)
    action, initialises = plan["action"], known.survey.init_on == known.host
    joins = action in JOIN_TEXTS and not initialises
    return Decision(
        action=action,
        node_id=plan["node_id"],
        initialises=initialises,
        joins=joins,
        becomes_manager=role == "manager" and (joins or action == "promote"),
        reacts=_reacts(known.answer),
        has_service=_has_service(known.answer),
        noted=advertised.difference(advertise_addr, swarm_of(known.answer) or {}) or "",
        reported=any(map(_reports, known.nodes or ())),
        would="initialise the swarm" if initialises else CHANGE_TEXTS.get(action, "").format(role=role),
        error=_external_error(known) or _unlisted_error(known) or known.survey.error or _unconfirmed_error(known) or plan["error"],
    )


def _unconfirmed_error(known: Known) -> str | None:
    """Return why a host that claims to run a swarm is excluded, or None. The other hosts go on."""
    return unconfirmed_claim(known.host) if known.host in known.survey.claims else None


def _external_error(known: Known) -> str | None:
    """Return why nothing is changed on a host that represents an external manager, or None."""
    if known.host not in known.survey.external:
        return None
    return (
        f"{known.host} has swarm_manager_docker_host, so it is an external manager, and a run must not change it. Exclude it from this play "
        "('hosts: swarm_workers'), or remove swarm_manager_docker_host."
    )


def _unlisted_error(known: Known) -> str | None:
    """Return why the manager did not return its list of nodes, or None."""
    if not known.listed or known.nodes is not None:
        return None
    manager = known.survey.manager
    reason = known.survey.complaint or str(known.listed.get("msg") or "").strip().rstrip(".") or "no reason given"
    return (
        f"The manager {manager} did not return its list of nodes: {reason}. If more than half of the swarm's managers "
        "are down, there is no quorum: bring one of them back. Check 'docker node ls' on {manager}."
    )


# -- whether a role may be changed now -----------------------------------------------------------------------------------


def promotion_error(host: str, manager: str, variables: Variables, names: Iterable[str]) -> str | None:
    """Return why ``host`` may not become a manager now, or None. The swarm may already count another new manager that does not work yet."""
    unsettled = [name for name in names if name != host and not variables[name].get(SETTLED, True)]
    if not unsettled:
        return None
    return (
        f"{', '.join(unsettled)} should become a manager before {host}, but does not work as one yet. Another new manager could now cost the "
        f"swarm its quorum, so {host} is unchanged. See 'docker node ls' on {manager} and 'journalctl -u docker' on the host that should become a "
        "manager, and run this again."
    )


def demotion_error(known: Known, variables: Variables, names: Iterable[str]) -> str | None:
    """Return why a host may not become a worker now, or None. Assume that the demotions of earlier hosts in ``names`` have succeeded."""
    decisions = [variables[name].get(DECISION) or {} for name in names]
    leaving = [decision["node_id"] for decision in decisions if decision.get("action") == "demote"]
    return _unlisted_error(known) or membership(Candidate(known.answer, "worker", known.host), known.nodes, leaving)["error"]


# -- how a host leaves -------------------------------------------------------------------------------------------------------


def leave(known: Known, dissolve: bool, entry: str) -> Leave:
    """Decide how a host leaves its swarm and is removed from the manager's list. ``entry`` is the entry of an earlier membership in this list."""
    swarm = swarm_of(known.answer) or {}
    others = [name for name in known.survey.live if name != known.host]
    manager = others[0] if others else ""
    known = replace(known, survey=replace(known.survey, manager=manager or known.host, complaint=""))
    if swarm.get("state") != "active":
        is_outside = swarm.get("state") == "inactive"
        error = _external_error(known) or (None if is_outside or swarm.get("half_joined") else membership(Candidate(known.answer), None)["error"])
        force = bool(swarm.get("half_joined"))
        return Leave(leaves=not is_outside, force=force, entry=entry, manager=manager, has_service=_has_service(known.answer), error=error)
    is_manager = bool(swarm.get("control_available"))
    return Leave(
        leaves=True,
        demotes=is_manager and bool(others),
        force=is_manager and not others,
        entry=str(swarm.get("node_id") or ""),
        manager=manager,
        has_service=_has_service(known.answer),
        error=(
            _external_error(known)
            or _unanswered_error(known, is_manager or bool(others))
            or _unlisted_error(known)
            or _wrong_entry_error(known)
            or _last_manager_error(known, others, dissolve)
        ),
    )


def _unanswered_error(known: Known, has_manager: bool) -> str | None:
    if has_manager:
        return None
    return (
        f"No manager of the swarm of {known.host} answered (managers {', '.join(known.answer['swarm'].get('managers') or [])}). Bring one "
        "back and run this again. If nobody needs the swarm any more, run 'docker swarm leave --force' on this host."
    )


def _wrong_entry_error(known: Known) -> str | None:
    """Return why the entry that would be removed does not belong to this host, or None."""
    node_id = known.answer["swarm"].get("node_id")
    if node_id not in [node["ID"] for node in known.nodes or ()]:
        return (
            f"{known.host} (node id {node_id}) is not in the swarm of {known.survey.manager}. If it should leave its current swarm, run "
            "'docker swarm leave' on it."
        )
    return membership(Candidate(known.answer, "manager", known.host), known.nodes)["error"]


def _last_manager_error(known: Known, others: list[str], dissolve: bool) -> str | None:
    """Return why this host may not leave as the last manager, or None."""
    others_left = [node["Description"]["Hostname"] for node in known.nodes or () if node["ID"] != known.answer["swarm"].get("node_id")]
    if others or (dissolve and not others_left):
        return None
    if others_left:
        return f"{known.host} is the last manager of its swarm, which also has the nodes {', '.join(others_left)}. Have these leave first."
    return (
        f"{known.host} is the last manager of its swarm. When it leaves, the swarm ends with all services, secrets and configs. To consent, set "
        "swarm_member_dissolve: true."
    )
