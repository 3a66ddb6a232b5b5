# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible.utils.vars import merge_hash

from ..plugin_utils._answers.answer import form_error
from ..plugin_utils._calls.delegation import Call, call_module, refuse_facts
from ..plugin_utils._fleet.join_failure import explain_failure
from ..plugin_utils._fleet.membership import listening_at

MODULE = "fleet.gpu_swarm.swarm_member"
TOKENS = "join_tokens"
# The module waits for managers and for dockerd. The call may take this much longer (seconds) before the host or the connection counts as hanging.
SPARE_S = 300.0


class ActionModule(ActionBase):
    """Finds the addresses of the managers, explains why a host did not become a member, and hides join tokens from callbacks and logs.

    See the documentation of the module of this name.
    """

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        refuse_facts(self._task, task_vars)
        args = dict(self._task.args)
        # If a task fails, Ansible stores its arguments in the fact ansible_failed_task of the host.
        self._task.args = {name: value for name, value in args.items() if name != "join_token"}
        if "managers" in args:
            args["managers"] = listening_at(args["managers"])
        host = self._task.delegate_to or task_vars["inventory_hostname"]
        limit = SPARE_S + sum(float(args.get(name) or 0) for name in ("timeout", "port_timeout"))
        answer = call_module(self, Call(MODULE, args, limit_s=limit), task_vars, host)
        problem = form_error({"failed": True, "swarm": answer["swarm"]}) if "swarm" in answer else None
        if problem:
            answer = {"failed": True, "msg": f"{host} did not return a valid description of its swarm membership: {problem}."}
        if answer.get("failed"):
            answer["msg"] = explain_failure(answer, host, args)
        return merge_hash(result, {**answer, "_ansible_no_log": True} if TOKENS in answer else answer)
