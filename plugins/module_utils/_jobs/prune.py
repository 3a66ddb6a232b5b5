# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removes finished jobs. The module swarm_job_prune calls this code, and so does the service on the leading manager, every hour.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from .._errors import GpuSwarmError
from .._swarm.lease import refuse_if_another_run
from .._swarm.manager import Manager, until_written
from .._swarm.owned_labels import PREFIX
from . import finished, logs, removal

AFTER = "Run this again when that run has ended."


def check_settings(params: Mapping[str, Any]) -> None:
    """Raise GpuSwarmError if a setting is invalid."""
    finished.seconds(params["older_than"])
    if params["keep_last"] < 0:
        raise GpuSwarmError("keep_last is %d. Write 0 or more. No job was removed." % params["keep_last"])


class Pruned(NamedTuple):
    """The names of removed services, and the names of kept services with the reason."""

    changed: bool
    removed: Sequence[str]
    kept: Sequence[tuple[str, removal.Kept]]


def module_result(done: Pruned) -> dict[str, Any]:
    """Return the module's result."""
    kept = [{"service": name, "reason": reason.reason} for name, reason in done.kept]
    return {"changed": done.changed, "removed": list(done.removed), "kept": kept}


def prune(manager: Manager, params: Mapping[str, Any], check_mode: bool) -> Pruned:
    """Remove finished jobs. ``params`` are the options of the module."""
    check_settings(params)
    age, named = finished.seconds(params["older_than"]), params["services"] or []
    dummy, now = until_written(lambda: refuse_if_another_run(manager, params["holder"], "No job was removed", AFTER, check_mode))
    candidates = removal.candidates(manager, removal.Wanted(params["services"], params["labels"], PREFIX))
    rules = finished.Rules(age, params["keep_last"], params["failed"])
    removable, excepted = finished.split_by_rules(candidates, named, rules, now)
    kept = [(candidate.service, removal.Kept(reason)) for candidate, reason in excepted]
    removed = []
    for candidate in removable:
        files = logs.LogFiles(params["log_directory"], params["log_limit_mib"])
        obstacle = None if check_mode else removal.remove(manager, candidate, params["failed"], PREFIX, files)
        if obstacle:
            kept.append((candidate.service, obstacle))
        else:
            removed.append(candidate.service)
    existing = {candidate.service for candidate in candidates}
    already_removed = [name for name in named if name not in existing]
    return Pruned(bool(removed), sorted({*removed, *already_removed}), sorted(kept, key=lambda item: item[0]))
