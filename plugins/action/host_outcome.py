# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.vars import merge_hash

from ..module_utils._printable import printable
from ..plugin_utils._calls.limit import NoAnswer, within
from ..plugin_utils._fleet.outcome import outcome_of
from ..plugin_utils._fleet.raw_variables import RawVariables
from ..plugin_utils._rollout.failure import Failure, is_late, outcome

# How long the ping may take (seconds), in case the host or the connection hangs.
LIMIT_S = 120.0


class ActionModule(ActionBase):
    """Returns the outcome of the host, in a rescue; see the documentation of the module of this name."""

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(argument_spec={"failed_as": {"type": "str", "choices": ["failed", "out"]}})
        host = task_vars["inventory_hostname"]
        # If a task with run_once failed, the other hosts have no failed result.
        failed, task = task_vars.get("ansible_failed_result") or {}, task_vars.get("ansible_failed_task") or {}
        # The task of a lost host may fail with another error, so ping the host. Do not ping after a time-out, because the task may still run there.
        # Do not ping either if the host already has an outcome, because the host keeps this outcome.
        reason_lost = "" if is_late(failed) or outcome_of(task_vars) else self._gone(task_vars)
        failure = Failure(failed, self._templated(str(task.get("name") or "")), reason_lost)
        return merge_hash(result, outcome(host, RawVariables(task_vars["hostvars"])[host], failure, args["failed_as"]))

    def _templated(self, name):
        try:
            return str(self._templar.template(name))
        except AnsibleError:
            return name

    def _gone(self, task_vars):
        """Return why the host no longer answers, or '' if it answers."""
        try:
            within(LIMIT_S, lambda: self._execute_module(module_name="ansible.builtin.ping", module_args={}, task_vars=task_vars))
        except NoAnswer:
            return f"no answer within {LIMIT_S:.0f} s: the machine or the connection to it hangs"
        except AnsibleConnectionFailure as failure:
            return printable(str(failure)) or "no reason given"
        except AnsibleError:
            pass  # the host has answered, even if the ping failed
        return ""
