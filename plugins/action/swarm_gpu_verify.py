# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ..plugin_utils._calls.delegation import ManagerAction


class ActionModule(ManagerAction):
    MODULE = "fleet.gpu_swarm.swarm_gpu_verify"
    LIMIT_S = None  # no limit: the test of many GPUs takes long, and the module has its own limit
