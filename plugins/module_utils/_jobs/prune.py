# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removes what is over: by hand with the module swarm_job_prune, or hourly by a timer on the managers.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from .._errors import GpuSwarmError
from .._swarm.lease import unless_another
from .._swarm.manager import Manager, until_written
from .._swarm.owned_labels import PREFIX
from . import finished, logs, removal

AFTER = "Run this again when it is through."


def refuse(params: Mapping[str, Any]) -> None:
    """What is wrong with the settings."""
    finished.seconds(params["older_than"])
    if params["keep_last"] < 0:
        raise GpuSwarmError("keep_last is %d, and is 0 or more. No job was removed." % params["keep_last"])


class Pruned(NamedTuple):
    """What was removed, by name, and by name why a service stays."""

    changed: bool
    removed: Sequence[str]
    kept: Sequence[tuple[str, removal.Stays]]


def answer(done: Pruned) -> dict[str, Any]:
    """As the module returns it."""
    kept = [{"service": name, "reason": stays.reason} for name, stays in done.kept]
    return {"changed": done.changed, "removed": list(done.removed), "kept": kept}


def prune(manager: Manager, params: Mapping[str, Any], check_mode: bool) -> Pruned:
    """Removes what is over. ``params`` are the options of the module."""
    refuse(params)
    age, named = finished.seconds(params["older_than"]), params["services"] or []
    dummy, now = until_written(lambda: unless_another(manager, params["holder"], "No job was removed", AFTER, check_mode))
    found = removal.candidates(manager, removal.Wanted(params["services"], params["labels"], PREFIX))
    rules = finished.Rules(age, params["keep_last"], params["failed"])
    chosen, kept = finished.chosen(found, named, rules, now)
    stays = [(one.service, removal.Stays(reason)) for one, reason in kept]
    removed = []
    for one in chosen:
        files = logs.Kept(params["log_directory"], params["log_limit_mib"])
        why = None if check_mode else removal.remove(manager, one, params["failed"], PREFIX, files)
        if why:
            stays.append((one.service, why))
        else:
            removed.append(one.service)
    there = {one.service for one in found}
    gone = [name for name in named if name not in there]
    return Pruned(bool(removed), sorted({*removed, *gone}), sorted(stays, key=lambda one: one[0]))
