# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The labels of classes as one call of swarm_nodes, which is to evict nothing, and what its answer means (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils._errors import GpuSwarmError
from .constraints import Labels

MODULE = "fleet.gpu_swarm.swarm_nodes"


def request(labels: Labels) -> list[dict[str, Any]]:
    return [{"id": node_id, "labels": more, "keep": [""], "evict": "none"} for node_id, more in labels.items()]


def changed(answer: Mapping[str, Any], who: str, nothing: str) -> bool:
    """Whether a node lacked one. ``nothing`` says that what needs them was not begun."""
    if "nodes" not in answer:
        raise GpuSwarmError(f"{who}: nodes could not be labelled: {answer.get('msg') or 'no reason given'} {nothing}")
    stopped = [f"{one['hostname']} ({', '.join(task['service'] for task in one['tasks'])})" for one in answer["refused"]]
    if stopped:
        raise GpuSwarmError(
            f"{who}: for x-gpu a label has to be added to {', '.join(stopped)}, and at that update swarm would stop a task of the "
            f"services that are named with each. Run this again when they have ended. {nothing}"
        )
    return bool(answer["changed"])
