# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What became of a host in a run (pure): the states that there are, the text that is shown of each, and its verdict.

Whoever decides anything, the exit status among them, goes by the members of these enumerations. Their text is for people.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from ...module_utils._printable import printable_lines

FACT = "gpu_swarm_outcome"


class Verdict(str, Enum):
    """The result of a run for a host. Under the table, the values stand before the hosts' names."""

    DONE = "done"  # exit status 0
    WAITING = "waiting"  # exit status 75, as long as no host has one of the next two
    UNTOUCHED = "untouched"  # exit status 2, as for any host that failed
    FAILED = "failed"  # exit status 2


class State(Enum):
    """The value is what playbooks keep in gpu_swarm_outcome; the text is what the table shows, with details in place of {}."""

    text: str
    verdict: Verdict

    def __new__(cls, value: str, text: str = "{}", verdict: Verdict = Verdict.FAILED) -> State:
        member = object.__new__(cls)
        member._value_, member.text, member.verdict = value, text, verdict
        return member

    # Why a host did not get through a run: its outcome.
    FAILED = ("failed", "failed: {}")  # it is as it was before, and the reason is why
    WAITING = ("waiting", "waiting for {}", Verdict.WAITING)  # paused, until what runs there has ended
    LOST = ("lost", "lost: {}")  # it does not answer any more: its state is not known
    OUT = ("out", "out: {}")  # its maintenance was begun and not finished, or its change could not be undone: it is not as it was before
    UNTOUCHED = ("untouched", "untouched: {}", Verdict.UNTOUCHED)  # its turn did not come

    # What the end of a run finds of a host that has no outcome.
    READY = ("ready", "ready", Verdict.DONE)  # as it is to be; what else there is to know follows
    ABSENT = ("absent", "deprovisioned", Verdict.DONE)  # after deprovision: nothing is left there that was to go
    NOT_KNOWN = ("not_known", "not known: no manager answered at the end")
    NOT_A_MEMBER = ("not_a_member", "not in the swarm")
    NOT_READY = ("not_ready", "{} for the manager")  # in the manager's list, in a state that takes no tasks
    BY_HAND = ("by_hand", "{}", Verdict.DONE)  # somebody paused or drained it, and decides when that ends
    UNFIT = ("unfit", "paused for a fault: {}")  # no new task comes until that is fixed
    # Still paused or drained, with the mark of a run.
    NOT_RETURNED = ("not_returned", "still on {}: its former availability, {}, could not be restored. Run this again")
    NOT_CONVERGED = ("not_converged",)  # the manager shows other resources than were decided, in words
    STILL_LISTED = ("still_listed", "it left the swarm, but the manager still lists it. Run this again")
    STILL_A_MEMBER = ("still_a_member", "still in the swarm: {}")  # though it was to leave
    STILL_LABELLED = ("still_labelled", "the manager still shows labels of this collection. Run this again")

    def of(self, *details: str, more: str = "") -> HostState:
        """This state with its text; ``more`` follows it."""
        return HostState(self, self.text.format(*details) + more)


class HostState(NamedTuple):
    """What a host is in, and the text for people."""

    state: State
    text: str

    @property
    def verdict(self) -> Verdict:
        return self.state.verdict


# No work is sent there before the next run.
STAYS_PAUSED = (State.WAITING, State.LOST, State.OUT)
BAD = (State.FAILED, State.LOST, State.OUT)


NO_REASON = "no reason given"


class Outcome(NamedTuple):
    """Why a host did not get through a run.

    A play cannot say it by failing: with batches, Ansible would end the whole run there, and leave healthy hosts half-way.
    So each host keeps its outcome as a fact, ``{state, reason}``, and the last play reports it.
    ``leave_paused``: its turn did not come, and another run may have paused it since for reasons of its own.
    """

    state: State
    reason: str
    leave_paused: bool = False

    @property
    def stays_paused(self) -> bool:
        return self.leave_paused or self.state in STAYS_PAUSED


def outcome_of(variables: Mapping[str, Any]) -> Outcome | None:
    """The outcome in a host's variables; None where all went well so far. Where it could not be found out, the host is lost."""
    kept = variables.get(FACT)
    if not kept:
        return None
    if "state" not in kept:  # the task that was to find it out failed, by a time-out of Ansible's say
        return Outcome(State.LOST, printable_lines(str(kept.get("msg") or NO_REASON)))
    return Outcome(State(str(kept["state"])), printable_lines(str(kept.get("reason") or NO_REASON)), bool(kept.get("leave_paused")))
