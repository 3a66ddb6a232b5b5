# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible.plugins.action import ActionBase

from ..plugin_utils._fleet.inventory import hosts_of
from ..plugin_utils._fleet.model import Step
from ..plugin_utils._fleet.outcome import Verdict, outcome_of
from ..plugin_utils._fleet.room import without_room
from ..plugin_utils._plan.deprovision import DeprovisionStep
from ..plugin_utils._report import last_words, provision_tables, terminal
from ..plugin_utils._report.rerun import this_command
from ..plugin_utils._rollout import ends
from ..plugin_utils._rollout.manager_updates import node_ids
from ..plugin_utils._rollout.planned import made
from ..plugin_utils._rollout.refused_evictions import refused_by_node

# What was found, and over it what was done.
ASSESSED = ("gpu_node_assessed", "gpu_node_applied")
PENDING = "pending, since no node that is left in the swarm has room for them: %s"


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
                "refused": {"type": "list", "elements": "dict", "default": []},
                "managers": {"type": "list", "elements": "str", "default": []},
                "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            }
        )
        report = self._deprovisioned if args["state"] == "absent" else self._provisioned
        variables = _of_this_plan(task_vars, args["steps"])
        ids = node_ids(variables, variables)
        states, table = report(hosts_of(task_vars, list(args["steps"]), ASSESSED, self._templar.template), args, variables, ids)
        verdicts = provision_tables.by_verdict(states)
        done_is = "deprovisioned" if args["state"] == "absent" else "as they should be"
        words = provision_tables.outcome(states, [name for name, step in args["steps"].items() if step["groups"]], done_is)
        text = "\n\n".join(filter(None, [table, provision_tables.list_by_verdict(verdicts, self._width())]))
        last_words.say(result, words._replace(text=text, command=provision_tables.command_for_the_rest(verdicts, this_command)))
        if args["state"] == "present":
            result["warnings"] = provision_tables.old_entries(ids, ends.by_id(args["ledger"]))
        elif short := without_room(args["ledger"]):
            result["warnings"] = [PENDING % ", ".join(short)]
        result.update(
            changed=False,
            states={name: state.text for name, state in states.items()},
            waiting=verdicts[Verdict.WAITING],
            not_ready=verdicts[Verdict.FAILED] + verdicts[Verdict.UNTOUCHED],
        )
        return result

    def _provisioned(self, hosts, args, variables, _ids):
        at_the_end = ends.ends(args["steps"], variables, args["ledger"], args["refused"], args["unlabelled"])
        states = {host.name: ends.state_of(host, Step(**args["steps"][host.name]), at_the_end[host.name]) for host in hosts}
        rows = [provision_tables.row(host, at_the_end[host.name].node, states[host.name]) for host in hosts]
        return states, provision_tables.table(rows, self._width())

    def _deprovisioned(self, hosts, args, variables, _ids):
        nodes, kept, states, rows = ends.by_id(args["ledger"]), refused_by_node(args["refused"]), {}, []
        # A manager that left has no swarm to report.
        left = [name for name in args["managers"] if (variables.get(name, {}).get("swarm_member_state") or {}).get("state") == "inactive"]
        answered = bool(nodes) or left == args["managers"]
        for host in hosts:
            step = DeprovisionStep(**args["steps"][host.name])
            # By the id that it had: whether the manager has forgotten it is the question.
            node_id = step.entry or step.node_id
            end = ends.End(nodes.get(node_id or ""), outcome_of(variables[host.name]), answered, tuple(kept.get(node_id or "", ())))
            states[host.name] = provision_tables.deprovision_state(step, end)
            applied = variables[host.name].get("gpu_node_applied") or {}
            files = "restart_required" in applied and not applied.get("failed")
            rows.append(provision_tables.deprovision_row(host, step, states[host.name], files))
        return states, provision_tables.table(rows, self._width(), provision_tables.DEPROVISION_HEADINGS)

    def _width(self):
        return terminal.width(self._display.columns)


def _of_this_plan(task_vars, names):
    """The variables of the hosts; none of one that was lost before the plan was made, and has what another playbook of this run left."""
    found = {name: task_vars["hostvars"].raw_get(name) for name in names}
    return {name: own if made(own) == made(task_vars) else {} for name, own in found.items()}
