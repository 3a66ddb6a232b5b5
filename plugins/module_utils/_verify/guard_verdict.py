# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether the guard of a node let a task see GPUs that the task did not reserve (pure). The verdict is a text with the remedy.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .._guard import refusal
from .._tasks.tasks import assigned
from . import probe_results
from .guard_probes import DESCRIPTIONS, UNRESERVED
from .plan import FAILED, PASSED, UNTESTED, Check
from .probe_results import Outcome


def with_verdict(outcome: Outcome, timeout_s: int, node: Mapping[str, Any] | None = None) -> Check:
    """Return the check with its verdict, in the same form as ``probe_results.with_verdict`` returns."""
    check, task, log, dummy_unread = outcome
    reserved = (assigned(task) if task else {}).get(check["kind"]) or []
    seen = probe_results.seen_in(log)
    devices = probe_results.devices_of(reserved)
    more = [device for device in seen if device not in devices]
    state, verdict = (FAILED, _leak(check, more)) if more else _verdict_without_leak(outcome, timeout_s, node)
    return dict(check, reserved=reserved, seen=seen, state=state, verdict=verdict)


def _leak(check: Check, more: Sequence[str]) -> str:
    return "NOT ISOLATED: %s, a task sees GPUs that are not allocated to it, %s, although isolation is %s on this node. %s" % (
        DESCRIPTIONS[check["probe"]], probe_results.shorten_devices(more), check["level"], probe_results.PROVISION,
    )  # fmt: skip


def _verdict_without_leak(outcome: Outcome, timeout_s: int, node: Mapping[str, Any] | None) -> tuple[str, str]:
    check, task, log, unread = outcome
    error = task["Status"].get("Err", "") if task else ""
    description, refused = DESCRIPTIONS[check["probe"]], refusal.parse_refusal(error)
    if refused and refused.code in refusal.UNDECIDED:
        return FAILED, refused.text
    if refused:
        return PASSED, "%s, a task is refused" % description
    if check["probe"] == UNRESERVED and "executable file not found" in error:
        return PASSED, "%s, a task sees no GPU" % description  # only a task with a GPU gets nvidia-smi
    if task and probe_results.is_unplaced(task) and not check["kind"]:
        return UNTESTED, "swarm places no task there: %s" % error
    failure = probe_results.failed_verdict(outcome, timeout_s, node)
    if failure:
        return failure
    if unread or not log.strip():
        return FAILED, unread or probe_results.SILENT
    return PASSED, "%s, a task sees %s" % (description, "no GPU" if check["probe"] == UNRESERVED else "only the reserved GPU")
