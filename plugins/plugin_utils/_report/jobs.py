# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports jobs (pure): a line whenever the state of a job changes, and a table at the end.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import table as text

MAX_NEWS = 20  # lines at a time: an array may have a thousand jobs


def state_changes(answer: Mapping[str, Any], reported: dict[str, str]) -> list[str]:
    """A line for each job whose state differs from the one in ``reported``. Updates ``reported``."""
    found = []
    for one in answer["jobs"]:
        state = _describe_state(one)
        if reported.get(one["service"]) != state:
            reported[one["service"]] = state
            found.append(f"{one['service']}: {state}")
    more = len(found) - MAX_NEWS
    return found if more <= 0 else [*found[:MAX_NEWS], f"and {more} more"]


def _describe_state(one: Mapping[str, Any]) -> str:
    tries = f" (try {one['tries']})" if one["tries"] > 1 else ""
    return f"{one['state']}{tries}" + (f": {one['error']}" if one["error"] else "")


def table(answer: Mapping[str, Any], width: int | None) -> str:
    jobs = answer["jobs"]
    if not jobs:
        return "no jobs match"
    rows = [[one["service"], one["parameters"], one["state"], _exit_code(one), one["tries"], one["error"]] for one in jobs]
    counts: dict[str, int] = {}
    for one in jobs:
        counts[one["state"]] = counts.get(one["state"], 0) + 1
    headings = ["job", "parameters", "state", "exit code", "tries", "reason"]
    return "\n".join([text.render(headings, rows, width), "", ", ".join(f"{number} {state}" for state, number in counts.items())])


def _exit_code(one: Mapping[str, Any]) -> str:
    return text.NOTHING if one["exit_code"] is None else str(one["exit_code"])
