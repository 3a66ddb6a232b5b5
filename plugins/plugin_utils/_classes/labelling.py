# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The labels of classes by calls of swarm_nodes, which is to evict nothing: of all nodes, or of none.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...module_utils._errors import GpuSwarmError
from .constraints import Labels

MODULE = "fleet.gpu_swarm.swarm_nodes"


# Calls a module with these arguments; in check mode where the last says so, whatever the run's.
Call = Callable[[str, dict[str, Any], bool], Mapping[str, Any]]


class Manager(NamedTuple):
    """The manager that is called: the options by which its API is reached, how, and its name."""

    api: Mapping[str, Any]
    call: Call
    who: str


def add(labels: Labels, manager: Manager, nothing: str, checks: bool) -> bool:
    """Labels the nodes; whether any lacked one. ``nothing`` says that what needs them was not begun.

    swarm_nodes writes what it may, and lists the nodes that it may not: so it is queried before whether there are any.
    """
    if not labels:
        return False
    arguments = {**manager.api, "nodes": [{"id": node_id, "labels": more, "keep": [""], "evict": "none"} for node_id, more in labels.items()]}
    would = _changed(manager.call(MODULE, arguments, True), manager.who, nothing)
    return _changed(manager.call(MODULE, arguments, False), manager.who, nothing) if would and not checks else would


def _changed(answer: Mapping[str, Any], who: str, nothing: str) -> bool:
    if "nodes" not in answer:
        raise GpuSwarmError(f"{who}: nodes could not be labelled: {answer.get('msg') or 'no reason given'} {nothing}")
    stopped = [f"{one['hostname']} ({', '.join(task['service'] for task in one['tasks'])})" for one in answer["refused"]]
    if stopped:
        raise GpuSwarmError(
            f"{who}: for x-gpu a label has to be added to {', '.join(stopped)}, and at that update swarm would stop a task of the "
            f"services that are named with each. Run this again when they have ended. {nothing}"
        )
    return bool(answer["changed"])
