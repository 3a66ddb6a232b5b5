# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

from ..plugin_utils._answers.allowed_labels import prefixes, with_allowed_labels, with_inventory_labels, without_prefix
from ..plugin_utils._answers.answer import for_plan, form_error, plain
from ..plugin_utils._calls.arguments import named_value, role_arguments
from ..plugin_utils._calls.delegation import lost_connection, refuse_facts
from ..plugin_utils._calls.libraries import ASSESSED, CarryingAction
from ..plugin_utils._plan.warnings import NOTED, add_host_name
from ..plugin_utils._settings.module_options import explain_option_errors
from ..plugin_utils._settings.values import run_settings

WARNS_LATER = "_gpu_swarm_warns_later"
READS_LEDGER = "_gpu_swarm_reads_ledger"
# Only the tasks of the role gpu_node set this variable. Its value is the name of the task, and role_arguments() adds arguments to this task.
# The task ASSESS only finds changes. A later task makes them.
ROLE_TASK = "_gpu_node_task"
ASSESS = "assess"
# Arguments whose role variables may be empty, which means "not set". Zero and false are values: 0 GPUs for expect, and YAML's off for isolation.
MAY_BE_EMPTY = ("data_interface", "expect", "isolation", "nvml_path")
VERBOSE = 3  # with this verbosity or more, Ansible shows the arguments and the whole answer of a module
NOT_ITS_ANSWER = (
    "%s: the host did not return a valid answer of the module gpu_node (%s), so the answer is ignored. Run this again. If that does not help, find "
    "out who changed the software on that machine."
)


class ActionModule(CarryingAction):
    MODULE = "fleet.gpu_swarm.gpu_node"

    @classmethod
    def finalize_task_arg(cls, name, value, templar, *dummy_context):
        """Evaluate an argument. ansible-core 2.19 and newer call this method for each argument. Older versions do not call it."""
        return templar.template(named_value(value, templar.available_variables))

    def run(self, tmp=None, task_vars=None):
        try:
            return self.query(tmp, task_vars)
        except AnsibleConnectionFailure as failure:
            if not self._task.ignore_unreachable:
                raise
            return lost_connection(self._task, failure)

    def query(self, tmp=None, task_vars=None):
        """Call the module once and return its answer. Raise AnsibleConnectionFailure if the host cannot be reached."""
        if ROLE_TASK in task_vars:
            self._task.args = {**self._task.args, **role_arguments(task_vars, self._templar.template)}
        self._task.args = {name: value for name, value in self._task.args.items() if not (name in MAY_BE_EMPTY and value in ("", None))}
        if without_prefix(self._task.args):
            raise AnsibleActionFail(without_prefix(self._task.args))
        self._noted = (task_vars.get(ASSESSED) or {}).get(NOTED) or ()
        # If a plan follows, the plan warns about all hosts together.
        self._later = self._task.check_mode and WARNS_LATER in task_vars
        # Read the ledger first. Meanwhile, the process for another host packs the module gpu_node, which takes about as long.
        ledger = self._ledger(task_vars) if READS_LEDGER in task_vars else None
        if ledger and ledger.get("failed"):
            ledger = None
            reads = self._task.args.get("advertise") and self._task.args.get("state") != "absent"
            # A host that cannot return a ledger usually has no swarm yet. The libraries are usually missing too.
            self.likely = ("nvml_binding",) if reads else ()
        result = super().run(tmp, task_vars)
        if task_vars.get(ROLE_TASK) == ASSESS and not task_vars["ansible_check_mode"]:
            result = {**result, "changed": False, "diff": []}
        if not ledger or result.get("failed") or not (result.get("swarm") or {}).get("control_available"):
            return result
        # These warnings are about the whole swarm, so the plan adds no host names to them.
        return dict(result, ledger=ledger, warnings=[*(result.get("warnings") or []), *(ledger.pop("warnings", None) or [])])

    def _ledger(self, task_vars):
        """Read the ledger on the first manager of the inventory. Return the ledger, or the failure. Return None on other hosts.

        If the manager cannot be reached, the exception ends the task, so the host is not tried again.
        """
        host = task_vars["inventory_hostname"]
        if task_vars["groups"].get("swarm_managers", [])[:1] != [host]:
            return None
        refuse_facts(self._task, task_vars)
        call = {
            "module_name": "fleet.gpu_swarm.swarm_gpu_info",
            "module_args": {
                "docker_host": "unix://" + self._task.args.get("docker_socket", "/var/run/docker.sock"),
                "keep_label": run_settings(task_vars, [host], self._templar.template)["provision_keep_label"],
            },
            "task_vars": task_vars,
        }
        return plain(self._execute_module(**call))

    def finish(self, answer, host):
        problem = form_error(answer)
        if problem:
            return {"failed": True, "msg": NOT_ITS_ANSWER % (host, problem)}
        answer = add_host_name(answer, host, self._noted, later=self._later)
        answer = with_inventory_labels(with_allowed_labels(answer, host, *prefixes(self._task.args)), host, self._task.args)
        if self._later and self._display.verbosity < VERBOSE:
            answer = for_plan(answer)
        return explain_option_errors(answer, "gpu_node", self._task.args)
