# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.vars import merge_hash

from ..module_utils._errors import GpuSwarmError
from ..plugin_utils._calls.manager_api import api
from ..plugin_utils._calls.managers import as_manager_answer
from ..plugin_utils._report import last_words
from ..plugin_utils._rollout.poll import split_options

OWN = ("module", "arguments", "reasons")


class ActionModule(ActionBase):
    """Runs another module of this collection with the connection options of the manager; see the documentation of the module of this name."""

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        own_options, defaults = split_options(self._task.args, OWN)
        manager = self._task.delegate_to or task_vars["inventory_hostname"]
        self._task.args = {**defaults, **self._connection_args(manager, task_vars), **own_options["arguments"]}
        action = self._shared_loader_obj.action_loader.get(
            f"fleet.gpu_swarm.{own_options['module']}",
            task=self._task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        answer = action.run(task_vars=task_vars)
        if own_options["module"] not in last_words.ACTIONS:
            answer = last_words.without_words(answer)
        return merge_hash(result, as_manager_answer(own_options["module"], answer, manager, own_options.get("reasons", [])))

    def _connection_args(self, manager, task_vars):
        try:
            return api(manager, task_vars["hostvars"])
        except GpuSwarmError as problem:
            raise AnsibleActionFail(problem.message) from problem
