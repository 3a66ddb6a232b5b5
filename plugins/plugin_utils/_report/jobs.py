# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports jobs (pure): a line whenever the state of a job changes, and a table at the end.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils._view import table as tables

MAX_LINES = 20  # how many lines to print at a time, because an array may have a thousand jobs


def state_changes(answer: Mapping[str, Any], reported: dict[str, str]) -> list[str]:
    """Return a line for each job whose state differs from its state in ``reported``. Update ``reported``."""
    lines = []
    for job in answer["jobs"]:
        state = _describe_state(job)
        if reported.get(job["service"]) != state:
            reported[job["service"]] = state
            lines.append(f"{job['service']}: {state}")
    omitted = len(lines) - MAX_LINES
    return lines if omitted <= 0 else [*lines[:MAX_LINES], f"and {omitted} more"]


def _describe_state(job: Mapping[str, Any]) -> str:
    tries = f" (try {job['tries']})" if job["tries"] > 1 else ""
    return f"{job['state']}{tries}" + (f": {job['error']}" if job["error"] else "")


def table(answer: Mapping[str, Any], width: int | None) -> str:
    jobs = answer["jobs"]
    if not jobs:
        return "no jobs match"
    rows = [[job["service"], job["parameters"], job["state"], _exit_code(job), job["tries"], job["error"]] for job in jobs]
    counts: dict[str, int] = {}
    for job in jobs:
        counts[job["state"]] = counts.get(job["state"], 0) + 1
    headings = ["job", "parameters", "state", "exit code", "tries", "reason"]
    return "\n".join([tables.render(headings, rows, width), "", ", ".join(f"{number} {state}" for state, number in counts.items())])


def _exit_code(job: Mapping[str, Any]) -> str:
    return tables.NOTHING if job["exit_code"] is None else str(job["exit_code"])
