# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from functools import partial

from ..plugin_utils._rollout.poll import apart, poll
from .gpu_node import ActionModule as NodeAction

OWN = ("wait_timeout", "delay")
NOT_BACK = "its dockerd is not back in its swarm (%s) after %g s. Look at 'docker info' there."


def left(answer):
    """What is waited for. What hangs once hangs on, so that nobody waits for it."""
    if answer.get("hangs"):
        return []
    if answer.get("failed"):
        return ["the driver and dockerd"]
    return [] if _state(answer) == "active" else ["dockerd to be back in its swarm"]


def _state(answer):
    return (answer.get("swarm") or {}).get("state")


class ActionModule(NodeAction):
    """Queries a node again until it is back."""

    def run(self, tmp=None, task_vars=None):
        own, self._task.args = apart(self._task.args, OWN)
        host, timeout = task_vars["inventory_hostname"], float(own["wait_timeout"])
        query = partial(self.query, tmp, task_vars)
        answer = poll(query, left, timeout, lambda text: self._display.display(f"{host}: {text}"), float(own.get("delay", 5)))
        if answer.get("failed") or not left(answer):
            return answer
        return {**answer, "failed": True, "msg": NOT_BACK % (_state(answer) or "no state", timeout)}
