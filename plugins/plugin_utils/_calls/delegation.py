# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calls a manager for many hosts. If the manager is unreachable, the task fails. The hosts do not become "unreachable".

If a task with run_once is delegated to an unreachable host, Ansible drops every host of the play, even with ignore_unreachable. A failure can be
reported for each host, and another manager can be called.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.vars import merge_hash

from ...module_utils._printable import printable
from .._answers.answer import plain
from .._settings.facts import problem
from .become import explain_become_failure
from .limit import NoAnswer, within

# A call on a manager takes seconds, or minutes if it updates a thousand nodes. Its Docker API has its own time-out.
MANAGER_LIMIT_S = 600.0


def answer_of(call: Callable[[], dict[str, Any]], who: str, limit_s: float | None = MANAGER_LIMIT_S, connection: Any = None) -> dict[str, Any]:
    """Return the answer of ``call()`` without keys on which Ansible would act, or a failure if ``connection`` does not reach the host ``who``."""
    try:
        return explain_become_failure(plain(within(limit_s, call) if limit_s else call()), who)
    except AnsibleConnectionFailure as failure:
        return {"failed": True, "msg": printable(f"{who} cannot be reached: {failure}")}
    except NoAnswer:
        if connection:  # without pipelining, Ansible would later remove this directory over the hanging connection, without a time limit
            connection._shell.tmpdir = None
        return {
            "failed": True,
            "msg": f"{who} gave no answer within {limit_s:.0f} s: the machine or the connection to it hangs. "
            f"Check whether 'ssh {who} docker info' answers.",
        }


def lost_connection(task: Any, failure: AnsibleConnectionFailure) -> dict[str, Any]:
    """Return a failure for a host that this task could not reach, with the text of the callback gpu_swarm_lost_connections. If the host were
    "unreachable" in a play that ignores such hosts, Ansible would continue with the next task, and no rescue would run."""
    return {"failed": True, "msg": f"the connection was lost during the task '{task.get_name()}': {printable(str(failure))}"}


class Call(NamedTuple):
    """A call of a module. With ``checks``, the module runs in check mode even if the task does not. The call may take ``limit_s`` seconds."""

    module: str
    arguments: dict[str, Any]
    checks: bool = False
    limit_s: float = MANAGER_LIMIT_S


def call_module(action: ActionBase, call: Call, task_vars: Any, who: str) -> dict[str, Any]:
    """Call a module with secrets in its arguments or answer, and return the answer. At -vvv, ssh would print the secrets, so lower its verbosity."""
    context, task = action._connection._play_context, action._task
    former = context.no_log, task.check_mode
    context.no_log, task.check_mode = True, call.checks or task.check_mode
    options = dict(module_name=call.module, module_args=call.arguments, task_vars=task_vars)
    try:
        return answer_of(lambda: action._execute_module(**options), who, call.limit_s, action._connection)
    finally:
        context.no_log, task.check_mode = former


def refuse_facts(task: Any, task_vars: Mapping[str, Any]) -> None:
    """Fail if the host's own facts would change what this task does. A delegated task for all hosts is not checked, because such a failure would
    affect all hosts.
    """
    error = None if task.delegate_to else problem(task_vars)
    if error:
        raise AnsibleActionFail(error)


class ManagerAction(ActionBase):
    """Runs the module ``MODULE`` with the arguments of the task."""

    MODULE: str
    LIMIT_S: float | None = MANAGER_LIMIT_S

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        who = self._task.delegate_to or task_vars["inventory_hostname"]
        call = dict(module_name=self.MODULE, module_args=self.arguments(), task_vars=task_vars)
        return merge_hash(result, answer_of(lambda: self._execute_module(**call), who, self.LIMIT_S, self._connection))

    def arguments(self) -> dict[str, Any]:
        return dict(self._task.args)


class NodeAction(ActionBase):
    """Runs the module ``MODULE`` on the task's own node. An unreachable node stays unreachable."""

    MODULE: str

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        refuse_facts(self._task, task_vars)
        answer = plain(self._execute_module(module_name=self.MODULE, task_vars=task_vars))
        return merge_hash(result, explain_become_failure(answer, self._task.delegate_to or task_vars["inventory_hostname"]))
