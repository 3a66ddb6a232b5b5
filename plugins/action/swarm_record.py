# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ..module_utils._swarm.manager_options import CONNECTION_OPTIONS
from ..plugin_utils._calls.delegation import ManagerAction


class ActionModule(ManagerAction):
    MODULE = "fleet.gpu_swarm.swarm_record"

    def arguments(self):
        """Return the arguments without the connection options that call_manager adds, because the module reads a file."""
        return {name: value for name, value in self._task.args.items() if name not in CONNECTION_OPTIONS}
