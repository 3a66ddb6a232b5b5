# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ..plugin_utils._calls.delegation import ManagerAction

TOKENS = "join_tokens"


class ActionModule(ManagerAction):
    """Hides join tokens from callbacks, even if the task does not set no_log."""

    MODULE = "fleet.gpu_swarm.swarm_members"

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        return dict(result, _ansible_no_log=True) if TOKENS in result else result
