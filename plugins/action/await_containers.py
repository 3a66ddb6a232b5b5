# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from functools import partial

from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.parsing.convert_bool import boolean

from ..module_utils._dockerd.containers import not_drained
from ..module_utils._printable import printable
from ..plugin_utils._fleet.found import Found
from ..plugin_utils._rollout.manager_updates import step_of
from ..plugin_utils._rollout.poll import apart, poll
from ..plugin_utils._rollout.window import blocking_workloads, not_emptied
from .gpu_node import ActionModule as NodeAction

NO_ANSWER = ["an answer of the node"]  # dockerd is slow to answer while it stops containers
OWN = ("event", "with_tasks", "wait_timeout", "delay")


def still_blocked(host, variables, ledger, answer):
    """What must not be stopped on the host. Its tasks were waited for before: where such a one is left, it waits whatever else ends here."""
    if "containers" not in answer:
        return NO_ANSWER
    if ledger and blocking_workloads([host], variables, ledger, []):
        return []
    return blocking_workloads([host], variables, ledger, answer["containers"])


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
        host, variables = task_vars["inventory_hostname"], Found(task_vars["hostvars"])
        # As it stands there: templated, it would be the whole swarm for each host.
        ledger = task_vars["gpu_swarm_ledger"] if boolean(own.get("with_tasks", False)) else None
        left, timeout = partial(EVENTS[own["event"]], host, variables, ledger), float(own["wait_timeout"])

        def wait(query):
            return poll(query, left, timeout, lambda text: self._display.display(f"{host}: {text}"), float(own.get("delay", 2)))

        query = partial(self.query, tmp, task_vars)
        if own["event"] == "drained":
            answer = _answer(partial(wait, query))
            why = not_emptied(step_of(host, variables), answer, not_drained(timeout))
            return {**answer, "failed": True, "msg": why} if why else answer
        answer = _answer(partial(_until_ended, query, left, wait))
        return {**answer, "blocking": blocking_workloads([host], variables, ledger, answer["containers"])} if "containers" in answer else answer


def _answer(query):
    """No answer is a failure: with ignore_unreachable, Ansible would go on as if nothing ran there."""
    try:
        return query()
    except AnsibleConnectionFailure as failure:
        return {"failed": True, "msg": printable(str(failure))}


def _until_ended(query, left, wait):
    """A node that cannot be reached is not waited for. Once it has answered, a round without an answer is no more than that: what ran there
    runs on, as far as anybody knows."""
    first = query()
    if not left(first):
        return first
    answer = wait(partial(_answer, query))
    return answer if "containers" in answer else first
