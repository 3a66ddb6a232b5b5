# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible.plugins.action import ActionBase

from ..plugin_utils._fleet.identity import problems
from ..plugin_utils._fleet.inventory import hosts_of
from ..plugin_utils._fleet.model import LABEL, Step
from ..plugin_utils._fleet.outcome import Outcome, State, Verdict, outcome_of
from ..plugin_utils._plan.deprovision import DeprovisionStep
from ..plugin_utils._report import provision
from ..plugin_utils._report.rerun import this_command
from ..plugin_utils._rollout.eviction import refused_by_node
from ..plugin_utils._rollout.lease import lost_lease
from ..plugin_utils._rollout.planned import made
from ..plugin_utils._rollout.preconditions import without_room
from ..plugin_utils._rollout.updates import node_ids, to_label

# What was found, and over it what was done.
ASSESSED = ("gpu_node_assessed", "gpu_node_applied")
PENDING = "pending, since no node that is left in the swarm has room for them: %s"
UNLABELLED = "its labels could not be set: %s"
AWAY = "it could not be returned to service: %s"


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
        verdicts = provision.by_verdict(states)
        parts = [table, provision.summary(verdicts, this_command)]
        self._display.display("\n" + "\n\n".join(part for part in parts if part) + "\n")
        if args["state"] == "present":
            result["warnings"] = provision.left_behind(ids, _nodes(args["ledger"]))
        elif short := without_room(args["ledger"]):
            result["warnings"] = [PENDING % ", ".join(short)]
        result.update(
            changed=False,
            states={name: state.text for name, state in states.items()},
            waiting=verdicts[Verdict.WAITING],
            not_ready=verdicts[Verdict.FAILED] + verdicts[Verdict.UNTOUCHED],
        )
        return result

    def _provisioned(self, hosts, args, variables, ids):
        nodes, kept, states, rows = _nodes(args["ledger"]), refused_by_node(args["refused"]), {}, []
        mistaken = problems(ids, nodes)  # of hosts that have joined in this run; the plan has reported the others
        left = _left_undone(args, variables, ids)
        for host in hosts:
            step = Step(**args["steps"][host.name])
            outcome = outcome_of(variables[host.name])
            if not outcome and host.name in mistaken:
                outcome = Outcome(State.FAILED, mistaken[host.name])
            outcome = outcome or left.get(host.name)
            node_id = None if host.name in mistaken else ids[host.name]
            end = provision.End(nodes.get(node_id), outcome, bool(nodes), tuple(kept.get(node_id or "", ())))
            states[host.name] = provision.state_of(host, step, end)
            rows.append(provision.row(host, end.node, states[host.name]))
        return states, provision.table(rows)

    def _deprovisioned(self, hosts, args, variables, _ids):
        nodes, kept, states, rows = _nodes(args["ledger"]), refused_by_node(args["refused"]), {}, []
        # A manager that left has no swarm to report.
        left = [name for name in args["managers"] if (variables.get(name, {}).get("swarm_member_state") or {}).get("state") == "inactive"]
        answered = bool(nodes) or left == args["managers"]
        for host in hosts:
            step = DeprovisionStep(**args["steps"][host.name])
            # By the id that it had: whether the manager has forgotten it is the question.
            node_id = step.entry or step.node_id
            end = provision.End(nodes.get(node_id), outcome_of(variables[host.name]), answered, tuple(kept.get(node_id or "", ())))
            states[host.name] = provision.deprovision_state(step, end)
            applied = variables[host.name].get("gpu_node_applied") or {}
            files = "restart_required" in applied and not applied.get("failed")
            rows.append(provision.deprovision_row(host, step, states[host.name], files))
        return states, provision.table(rows, provision.DEPROVISION_HEADINGS)


def _of_this_plan(task_vars, names):
    """The variables of the hosts; none of one that was lost before the plan was made, and has what another playbook of this run left."""
    found = {name: task_vars["hostvars"].raw_get(name) for name in names}
    return {name: own if made(own) == made(task_vars) else {} for name, own in found.items()}


def _left_undone(args, variables, ids):
    """By host, why its labels are not set, or it is still away: the call failed, or none was made since another run changes the swarm."""
    planned = [name for name, step in args["steps"].items() if LABEL in step["groups"]]
    if args["unlabelled"]:
        return dict.fromkeys(planned, Outcome(State.FAILED, UNLABELLED % args["unlabelled"]))
    nodes = _nodes(args["ledger"])
    left = {update["host"]: UNLABELLED for update in to_label(planned, variables, args["ledger"], clashes=True)}
    left.update((name, AWAY) for name in args["steps"] if (nodes.get(ids[name]) or {}).get("former_availability"))
    lost = {name: lost_lease(variables[name], args["ledger"]) for name in left}
    return {name: Outcome(State.UNTOUCHED, left[name] % why) for name, why in lost.items() if why}


def _nodes(ledger):
    return {node["id"]: node for node in (ledger or {}).get("nodes", [])}
