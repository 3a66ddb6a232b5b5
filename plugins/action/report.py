# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import time

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils import color

from ..module_utils._errors import GpuSwarmError
from ..module_utils._health.label import PAUSED_PERCENT
from ..module_utils._view import status
from ..module_utils._view.fold import paragraphs
from ..module_utils._view.record_text import ANSWERS, FIELDS, text_of
from ..module_utils._view.status_text import SECTIONS, Screen, plain
from ..module_utils._view.table import render
from ..module_utils._view.verdicts import Verdict
from ..plugin_utils._fleet import identity
from ..plugin_utils._fleet.inventory import current_answer, hosts_of
from ..plugin_utils._fleet.model import Step
from ..plugin_utils._fleet.room import without_room
from ..plugin_utils._report import file_on_controller, last_words, provision_tables, terminal, verify
from ..plugin_utils._report.rerun import this_command
from ..plugin_utils._rollout import ends
from ..plugin_utils._rollout.member import ASSESSED, member_of, view
from ..plugin_utils._rollout.planned import plan_time
from ..plugin_utils._rollout.refused_evictions import refused_by_node

# The variables with the results of a host: the assessment, and the changes that the run applied afterwards.
HOST_RESULTS = ("gpu_node_assessed", "gpu_node_applied")
PENDING = "pending, because no node that is left in the swarm has room for them: %s"
OPTIONS = {
    "of": {"type": "str", "choices": ["provision", "deprovision", "status", "verify"], "required": True},
    "ledger": {"type": "dict"},
    "steps": {"type": "dict"},
    "unlabelled": {"type": "str", "default": ""},
    "refused": {"type": "list", "elements": "dict", "default": []},
    "managers": {"type": "list", "elements": "str", "default": []},
    "service": {"type": "str", "default": ""},
    "what": {"type": "str", "choices": [*SECTIONS, *ANSWERS], "default": "all"},
    "output": {"type": "str", "choices": ["table", "json", "html", "ledger"], "default": "table"},
    "to": {"type": "path"},
    "recorded": {"type": "dict", "default": {}},
    "saved": {"type": "dict", "default": {}},
    "grafana_url": {"type": "str", "default": ""},
    "fault_limit": {"type": "int", "default": PAUSED_PERCENT},
    "hosts": {"type": "list", "elements": "str"},
    "tested": {"type": "dict"},
}
WITH_FILE = (("output", "html", ["to"]), ("output", "ledger", ["to"]))
NEEDED = {"provision": ["steps"], "deprovision": ["steps"], "status": ["ledger"], "verify": ["hosts", "ledger", "tested"]}


class ActionModule(ActionBase):
    """Runs on the controller only; see the documentation of the module of this name."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(argument_spec=OPTIONS, required_if=[*WITH_FILE, *(("of", *item) for item in NEEDED.items())])
        reports = {"provision": self._report_plan, "deprovision": self._report_plan, "status": self._status, "verify": self._verify}
        run_words, answer = reports[args["of"]](args, task_vars)
        last_words.say(result, run_words)
        result.update(answer, changed=False)
        return result

    # -- provision and deprovision ---------------------------------------------------------------------------------

    def _report_plan(self, args, task_vars):
        """Compare each host with its decision. Return the last words, with a table of all hosts, and the result."""
        removes = args["of"] == "deprovision"
        variables = _variables_of_plan(task_vars, args["steps"])
        swarm_view = view(variables, variables, args["ledger"])
        steps = {name: Step.from_plan(step) for name, step in args["steps"].items()}
        hosts = hosts_of(task_vars, list(steps), HOST_RESULTS, self._templar.template)
        states, table = (self._deprovisioned if removes else self._provisioned)(hosts, steps, args, swarm_view)
        verdicts = provision_tables.by_verdict(states)
        done_text = "deprovisioned" if removes else "as they should be"
        run_words = provision_tables.outcome(states, [name for name, step in steps.items() if step.groups], done_text)
        text = "\n\n".join(filter(None, [table, provision_tables.list_by_verdict(verdicts, self._width())]))
        answer = {
            "states": {name: state.text for name, state in states.items()},
            "waiting": verdicts[Verdict.WAITING],
            "not_ready": verdicts[Verdict.FAILED] + verdicts[Verdict.UNTOUCHED],
        }
        if not removes:
            answer["warnings"] = provision_tables.old_entries({member.name: member.node_id for member in swarm_view}, swarm_view.nodes)
        elif pending_services := without_room(args["ledger"]):
            answer["warnings"] = [PENDING % ", ".join(pending_services)]
        return run_words._replace(text=text, command=provision_tables.command_for_the_rest(verdicts, this_command)), answer

    def _provisioned(self, hosts, steps, args, swarm_view):
        host_ends = ends.ends(swarm_view, args["refused"], args["unlabelled"])
        states = {host.name: ends.state_of(host, steps[host.name], host_ends[host.name]) for host in hosts}
        rows = [provision_tables.row(host, host_ends[host.name].node, states[host.name]) for host in hosts]
        return states, provision_tables.table(rows, self._width())

    def _deprovisioned(self, hosts, steps, args, swarm_view):
        refused_tasks, states, rows = refused_by_node(args["refused"]), {}, []
        members = {member.name: member for member in swarm_view}
        # If all managers have left, there is no swarm to read.
        managers_left = [name for name in args["managers"] if name in members and members[name].has_left]
        answered = bool(swarm_view.nodes) or managers_left == args["managers"]
        for host in hosts:
            step, member = steps[host.name], members[host.name]
            # Look for the former node ID of the host. If the host has left, the manager no longer lists this ID.
            node_id = (step.removal and step.removal.entry) or step.membership.node_id or ""
            end = ends.End(swarm_view.nodes.get(node_id), member.outcome, answered, tuple(refused_tasks.get(node_id, ())))
            states[host.name] = provision_tables.deprovision_state(step, end)
            files = "restart_required" in member.applied and not member.applied.get("failed")
            rows.append(provision_tables.deprovision_row(host, step, states[host.name], files))
        return states, provision_tables.table(rows, self._width(), provision_tables.DEPROVISION_HEADINGS)

    # -- status ----------------------------------------------------------------------------------------------------

    def _status(self, args, _task_vars):
        """Show the answer of a manager. If the answer also has an error, the task fails after the table."""
        ledger = args["ledger"]
        if args["what"] in ANSWERS and not args["service"]:
            return self._recorded(args)
        if "nodes" not in ledger:
            raise AnsibleActionFail(ledger["msg"])
        screen = Screen(self._width(), color.stringc if color.ANSIBLE_COLOR else plain)
        if args["service"]:
            fleet_status, text = _report_service(screen, ledger, args["service"])
        else:
            fleet_status = status.status(ledger, args["fault_limit"])
            text = screen.show(fleet_status, args["what"])
            fleet_status = fleet_status if args["what"] == "all" else {key: fleet_status[key] for key in (args["what"], "waiting", "wrong")}
        if args["output"] == "json":
            self._display.display(json.dumps(fleet_status, ensure_ascii=False))
            text = ""
        elif args["output"] == "html":
            text = self._write_page(args, fleet_status)
        elif args["output"] == "ledger":
            text = self._write_ledger(args)
        line = "" if args["service"] or not text else status.outcome(fleet_status)
        answer = {"waiting": fleet_status["waiting"], "not_ready": fleet_status["wrong"]}
        if ledger.get("msg"):
            answer.update(failed=True, msg=f"{ledger['manager']}: {ledger['msg']}")
        return last_words.LastWords(last_words.verdict_of(fleet_status["waiting"], fleet_status["wrong"]), line, text), answer

    def _write_page(self, args, fleet_status):
        """Write the page. Return a line that says so."""
        from ..plugin_utils._report import page_on_controller  # imported here, because loading it takes 10 ms

        text = page_on_controller.page_of(args["ledger"], fleet_status, args["recorded"], args["grafana_url"], time.time())
        return self._write(args["to"], text, page_on_controller.PAGE)

    def _write_ledger(self, args):
        from ..module_utils._deployment import saved_ledger  # imported here, because only this output needs it

        if "saved" not in args["saved"]:
            raise AnsibleActionFail(args["saved"].get("msg") or "The manager did not return the ledger to save. Run this again.")
        kind = file_on_controller.Kind("saved ledger", f'"{saved_ledger.MARK}"'.encode(), "fleet.gpu_swarm.preflight compares Compose files with it")
        return self._write(args["to"], saved_ledger.to_text(args["saved"]["saved"]), kind)

    def _write(self, path, text, kind):
        try:
            return file_on_controller.write(path, text, kind, check=self._task.check_mode)
        except GpuSwarmError as problem:
            raise AnsibleActionFail(problem.message) from None

    def _recorded(self, args):
        """Show what a manager has recorded."""
        answer = args["ledger"]
        if "recorded_since" not in answer:
            raise AnsibleActionFail(answer["msg"])
        text = text_of(answer, self._width())
        if args["output"] == "json":
            self._display.display(json.dumps({key: answer[key] for key in FIELDS if key in answer}, ensure_ascii=False))
            text = ""
        return last_words.LastWords(last_words.DONE, "", text), {"waiting": [], "not_ready": []}

    # -- verify ----------------------------------------------------------------------------------------------------

    def _verify(self, args, task_vars):
        """Compare each host with the manager's ledger and with the GPUs that the test tasks on the host saw."""
        nodes = {node["id"]: node for node in args["ledger"].get("nodes") or []}
        assessed = _assessed(task_vars, args["hosts"])
        ids = {name: member_of(name, {ASSESSED: answer}).node_id for name, answer in assessed.items()}
        id_errors = identity.identity_errors(ids, nodes)
        swarm = verify.SwarmResult(args["tested"], (args["ledger"].get("swarm") or {}).get("isolation"))
        rows, problems = [], {}
        for name, node_id in ids.items():
            host_result = verify.host_result(assessed[name], nodes.get(node_id), node_id, swarm, id_errors.get(name))
            rows.extend(verify.rows(name, host_result))
            if host_result.wrong:
                problems[name] = host_result.wrong
        image_lines = verify.images({node_id: name for name, node_id in ids.items() if node_id}, args["tested"])
        untested = {} if self._task.check_mode else verify.untested(ids, args["tested"])
        below = [verify.summary(args["hosts"], problems, args["tested"]), *image_lines, *verify.enforcement(assessed)]
        text = f"{render(verify.HEADINGS, rows, self._width())}\n\n{paragraphs(below, self._width())}"
        line = verify.outcome(args["hosts"], problems, untested)
        run_words = last_words.LastWords(last_words.verdict_of(untested, problems), line, text, hosts=list(problems))
        return run_words, {"problems": problems, "rows": rows, "waiting": list(untested)}

    def _width(self):
        return terminal.width(self._display.columns)


def _report_service(screen, ledger, service):
    row = status.service_row(ledger, service)
    if row is None:
        raise AnsibleActionFail(
            f"The swarm has no service {service}. A service of a stack is named STACK_SERVICE. 'docker service ls' on a manager lists all names."
        )
    return status.only_service(row), screen.service(row)


def _assessed(task_vars, names):
    alive = set(task_vars["ansible_play_hosts"])
    return {name: current_answer(task_vars["hostvars"].raw_get(name).get(ASSESSED), name in alive) for name in names}


def _variables_of_plan(task_vars, names):
    """Return the variables of the hosts, without old ones.

    If a host was lost before this plan, its variables come from an earlier playbook of this run, so return none for it.
    """
    variables_by_host = {name: task_vars["hostvars"].raw_get(name) for name in names}
    return {name: variables if plan_time(variables) == plan_time(task_vars) else {} for name, variables in variables_by_host.items()}
