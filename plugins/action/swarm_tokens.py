# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ..plugin_utils._calls.delegation import ManagerAction
from ..plugin_utils._rollout.run_identity import this_run


class ActionModule(ManagerAction):
    """Adds the holder of this run's lease, because only the controller knows it."""

    MODULE = "fleet.gpu_swarm.swarm_tokens"

    def arguments(self):
        args = super().arguments()
        return dict(args, holder=args.get("holder") or this_run())
