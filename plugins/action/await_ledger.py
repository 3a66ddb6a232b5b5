# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from functools import partial

from ..plugin_utils._controller.delegation import ManagerAction
from ..plugin_utils._rollout.poll import apart, poll
from ..plugin_utils._rollout.preconditions import blocking_workloads
from ..plugin_utils._rollout.updates import not_converged

OWN = ("hosts", "event", "wait_timeout", "delay")


def still_held(hosts, variables, ledger):
    """What must not be stopped on these hosts. Of a manager that no longer answers, nothing is waited for: another one is asked."""
    return blocking_workloads(hosts, variables, ledger, containers=[]) if "nodes" in ledger else []


def still_hidden(hosts, variables, ledger):
    """The hosts of which the manager does not show what was decided. One that was restarted finds its peers first."""
    if "nodes" not in ledger:
        return ["an answer of the swarm's manager"]
    return [f"the manager to show {name} as decided" for name in not_converged(hosts, variables, ledger)]


EVENTS = {"work_ended": still_held, "shown": still_hidden}


class ActionModule(ManagerAction):
    MODULE = "fleet.gpu_swarm.swarm_gpu_info"

    def run(self, tmp=None, task_vars=None):
        own, self._task.args = apart(self._task.args, OWN)
        left = partial(EVENTS[own["event"]], own["hosts"], task_vars["hostvars"])
        ask = partial(super().run, tmp, task_vars)
        return poll(ask, left, float(own["wait_timeout"]), self._display.display, float(own.get("delay", 2)))
