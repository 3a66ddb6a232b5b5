# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The outcome of a host on which a task failed (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .._answers.answer import CONTAINERS
from .._fleet.outcome import FACT, State
from .member import member_of

LOST_OVER = "gpu_swarm_connection_lost"  # the callback gpu_swarm_lost_connections sets this fact
LATE = "failed to execute in the expected time frame"
NO_REASON = "see above"


class Failure(NamedTuple):
    """The failed result, the name of its task, and why the host no longer answers ('' if it does)."""

    result: Mapping[str, Any]
    task: str
    gone: str = ""


def is_late(result: Mapping[str, Any]) -> bool:
    """Return whether the task exceeded its time-out, and may still run. ansible-core 2.18 and newer have a field for this. Older releases only have a
    message.
    """
    return "timedout" in result or LATE in str(result.get("msg") or "")


def outcome(name: str, facts: Mapping[str, Any], failure: Failure, failed_as: str | None = None) -> dict[str, Any]:
    """Return the state and the reason, from the ``facts`` of the host. ``failed_as`` is the state of a host that still answers and whose change is
    not undone."""
    existing = facts.get(FACT)
    if existing:  # with run_once, the failure of one host fails all hosts
        return dict(existing)
    blocking = _started_work(name, facts, failure.result)
    if failure.gone or is_late(failure.result):
        state = State.LOST
    elif blocking:
        state = State.WAITING
    else:  # "out": the node is not as it was before
        state = State(failed_as) if failed_as else State.FAILED if failure.result.get("restored", True) else State.OUT
    reason = failure.gone or ", ".join(blocking) or _reason(facts.get(LOST_OVER), failure, failed_as)
    return {"state": state.value, "reason": reason}


def _started_work(name: str, facts: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    """Describe the work that must end before dockerd restarts: work that started after the assessment, or else running containers without a service.

    Tasks of services are excluded, because the drain already gave them time to end. Any module may have returned ``result``, and the host may lie, so
    check the form of ``result``.
    """
    started, busy = (result[key] if CONTAINERS(result.get(key)) else None for key in ("came", "busy"))
    started_work = [item for item in busy or () if not item["service"]] if started is None else started
    return member_of(name, facts).blocking(started_work) + list(facts.get("swarm_member_waits_for") or ())


def _reason(lost_over: str | None, failure: Failure, failed_as: str | None) -> str:
    message = str(failure.result.get("msg", NO_REASON))
    if lost_over and lost_over in message:
        return str(lost_over)  # drop the text that Ansible adds about the failed condition
    # The message of a user's task only says that a command failed, and the message of a late task only names the time-out. So add the task's name.
    names_task = is_late(failure.result) or failed_as == State.OUT.value
    return f"the task {failure.task}: {message}" if names_task else message
