# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records during which task the connection to a host was lost, in plays that ignore unreachable hosts.

The plays of a rolling run set ignore_unreachable. Otherwise the loss of all hosts of a batch would end the run. With ignore_unreachable, Ansible
continues with the host's next task as if the previous task had succeeded, and no rescue runs. So the plays check the fact that this callback sets.
"""

from __future__ import annotations

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: gpu_swarm_lost_connections
type: aggregate
short_description: Records during which task the connection to a host was lost
description:
  - If a play ignores unreachable hosts, sets the fact C(gpu_swarm_connection_lost) of a host. The fact names the task that could not reach the host,
    and the reason.
  - Tasks that set C(ignore_unreachable) themselves do not set this fact.
"""

FACT = "gpu_swarm_connection_lost"


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpu_swarm_lost_connections"
    CALLBACK_NEEDS_ENABLED = False

    def v2_playbook_on_play_start(self, play):
        self._variables = play.get_variable_manager()

    def v2_runner_on_unreachable(self, result):
        if (result._task.get_ds() or {}).get("ignore_unreachable"):  # the task's own option, because the attribute may come from the play
            return
        parts = [part for part in result._result.get("results") or [result._result] if part.get("unreachable")]
        why = str(parts[0].get("msg") or "no reason given").removeprefix("Task failed: ").strip() if parts else "no reason given"
        text = f"the connection was lost during the task '{result._task.get_name()}': {why}"
        self._variables.set_nonpersistent_facts(result._host.name, {FACT: text})
