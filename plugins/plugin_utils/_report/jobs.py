# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports jobs (pure): a line whenever the state of a job changes, and a table at the end.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...module_utils._jobs.queued_job import WAITING
from ...module_utils._view import table as tables

MAX_LINES = 20  # how many lines to print at a time, because an array may have a thousand jobs


def state_changes(answer: Mapping[str, Any], reported: dict[str, str]) -> list[str]:
    """Return a line for each job or gang whose state differs from its state in ``reported``. Update ``reported``."""
    lines = []
    for name, members in units(answer["jobs"]).items():
        state = _describe_state(members)
        # Only the table shows why work waits, because the reason changes whenever other work ends.
        compared = states(members) if states(members) == WAITING else state
        if reported.get(name) != compared:
            reported[name] = compared
            lines.append(f"{name}: {state}")
    omitted = len(lines) - MAX_LINES
    return lines if omitted <= 0 else [*lines[:MAX_LINES], f"and {omitted} more"]


class Reasons:
    """Remembers why jobs wait, because only some answers have the reasons."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, int, str]] = {}

    def fill(self, answer: Mapping[str, Any], is_explained: bool) -> dict[str, Any]:
        """Return the answer with the last known reason of each job that still waits for the same try."""
        if is_explained:
            self._known = {job["service"]: (job["state"], job["tries"], job["error"]) for job in answer["jobs"] if job["state"] == WAITING}
            return dict(answer)
        return {**answer, "jobs": [{**job, "error": self._reason(job) or job["error"]} for job in answer["jobs"]]}

    def _reason(self, job: Mapping[str, Any]) -> str:
        state, tries, why = self._known.get(job["service"], ("", 0, ""))
        return why if (state, tries) == (job["state"], job.get("tries")) else ""


def units(jobs: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the jobs by the name in their line: each job alone, and the members of a gang together."""
    gangs = Counter(job.get("gang") for job in jobs)
    units: dict[str, list[Mapping[str, Any]]] = {}
    for job in jobs:
        gang = job.get("gang")
        units.setdefault(f"{gang} ({gangs[gang]} nodes)" if gang else job["service"], []).append(job)
    return units


def _describe_state(members: Sequence[Mapping[str, Any]]) -> str:
    number, why = max(job["tries"] for job in members), reason(members)
    return states(members) + (f" (try {number})" if number > 1 else "") + (f": {why}" if why else "")


def states(members: Sequence[Mapping[str, Any]]) -> str:
    """Return the state of a job, or the states of the members of a gang."""
    counts = Counter(job["state"] for job in members)
    return next(iter(counts)) if len(counts) == 1 else ", ".join(f"{number} {state}" for state, number in counts.items())


def _cause(members: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the member that explains the state of its gang. If one member fails, its queue stops the others."""
    return min(members, key=lambda job: (not job["error"], " of its gang " in job["error"]))


def reason(members: Sequence[Mapping[str, Any]]) -> str:
    """Return why the job or the gang is in its state; '' if that is unknown."""
    cause = _cause(members)
    is_shared = all(job["error"] == cause["error"] for job in members)
    return cause["error"] if is_shared else f"rank {cause['service'].rpartition('-')[2]}: {cause['error']}"


def table(answer: Mapping[str, Any], width: int | None) -> str:
    """Return a table with a row for each job or gang."""
    jobs = answer["jobs"]
    if not jobs:
        return "no jobs match"
    rows = []
    for name, members in units(jobs).items():
        cause, tries = _cause(members), max(job["tries"] for job in members)
        rows.append([name, cause["parameters"], states(members), _exit_code(cause), tries, reason(members)])
    counts = Counter(_cause(members)["state"] for members in units(jobs).values())
    headings = ["job", "parameters", "state", "exit code", "tries", "reason"]
    return "\n".join([tables.render(headings, rows, width), "", ", ".join(f"{number} {state}" for state, number in counts.items())])


def _exit_code(job: Mapping[str, Any]) -> str:
    return tables.NOTHING if job["exit_code"] is None else str(job["exit_code"])
