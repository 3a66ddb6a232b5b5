# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shlex

from ansible import context
from ansible.plugins.action import ActionBase

from ..plugin_utils import _report
from ..plugin_utils._fleet import hosts_of
from ..plugin_utils._outcome import FAILED, UNTOUCHED, WAITING, Outcome, outcome_of
from ..plugin_utils._plan import LABEL, Step
from ..plugin_utils._updates import node_id_of

# What was found, and over it what was done.
ASSESSED = ("gpu_node_assessed", "gpu_node_applied")
UNLABELLED = "its labels could not be set: %s"


class ActionModule(ActionBase):
    """Runs on the controller only; see the documentation of the module of this name."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(
            argument_spec={
                "steps": {"type": "dict", "required": True},
                "ledger": {"type": "dict"},
                "unlabelled": {"type": "str", "default": ""},
            }
        )
        nodes = {node["id"]: node for node in (args["ledger"] or {}).get("nodes", [])}
        states, rows = {}, []
        for host in hosts_of(task_vars, list(args["steps"]), ASSESSED):
            variables = task_vars["hostvars"].raw_get(host.name)
            step = Step(**args["steps"][host.name])
            outcome = outcome_of(variables)
            if not outcome and args["unlabelled"] and LABEL in step.groups:
                outcome = Outcome(FAILED, UNLABELLED % args["unlabelled"])
            node = nodes.get(node_id_of(variables))
            state = _report.state_of(host, step, node, outcome)
            states[host.name] = state
            rows.append(_report.row(host, node, state))
        verdicts = _report.by_verdict(states)
        told = [_report.table(rows), _report.summary(verdicts, _command())]
        self._display.display("\n" + "\n\n".join(part for part in told if part) + "\n")
        result.update(changed=False, states=states, waiting=verdicts[WAITING], not_ready=verdicts[FAILED] + verdicts[UNTOUCHED])
        return result


def _command():
    """This run's command without its options but the inventory: extra variables may hold secrets."""
    given = context.CLIARGS
    inventory = [word for source in given.get("inventory") or () for word in ("-i", source)]
    more = ["-e …"] if given.get("extra_vars") else []
    return " ".join([shlex.join(["ansible-playbook", *inventory, *given.get("args", ())]), *more])
