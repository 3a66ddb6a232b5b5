# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What became of a host on which a task failed (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .._answers.answer import CONTAINERS
from .._fleet.outcome import FACT, State
from .member import member_of

LOST_OVER = "gpu_swarm_connection_lost"  # by the callback gpu_swarm_lost_connections
LATE = "failed to execute in the expected time frame"
NO_REASON = "see above"


class Failure(NamedTuple):
    """The result that failed, the name of its task, and why the host does not answer since."""

    result: Mapping[str, Any]
    task: str
    gone: str = ""


def is_late(result: Mapping[str, Any]) -> bool:
    """Whether the task did not end in its time, and may still be at it: as ansible-core marks it from 2.18 on, and in the words of those before."""
    return "timedout" in result or LATE in str(result.get("msg") or "")


def outcome(name: str, facts: Mapping[str, Any], failure: Failure, failed_as: str | None = None) -> dict[str, Any]:
    """The state and the reason for the end of the run, by the ``facts`` of the host. ``failed_as`` is the state of a host that answers, where nobody
    undoes its change."""
    known = facts.get(FACT)
    if known:  # with run_once a failure is everybody's
        return dict(known)
    blocking = _came(name, facts, failure.result)
    if failure.gone or is_late(failure.result):
        state = State.LOST
    elif blocking:
        state = State.WAITING
    else:  # a node that is not as it was before is out
        state = State(failed_as) if failed_as else State.FAILED if failure.result.get("restored", True) else State.OUT
    reason = failure.gone or ", ".join(blocking) or _said(facts.get(LOST_OVER), failure, failed_as)
    return {"state": state.value, "reason": reason}


def _came(name: str, facts: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    """What came between the assessment of a node and the restart of its dockerd must end first, as what had been there before. What is of swarm
    had its time to end, with the drain. The result may be of any module, and of a host that answers what it likes."""
    came, busy = (result[key] if CONTAINERS(result.get(key)) else None for key in ("came", "busy"))
    found = [item for item in busy or () if not item["service"]] if came is None else came
    return member_of(name, facts).blocking(found) + list(facts.get("swarm_member_waits_for") or ())


def _said(lost_over: str | None, failure: Failure, failed_as: str | None) -> str:
    said = str(failure.result.get("msg", NO_REASON))
    if lost_over and lost_over in said:
        return str(lost_over)  # without Ansible's words about the condition that reported it
    # A task of the user's own says no more than that its command failed, and one that did not end only how long it was waited for.
    named = is_late(failure.result) or failed_as == State.OUT.value
    return f"the task {failure.task}: {said}" if named else said
