# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from functools import partial

from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.parsing.convert_bool import boolean

from ..module_utils._dockerd.containers import not_drained
from ..module_utils._printable import printable
from ..plugin_utils._fleet.raw_variables import RawVariables
from ..plugin_utils._report import terminal
from ..plugin_utils._rollout.member import view
from ..plugin_utils._rollout.poll import poll, split_options
from ..plugin_utils._rollout.window import not_empty_reason
from .gpu_node import ActionModule as NodeAction

NO_ANSWER = ["an answer of the node"]  # while dockerd stops containers, it may answer slowly
NOT_BACK = "its dockerd has not rejoined its swarm (%s) after %g s. Check 'docker info' on this host."
OWN = ("event", "with_tasks", "wait_timeout", "delay")
DELAY_S, DELAY_OF_A_START_S = 2, 5


def work_left(member, with_tasks, answer):
    """Return the work on the host that must not be stopped.

    With ``with_tasks``, an earlier step waited for the tasks of the host. If a protected task is left, return nothing: the host stays paused anyway,
    so this wait ends.
    """
    if "containers" not in answer:
        return NO_ANSWER
    if with_tasks and member.blocking([]):
        return []
    return member.blocking(answer["containers"])


def service_containers_left(_member, _with_tasks, answer):
    """Return the containers of services that still run on the drained node."""
    if "containers" not in answer:
        return NO_ANSWER
    return [f"container {item['name']}" for item in answer["containers"] if item["service"]]


def start_left(_member, _with_tasks, answer):
    """Return the parts of the node that are not back after a reboot. If a read hangs, return nothing: the next read hangs too, so the wait ends."""
    if answer.get("hangs"):
        return []
    if answer.get("failed"):
        return ["the driver and dockerd"]
    return [] if _swarm_state(answer) == "active" else ["dockerd to be back in its swarm"]


EVENTS = {"work_ended": work_left, "drained": service_containers_left, "returned": start_left}


class ActionModule(NodeAction):
    """Queries a node repeatedly until the event has happened."""

    def run(self, tmp=None, task_vars=None):
        own_options, args = split_options(self._task.args, OWN)
        event, timeout = own_options["event"], float(own_options["wait_timeout"])
        self._task.args = args if event == "returned" else {**args, "state": "gathered"}
        host = task_vars["inventory_hostname"]
        # Read the variable here, because a template would copy the ledger of the whole swarm for each host.
        ledger = task_vars["gpu_swarm_ledger"] if boolean(own_options.get("with_tasks", False)) else None
        (member,) = view([host], RawVariables(task_vars["hostvars"]), ledger)
        find_left, delay = partial(EVENTS[event], member, bool(ledger)), DELAY_OF_A_START_S if event == "returned" else DELAY_S

        def show(text):
            self._display.display(terminal.fit(f"  {host}: {text}", self._display.columns))

        def wait(query):
            return poll(query, find_left, timeout, show, float(own_options.get("delay", delay)))

        query = partial(self.query, tmp, task_vars)
        if event == "returned":
            return _returned(wait(query), timeout)
        if event == "drained":
            answer = _answer(partial(wait, query))
            why = not_empty_reason(member.step, answer, not_drained(timeout))
            return {**answer, "failed": True, "msg": why} if why else answer
        answer = _answer(partial(_until_ended, query, find_left, wait))
        return {**answer, "blocking": member.blocking(answer["containers"])} if "containers" in answer else answer


def _returned(answer, timeout):
    state = _swarm_state(answer)
    if answer.get("failed") or state == "active":
        return answer
    return {**answer, "failed": True, "msg": NOT_BACK % (state or "no state", timeout)}


def _swarm_state(answer):
    return (answer.get("swarm") or {}).get("state")


def _answer(query):
    """Return the answer of the node. Fail without an answer: with ignore_unreachable, Ansible would go on as if nothing ran on the node."""
    try:
        return query()
    except AnsibleConnectionFailure as failure:
        return {"failed": True, "msg": printable(str(failure))}


def _until_ended(query, left, wait):
    """Return the last answer that lists containers.

    If the node does not answer the first query, do not wait. If the node does not answer a later query, assume that the containers still run.
    """
    first = query()
    if not left(first):
        return first
    answer = wait(partial(_answer, query))
    return answer if "containers" in answer else first
