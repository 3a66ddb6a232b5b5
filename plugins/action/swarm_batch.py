# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from functools import partial

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.vars import merge_hash

from ..module_utils._printable import printable
from ..plugin_utils._calls.delegation import answered
from ..plugin_utils._fleet.found import Found
from ..plugin_utils._rollout.batch import Batch
from ..plugin_utils._rollout.poll import apart
from ..plugin_utils._rollout.run_identity import this_run
from ..plugin_utils._rollout.run_lease import lease_seconds
from ..plugin_utils._rollout.steps import STEPS
from .swarm_lease import reach, renewable

OWN = ("step", "hosts", "force")
CHANGING = ("swarm_nodes", "swarm_job_prune")  # other than the lease, which is as before the run in the end, but for another level of isolation
MAINTAIN = "_gpu_swarm_maintain"


class ActionModule(ActionBase):
    """Calls modules on one manager, for a batch of hosts; see the documentation of the module of this name."""

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        own, self._connection_args = apart(self._task.args, OWN)
        self._who = self._task.delegate_to or task_vars["inventory_hostname"]
        self._changed: bool = False
        self._shown: dict[str, list] = {"warnings": [], "diff": []}
        plan = task_vars["gpu_swarm_plan"]
        batch = Batch(
            hosts=own["hosts"],
            variables=Found(task_vars["hostvars"]),
            plan=plan,
            call=partial(self._call, task_vars),
            holder=this_run(),
            ttl=lease_seconds(own["hosts"], plan, task_vars["ansible_forks"], maintain=MAINTAIN in task_vars),
            force=boolean(own.get("force", False)),
            absent=task_vars.get("gpu_swarm_state") == "absent",
            check_mode=self._task.check_mode,
            ledger=task_vars.get("gpu_swarm_ledger") or {},
            lease=task_vars.get("gpu_swarm_lease") or {},
            say=self._display.display,
            warn=self._shown["warnings"].append,
        )
        answer = STEPS[own["step"]](batch)
        return merge_hash(result, {**answer, **self._shown, "manager": self._who, "changed": self._changed})

    def _call(self, task_vars, module, **args):
        if module == "swarm_lease":
            answer = renewable(reach(partial(self._run_module, task_vars, module), {"holder": this_run(), **args}), time.time())
        else:
            more = {"holder": this_run()} if module == "swarm_job_prune" else {}
            answer = self._run_module(task_vars, module, {**args, **more})
        # Of a wait each query has them, and a wait may take hours.
        self._shown["warnings"] += [warning for warning in answer.get("warnings") or [] if warning not in self._shown["warnings"]]
        self._note_change(module, answer)
        return answer

    def _note_change(self, module, answer):
        nodes = answer.get("nodes") or []
        of_lease = answer if module == "swarm_lease" else answer.get("lease") or {}
        sets_level = of_lease.get("isolation") != of_lease.get("isolation_before")
        # Of what released a lease as well, that is no change.
        written = any(node["changed"] for node in nodes) if answer.get("lease") else module in CHANGING and bool(answer.get("changed"))
        self._changed = self._changed or written or (sets_level and bool(of_lease.get("changed")))
        shown = [answer.get("diff") if module in CHANGING else None, of_lease.get("diff") if sets_level else None]
        self._shown["diff"] += [diff for diff in shown if diff]

    def _run_module(self, task_vars, module, args):
        call = dict(module_name=f"fleet.gpu_swarm.{module}", module_args={**self._connection_args, **args}, task_vars=task_vars)
        try:
            return answered(lambda: self._execute_module(**call), self._who, connection=self._connection)
        except Exception as problem:  # a connection plugin's, say: another manager may do, and with run_once a failure is everybody's
            return {"failed": True, "msg": printable(f"{self._who}: {problem}")}
