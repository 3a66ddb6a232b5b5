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
from ..plugin_utils._calls.delegation import answer_of
from ..plugin_utils._fleet.raw_variables import RawVariables
from ..plugin_utils._rollout.batch import Batch
from ..plugin_utils._rollout.poll import split_options
from ..plugin_utils._rollout.run_identity import this_run
from ..plugin_utils._rollout.run_lease import lease_seconds
from ..plugin_utils._rollout.steps import STEPS
from .swarm_lease import acquire, renewable

OWN = ("step", "hosts", "force")
# The modules whose changes make this task changed. A change of the lease does not, because the run releases the lease at its end.
# A change of the isolation level or of the queues does, although the module swarm_lease writes them.
CHANGING = ("swarm_nodes", "swarm_job_prune")
MAINTAIN = "_gpu_swarm_maintain"


class ActionModule(ActionBase):
    """Carries out one step for a batch of hosts on one manager; see the documentation of the module of this name."""

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        own_options, self._connection_args = split_options(self._task.args, OWN)
        self._who = self._task.delegate_to or task_vars["inventory_hostname"]
        self._changed: bool = False
        self._shown: dict[str, list] = {"warnings": [], "diff": []}
        plan = task_vars["gpu_swarm_plan"]
        batch = Batch(
            hosts=own_options["hosts"],
            variables=RawVariables(task_vars["hostvars"]),
            plan=plan,
            call=partial(self._call, task_vars),
            holder=this_run(),
            ttl=lease_seconds(own_options["hosts"], plan, task_vars["ansible_forks"], maintain=MAINTAIN in task_vars),
            force=boolean(own_options.get("force", False)),
            absent=task_vars.get("gpu_swarm_state") == "absent",
            check_mode=self._task.check_mode,
            ledger=task_vars.get("gpu_swarm_ledger") or {},
            lease=task_vars.get("gpu_swarm_lease") or {},
            say=self._display.display,
            warn=self._shown["warnings"].append,
        )
        answer = STEPS[own_options["step"]](batch)
        return merge_hash(result, {**answer, **self._shown, "manager": self._who, "changed": self._changed})

    def _call(self, task_vars, module, **args):
        if module == "swarm_lease":
            answer = renewable(acquire(partial(self._run_module, task_vars, module), {"holder": this_run(), **args}), time.time())
        else:
            holder = {"holder": this_run()} if module == "swarm_job_prune" else {}
            answer = self._run_module(task_vars, module, {**args, **holder})
        # During a long wait, each query returns the same warnings again.
        self._shown["warnings"] += [warning for warning in answer.get("warnings") or [] if warning not in self._shown["warnings"]]
        self._note_change(module, answer)
        return answer

    def _note_change(self, module, answer):
        nodes = answer.get("nodes") or []
        lease = answer if module == "swarm_lease" else answer.get("lease") or {}
        changes_swarm = any(lease.get(name) != lease.get(name + "_before") for name in ("isolation", "queues"))
        # If the call also released the lease, look only at the nodes: the release is no change.
        written = any(node["changed"] for node in nodes) if answer.get("lease") else module in CHANGING and bool(answer.get("changed"))
        self._changed = self._changed or written or (changes_swarm and bool(lease.get("changed")))
        diffs = [answer.get("diff") if module in CHANGING else None, lease.get("diff") if changes_swarm else None]
        self._shown["diff"] += [diff for diff in diffs if diff]

    def _run_module(self, task_vars, module, args):
        call = dict(module_name=f"fleet.gpu_swarm.{module}", module_args={**self._connection_args, **args}, task_vars=task_vars)
        try:
            return answer_of(lambda: self._execute_module(**call), self._who, connection=self._connection)
        except Exception as problem:
            # For example, a connection plugin failed. Another manager may answer. With run_once, an exception would fail all hosts.
            return {"failed": True, "msg": printable(f"{self._who}: {problem}")}
