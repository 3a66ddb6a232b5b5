# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible.utils.vars import merge_hash

from ..plugin_utils._controller.managers import called
from ..plugin_utils._rollout.poll import apart

OWN = ("module", "arguments")


class ActionModule(ActionBase):
    """Runs another module of this collection with the connection options that this task got by default; see the documentation of the module of
    this name."""

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        own, connection_args = apart(self._task.args, OWN)
        self._task.args = {**connection_args, **own["arguments"]}
        action = self._shared_loader_obj.action_loader.get(
            f"fleet.gpu_swarm.{own['module']}",
            task=self._task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        answer = action.run(task_vars=task_vars)
        return merge_hash(result, called(own["module"], answer, self._task.delegate_to or task_vars["inventory_hostname"]))
