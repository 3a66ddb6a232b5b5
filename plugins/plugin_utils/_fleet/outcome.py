# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The states of a host at the end of a run (pure), each with its text and its verdict.

Code compares the members of these enumerations, also to choose the exit status. Their text is for people.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from ...module_utils._printable import printable_lines
from ...module_utils._view.verdicts import Verdict

FACT = "gpu_swarm_outcome"


class State(Enum):
    """The value is what playbooks store in gpu_swarm_outcome. The text is what the table shows, with details in place of {}."""

    text: str
    verdict: Verdict

    def __new__(cls, value: str, text: str = "{}", verdict: Verdict = Verdict.FAILED) -> State:
        member = object.__new__(cls)
        member._value_, member.text, member.verdict = value, text, verdict
        return member

    # The outcomes: why the change of a host was not finished.
    FAILED = ("failed", "failed: {}")  # it is as it was before
    WAITING = ("waiting", "waiting for {}", Verdict.WAITING)  # paused until the work on the host has ended
    LOST = ("lost", "lost: {}")  # the host does not answer any more, so its state is unknown
    OUT = ("out", "out: {}")  # its maintenance was not finished, or its change could not be undone: it is not as it was before
    UNTOUCHED = ("untouched", "untouched: {}", Verdict.UNTOUCHED)  # the run ended before its turn

    # The states of hosts without an outcome at the end of a run.
    READY = ("ready", "ready", Verdict.DONE)  # in the wanted state; notes may follow
    ABSENT = ("absent", "deprovisioned", Verdict.DONE)  # after deprovision: everything was removed
    NOT_KNOWN = ("not_known", "not known: no manager answered at the end")
    NOT_A_MEMBER = ("not_a_member", "not in the swarm")
    NOT_READY = ("not_ready", "{} according to the manager")  # listed by the manager, in a state in which it takes no tasks
    BY_HAND = ("by_hand", "{}", Verdict.DONE)  # somebody paused or drained it, and decides when it returns
    UNFIT = ("unfit", "paused for a fault: {}")  # it takes no new tasks until its fault is fixed
    # Still paused or drained by a run.
    NOT_RETURNED = ("not_returned", "still on {}: its former availability, {}, could not be restored. Run this again")
    NOT_CONVERGED = ("not_converged",)  # the manager shows other resources than were decided; the text says which
    STILL_LISTED = ("still_listed", "it left the swarm, but the manager still lists it. Run this again")
    STILL_A_MEMBER = ("still_a_member", "still in the swarm: {}")  # still a member although it should leave
    STILL_LABELLED = ("still_labelled", "the manager still shows labels of this collection. Run this again")

    def of(self, *details: str, more: str = "") -> HostState:
        """Return this state with its text. ``more`` is added to the text."""
        return HostState(self, (self.text.format(*details) + more).replace("\n", " "))


class HostState(NamedTuple):
    """A state, and its text for people, in one line."""

    state: State
    text: str

    @property
    def verdict(self) -> Verdict:
        return self.state.verdict


# These hosts take no new tasks before the next run.
STAYS_PAUSED = (State.WAITING, State.LOST, State.OUT)
BAD = (State.FAILED, State.LOST, State.OUT)


NO_REASON = "no reason given"


class Outcome(NamedTuple):
    """Why the change of a host was not finished.

    A play cannot fail instead: with batches, Ansible would end the whole run and leave healthy hosts half-way. So each host keeps its outcome as a
    fact, ``{state, reason}``, and the last play reports it. ``leave_paused``: this host was not changed, and another run may have paused it.
    """

    state: State
    reason: str
    leave_paused: bool = False

    @property
    def stays_paused(self) -> bool:
        return self.leave_paused or self.state in STAYS_PAUSED


def outcome_of(variables: Mapping[str, Any]) -> Outcome | None:
    """Return the outcome in a host's facts; None if the host had no problem so far. If the task that determines the outcome failed, the host is lost.
    """
    stored = variables.get(FACT)
    if not stored:
        return None
    if "state" not in stored:  # the task that determines the outcome failed, for example by a time-out
        return Outcome(State.LOST, printable_lines(str(stored.get("msg") or NO_REASON)))
    return Outcome(State(str(stored["state"])), printable_lines(str(stored.get("reason") or NO_REASON)), bool(stored.get("leave_paused")))
