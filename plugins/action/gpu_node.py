# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ..plugin_utils._controller.answer import malformed
from ..plugin_utils._controller.libraries import ASSESSED, CarryingAction
from ..plugin_utils._controller.node_labels import judged, prefixes
from ..plugin_utils._plan.warnings import NOTED, named
from ..plugin_utils._settings.module_options import explained

WARNS_LATER = "_gpu_swarm_warns_later"
NOT_ITS_ANSWER = (
    "%s: what came back is no answer of this module (%s), so nothing of it is used. Run this again; if that does not help, find out who "
    "changed what runs on that machine."
)


class ActionModule(CarryingAction):
    MODULE = "fleet.gpu_swarm.gpu_node"

    def run(self, tmp=None, task_vars=None):
        self._noted = (task_vars.get(ASSESSED) or {}).get(NOTED) or ()
        # Where a plan follows, it warns of all hosts together.
        self._later = self._task.check_mode and WARNS_LATER in task_vars
        return super().run(tmp, task_vars)

    def finish(self, answer, host):
        wrong = malformed(answer)
        if wrong:
            return {"failed": True, "msg": NOT_ITS_ANSWER % (host, wrong)}
        answer = named(answer, host, self._noted, later=self._later)
        return explained(judged(answer, host, *prefixes(self._task.args)), "gpu_node", self._task.args)
