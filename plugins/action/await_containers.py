# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from functools import partial

from ansible.errors import AnsibleConnectionFailure

from ..module_utils._dockerd.containers import not_drained
from ..module_utils._printable import printable
from ..plugin_utils._controller.found import Found
from ..plugin_utils._rollout.poll import apart, poll
from ..plugin_utils._rollout.preconditions import blocking_workloads, not_emptied
from ..plugin_utils._rollout.updates import step_of
from .gpu_node import ActionModule as NodeAction

NO_ANSWER = ["an answer of the node"]  # dockerd is slow to answer while it stops containers
OWN = ("ledger", "event", "wait_timeout", "delay")


def still_blocked(host, variables, ledger, answer):
    """What must not be stopped on the host."""
    return blocking_workloads([host], variables, ledger, answer["containers"]) if "containers" in answer else NO_ANSWER


def still_there(host, variables, ledger, answer):
    """What a drain has yet to end."""
    if "containers" not in answer:
        return NO_ANSWER
    return [f"container {item['name']}" for item in answer["containers"] if item["service"]]


EVENTS = {"work_ended": still_blocked, "drained": still_there}


class ActionModule(NodeAction):
    """Queries a node again until what is waited for has ended there."""

    def run(self, tmp=None, task_vars=None):
        own, args = apart(self._task.args, OWN)
        self._task.args = {**args, "state": "gathered"}
        host = task_vars["inventory_hostname"]
        variables = Found(task_vars["hostvars"])
        left = partial(EVENTS[own["event"]], host, variables, own.get("ledger"))
        query = partial(super().run, tmp, task_vars)
        timeout = float(own["wait_timeout"])
        wait = partial(poll, query, left, timeout, lambda text: self._display.display(f"{host}: {text}"), float(own.get("delay", 2)))
        return self._drained(wait, step_of(host, variables), not_drained(timeout)) if own["event"] == "drained" else wait()

    def _drained(self, wait, step, remedy):
        """Fails where anything is left, or where nobody knows."""
        try:
            answer = wait()
        except AnsibleConnectionFailure as failure:
            answer = {"msg": printable(str(failure))}
        why = not_emptied(step, answer, remedy)
        return {**answer, "failed": True, "msg": why} if why else answer
