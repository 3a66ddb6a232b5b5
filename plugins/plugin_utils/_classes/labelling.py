# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Adds class labels with the module swarm_nodes, on all nodes or on none, and without evicting tasks.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...module_utils._errors import GpuSwarmError
from .constraints import Labels

MODULE = "fleet.gpu_swarm.swarm_nodes"


# Calls a module with arguments. The last argument says whether to use check mode.
Call = Callable[[str, dict[str, Any], bool], Mapping[str, Any]]


class Manager(NamedTuple):
    """The manager to call: the options of its API, the call function, and its name for messages."""

    api: Mapping[str, Any]
    call: Call
    who: str


def add(labels: Labels, manager: Manager, nothing_text: str, check_mode: bool) -> bool:
    """Label the nodes. Return whether any label was missing. ``nothing_text`` says that nothing was deployed.

    swarm_nodes labels the nodes that it may label, and lists the others. So this function first calls it in check mode, to find out whether it
    refuses any node.
    """
    if not labels:
        return False
    arguments = {**manager.api, "nodes": [{"id": node_id, "labels": more, "keep": [""], "evict": "none"} for node_id, more in labels.items()]}
    would_change = _changed(manager.call(MODULE, arguments, True), manager.who, nothing_text)
    return _changed(manager.call(MODULE, arguments, False), manager.who, nothing_text) if would_change and not check_mode else would_change


def _changed(answer: Mapping[str, Any], who: str, nothing_text: str) -> bool:
    if "nodes" not in answer:
        raise GpuSwarmError(f"{who}: the nodes could not be labelled: {answer.get('msg') or 'no reason given'} {nothing_text}")
    stopped = [f"{node['hostname']} ({', '.join(task['service'] for task in node['tasks'])})" for node in answer["refused"]]
    if stopped:
        raise GpuSwarmError(
            f"{who}: x-gpu needs a new label on {', '.join(stopped)}, but the update would make swarm stop a task of the services in "
            f"brackets. Run this again when they have ended. {nothing_text}"
        )
    return bool(answer["changed"])
