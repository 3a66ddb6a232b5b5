# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A batch of hosts during one step of a run, and the manager that is called for them.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .._fleet.outcome import FACT, State, outcome_of
from .member import Member, Variables, View, by_ledger, member_of
from .poll import poll

Answer = dict[str, Any]
# Runs a module of this collection on the manager: call(name, **options).
Call = Callable[..., Answer]
NO_MANAGER = ["an answer of the swarm's manager"]
# The managers need seconds to elect another leader.
ELECTION_S = 20


@dataclass
class Batch:
    """The hosts of one step, and the manager that is called for them.

    ``ledger`` and ``lease`` are the manager's latest answers. ``outcomes`` has the outcomes of hosts that stop at this step.
    """

    hosts: list[str]
    variables: Variables
    plan: Mapping[str, Any]
    call: Call
    holder: str = ""  # this run, as the holder of a lease
    ttl: int = 0  # how long the lease lasts, in seconds
    force: bool = False  # whether to take the lease of another run
    absent: bool = False  # whether this run is a deprovision
    check_mode: bool = False
    ledger: Mapping[str, Any] = field(default_factory=dict)
    lease: Mapping[str, Any] = field(default_factory=dict)
    lease_known: bool = False  # whether this step has requested the lease; otherwise each host uses the answer that its batch got
    say: Callable[[str], None] = print
    warn: Callable[[str], None] = print
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    poll: Callable[..., Answer] = poll
    clock: Callable[[], float] = time.time
    _members: dict[str, Member] = field(default_factory=dict)

    def member(self, name: str) -> Member:
        """Return a host of the run, with all that this step knows about it so far."""
        if name not in self._members:
            self._members[name] = member_of(name, self.variables[name])
        return replace(self._members[name], lease=self.lease) if self.lease_known else self._members[name]

    def view(self, names: Iterable[str] | None = None) -> View:
        """Return the view of these hosts (by default the whole batch), with the swarm in the latest ledger."""
        return self.view_by(self.ledger, names)

    def view_by(self, ledger: Mapping[str, Any] | None, names: Iterable[str] | None = None) -> View:
        """Return the same view with this ``ledger``. If the latest ledger is older than the lease, pass None, because the ledger would show the
        former holder.
        """
        return by_ledger((self.member(name) for name in (self.hosts if names is None else names)), ledger)

    @property
    def remaining(self) -> list[str]:
        """Return the hosts without an outcome. The run continues with these hosts."""
        return [name for name in self.hosts if not self.member(name).outcome]

    def give_outcome(self, names: Iterable[str], state: State, reason: str, **more: Any) -> None:
        """Give these hosts an outcome, except hosts that have one. Does nothing if ``reason`` is empty."""
        for name in names if reason else ():
            if not self.member(name).outcome:
                self.outcomes[name] = {"state": state.value, "reason": reason, **more}
                self._members[name] = replace(self._members[name], outcome=outcome_of({FACT: self.outcomes[name]}))

    def longest(self, setting: str) -> int:
        """Return the highest value of this setting in the batch."""
        return max((self.plan["steps"][name]["settings"][setting] for name in self.hosts), default=0)

    def query(self) -> Answer:
        """Query the manager for its ledger."""
        return self.call("swarm_gpu_info", **self._keep_label)

    @property
    def _keep_label(self) -> dict[str, str]:
        return {"keep_label": self.plan["settings"]["provision_keep_label"]}

    def read_ledger(self) -> bool:
        """Read the ledger. Return whether the manager answered. Managers that have just lost their leader get time to elect another leader."""
        self.ledger = self._call_after_election(self.query)
        return "nodes" in self.ledger

    def _call_after_election(self, call: Callable[[], Answer]) -> Answer:
        return self.poll(call, _waits_for_election, ELECTION_S, self.say, 1)

    def wait(self, waits_for: Callable[[Answer], list[str]], timeout: float, delay: float = 2) -> Answer:
        """Query until ``waits_for`` returns nothing, or until the time is over. Return the last answer. A failed answer does not replace the ledger.
        """
        answer = self.poll(self.query, waits_for, timeout, self.say, delay)
        self.ledger = answer if "nodes" in answer else self.ledger
        return answer

    def acquire(self, **more: Any) -> bool:
        """Acquire or renew the lease, unless another run has it. Return whether the manager answered. ``more`` are options of swarm_lease."""
        self.set_lease(self._call_after_election(lambda: self.call("swarm_lease", ttl=self.ttl, force=self.force, **more)))
        return "acquired" in self.lease

    def write(self, updates: list[dict[str, Any]], **more: Any) -> Answer:
        """Call swarm_nodes with the options ``more``. The module writes only while this run has the lease, so that a hanging call cannot write later.
        """
        holder = {"holder": self.lease["holder"]} if self.lease.get("acquired") else {}
        return self._call_after_election(lambda: self.call("swarm_nodes", nodes=updates, **holder, **self._keep_label, **more))

    def set_lease(self, lease: Answer) -> None:
        self.lease, self.lease_known = lease, True

    def answer(self, answered: bool = True) -> Answer:
        return {"answered": answered, "ledger": self.ledger, "lease": self.lease, "outcomes": self.outcomes}


def _waits_for_election(answer: Answer) -> list[str]:
    return NO_MANAGER if answer.get("swarm_state") == "no_quorum" and "nodes" not in answer else []
