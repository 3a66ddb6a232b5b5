# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host during a run, and all hosts of one step together with the swarm's ledger (pure).

Ansible keeps the state of a host in several facts: its plan, its assessment, the applied changes, and its outcome. This code reads these facts once
per step. Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from .._fleet.model import PlannedWork, Step
from .._fleet.outcome import Outcome, outcome_of
from .._fleet.workload import CONTAINERS, NOTHING, UNREAD, Work, describe_work, must_stay, stopped_work, work_on
from .run_lease import FACT as LEASE
from .run_lease import lease_blocker, lease_by

# The facts of a host, by Ansible's names.
PLAN, ASSESSED, APPLIED = "gpu_swarm_plan", "gpu_node_assessed", "gpu_node_applied"
INSPECTED, JOINED = "gpu_swarm_inspected", "swarm_member_state"

# The facts of each host, by name.
Variables = Mapping[str, Mapping[str, Any]]
Node = Mapping[str, Any]


@dataclass(frozen=True)
class Member:
    """A host as one step of a run sees it."""

    name: str
    step: Step  # its step of the plan
    planned: bool = False  # False before the host has a plan. Without a plan, the step only says that everything on the host may be stopped
    outcome: Outcome | None = None  # why this run does not continue with the host
    node_id: str | None = None  # None if the host is not in a swarm, or has left its swarm
    has_left: bool = False  # whether it left its swarm in this run
    node: Node | None = None  # its entry in the manager's ledger
    lease: Mapping[str, Any] = field(default_factory=dict)  # who has the swarm's lease; empty if this run needs none
    assessed: Mapping[str, Any] = field(default_factory=dict)  # what gpu_node found
    applied: Mapping[str, Any] = field(default_factory=dict)  # what gpu_node did in this run
    containers: list[dict[str, Any]] | None = None  # as last read; None if they could not be read

    @property
    def decided(self) -> Mapping[str, Any]:
        """Return the latest decision for this host."""
        return self.applied or self.assessed

    @property
    def lost_lease(self) -> str:
        """Return why this run may not change this node in the swarm now, or ''. If a run began before the swarm existed, it needs no lease."""
        return lease_blocker(self.lease) if self.lease else ""

    @property
    def not_returned(self) -> bool:
        """Return whether a run paused or drained the node and has not returned it to service."""
        return bool((self.node or {}).get("former_availability"))

    def stopped_work(self, containers: list[dict[str, Any]] | None = None) -> list[Work]:
        """Return the work on the host that the change would stop. By default, ``containers`` are the containers of the last reading."""
        stops, containers_here = self.step.work.stops, self.containers if containers is None else containers
        if containers_here is None:  # unread containers are not "no containers"
            return [] if stops == NOTHING else [UNREAD, *stopped_work(stops, work_on([], self.node))]
        return stopped_work(stops, work_on(containers_here, self.node))

    def must_stay(self, work: list[Work]) -> list[Work]:
        """Return the part of ``work`` that must not be stopped on this host."""
        return must_stay(work, self.step.work.disrupt)

    def blocking(self, containers: list[dict[str, Any]] | None = None) -> list[str]:
        """Return descriptions of the work on the host that must not be stopped.

        By default, ``containers`` are the containers of the last reading. With an empty list, consider only tasks. Tasks of a removed service still
        get the name that their containers have.
        """
        if self.outcome:
            return []
        return describe_work(self.must_stay(self.stopped_work(self._containers_of_tasks() if containers == [] else containers)))

    def _containers_of_tasks(self) -> list[dict[str, Any]]:
        tasks = {task["id"] for task in (self.node or {}).get("tasks") or []}
        return [item for item in self.containers or [] if item.get("task") in tasks]


@dataclass(frozen=True)
class View:
    """Some hosts of a run, and the swarm as the ``ledger`` shows it. If the ledger is None, nothing is compared with it."""

    members: tuple[Member, ...]
    ledger: Mapping[str, Any] | None = None

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """Return the nodes of the ledger by id; empty if no manager could be read."""
        return nodes_of(self.ledger)

    def of(self, names: Iterable[str]) -> View:
        """Return the same view of only these hosts, in this order."""
        by_name = {member.name: member for member in self.members}
        return View(tuple(by_name[name] for name in names), self.ledger)

    def blocking(self, containers: list[dict[str, Any]] | None = None) -> list[str]:
        """Return descriptions of the work on any of these hosts that must not be stopped, see Member.blocking()."""
        return [text for member in self.members for text in member.blocking(containers)]


def nodes_of(ledger: Mapping[str, Any] | None) -> dict[str, Node]:
    return {node["id"]: node for node in (ledger or {}).get("nodes") or []}


def view(names: Iterable[str], variables: Variables, ledger: Mapping[str, Any] | None = None) -> View:
    """Build the view of these hosts from their facts and the ledger."""
    return by_ledger((member_of(name, variables[name]) for name in names), ledger)


def by_ledger(members: Iterable[Member], ledger: Mapping[str, Any] | None) -> View:
    """Build the view of these members. The ledger shows their nodes, and who has the lease now."""
    nodes = nodes_of(ledger)
    updated = (replace(member, node=nodes.get(member.node_id or ""), lease=lease_by(member.lease, ledger)) for member in members)
    return View(tuple(updated), ledger)


def member_of(name: str, facts: Mapping[str, Any]) -> Member:
    """Build a member from the facts of its host alone."""
    planned = ((facts.get(PLAN) or {}).get("steps") or {}).get(name)
    assessed, applied, inspected = (facts.get(fact) or {} for fact in (ASSESSED, APPLIED, INSPECTED))
    return Member(
        name=name,
        step=Step.from_plan(planned) if planned else Step(work=PlannedWork(stops=CONTAINERS)),
        planned=bool(planned),
        outcome=outcome_of(facts),
        node_id=_node_id(facts, planned),
        has_left=(facts.get(JOINED) or {}).get("state") == "inactive",
        lease=facts.get(LEASE) or {},
        assessed=assessed,
        applied=applied,
        containers=next((answer["containers"] for answer in (inspected, assessed) if "containers" in answer), None),
    )


def _node_id(facts: Mapping[str, Any], planned: Mapping[str, Any] | None) -> str | None:
    """Return the node id of a host.

    For a member, the id comes from the plan, which has checked the id that the host shows. For a host that joined in this run, the id comes from the
    join. Without a plan, it is the id that the host shows.
    """
    joined = facts.get(JOINED) or {}
    if joined.get("state") == "inactive":
        return None
    if planned:
        return planned["membership"]["node_id"] or joined.get("node_id")
    return joined.get("node_id") or ((facts.get(ASSESSED) or {}).get("swarm") or {}).get("node_id")
