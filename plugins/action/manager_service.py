# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ..plugin_utils._calls.delegation import NodeAction


class ActionModule(NodeAction):
    MODULE = "fleet.gpu_swarm.manager_service"
