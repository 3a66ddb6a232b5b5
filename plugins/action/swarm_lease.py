# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from functools import partial

from ansible.plugins.action import ActionBase
from ansible.utils.vars import merge_hash

from ..plugin_utils._calls.delegation import answer_of
from ..plugin_utils._rollout.run_identity import has_ended, this_run


class ActionModule(ActionBase):
    """Adds the holder of the lease. Only the controller knows the holder, and which runs of this controller have ended."""

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        args = dict(self._task.args)
        answer = acquire(partial(self._run_module, task_vars), dict(args, holder=args.get("holder") or this_run()))
        return merge_hash(result, renewable(answer, time.time()))

    def _run_module(self, task_vars, args):
        who = self._task.delegate_to or task_vars["inventory_hostname"]
        call = dict(module_name="fleet.gpu_swarm.swarm_lease", module_args=args, task_vars=task_vars)
        return answer_of(lambda: self._execute_module(**call), who, connection=self._connection)


def acquire(run, args):
    """Return the answer of ``run(args)``. If the lease belongs to a run of this controller that has ended, call again and take that lease."""
    answer = run(args)
    holder = answer.get("holder")
    if args.get("state") == "absent" or answer.get("acquired", True) or not has_ended(holder):
        return answer
    return run(dict(args, takeover=[*(args.get("takeover") or []), holder]))


def renewable(answer, now):
    """Add ``renew_at`` to the answer if the lease was acquired: the time when half of the lease is over. Return the answer."""
    return dict(answer, renew_at=now + answer["expires_in"] / 2) if answer.get("acquired") else answer
