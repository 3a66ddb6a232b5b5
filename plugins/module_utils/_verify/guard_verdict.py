# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the guard of a node let a task see GPUs that it did not reserve, as a text with the remedy (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .._guard import refusal
from .._tasks.tasks import assigned
from . import probe_results
from .guard_probes import UNRESERVED, WORDS
from .plan import FAILED, PASSED, UNTESTED, Check
from .probe_results import Outcome


def with_verdict(outcome: Outcome, timeout_s: int, node: Mapping[str, Any] | None = None) -> Check:
    """Return the check with its verdict, in the same form as ``probe_results.with_verdict`` returns."""
    check, task, log, dummy_unread = outcome
    reserved = (assigned(task) if task else {}).get(check["kind"]) or []
    seen = probe_results.seen_in(log)
    devices = probe_results.devices_of(reserved)
    more = [device for device in seen if device not in devices]
    state, verdict = (FAILED, _leak(check, more)) if more else _without_a_leak(outcome, timeout_s, node)
    return dict(check, reserved=reserved, seen=seen, state=state, verdict=verdict)


def _leak(check: Check, more: Sequence[str]) -> str:
    return "NOT ISOLATED: %s, a task sees GPUs that are not its own, %s, though isolation is %s on this node. %s" % (
        WORDS[check["probe"]], probe_results.shorten_devices(more), check["level"], probe_results.PROVISION,
    )  # fmt: skip


def _without_a_leak(outcome: Outcome, timeout_s: int, node: Mapping[str, Any] | None) -> tuple[str, str]:
    check, task, log, unread = outcome
    error = task["Status"].get("Err", "") if task else ""
    words, refused = WORDS[check["probe"]], refusal.read(error)
    if refused and refused.code in refusal.CANNOT_JUDGE:
        return FAILED, refused.text
    if refused:
        return PASSED, "%s, a task is refused" % words
    if check["probe"] == UNRESERVED and "executable file not found" in error:
        return PASSED, "%s, a task sees no GPU" % words  # only a task with a GPU gets nvidia-smi
    if task and probe_results.is_unplaced(task) and not check["kind"]:
        return UNTESTED, "swarm places no task there: %s" % error
    found = probe_results.failed_verdict(outcome, timeout_s, node)
    if found:
        return found
    if unread or not log.strip():
        return FAILED, unread or probe_results.SILENT
    return PASSED, "%s, a task sees %s" % (words, "no GPU" if check["probe"] == UNRESERVED else "no other GPU than that")
