# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean

from ..plugin_utils._calls.delegation import NodeAction
from ..plugin_utils._page_template.page_template import page_template


class ActionModule(NodeAction):
    MODULE = "fleet.gpu_swarm.manager_service"

    def run(self, tmp=None, task_vars=None):
        if boolean(self._task.args.get("page", False), strict=False):
            self._task.args["page_template"] = page_template()
        return super().run(tmp, task_vars)
