# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import NamedTuple

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._errors import GpuSwarmError
from ..module_utils._view import dedicated
from ..module_utils._view.fold import paragraphs
from ..plugin_utils._fleet import advertised
from ..plugin_utils._fleet.inventory import MANAGERS, hosts_of, with_current_answers
from ..plugin_utils._fleet.model import END, FETCH, Swarm
from ..plugin_utils._fleet.room import rooms
from ..plugin_utils._plan import deprovision, isolation_change, isolation_label, managers_service, queue_label, warnings
from ..plugin_utils._plan.consent import check_reservations, plan_finished_jobs
from ..plugin_utils._plan.displaced_services import rooms_to_keep
from ..plugin_utils._plan.first_manager import check_first_manager
from ..plugin_utils._plan.impact import leader_warnings, toolkit_warnings
from ..plugin_utils._plan.provision import cleared, hosts_in, in_batches, only_paused, plan, to_change, to_pause
from ..plugin_utils._report import last_words, provision_tables, terminal
from ..plugin_utils._rollout import ends
from ..plugin_utils._rollout.refused_evictions import describe
from ..plugin_utils._rollout.run_identity import left_lease
from ..plugin_utils._rollout.swarm_answers import read
from ..plugin_utils._rollout.window import restart_waits
from ..plugin_utils._settings.check import CachedHostvars
from ..plugin_utils._settings.values import run_settings

ASSESSED = ("gpu_node_assessed",)
LEVEL, DEDICATED, QUEUES = "gpu_swarm_isolation", "gpu_swarm_dedicated", "gpu_swarm_queues"
SPEC = {
    "hosts": {"type": "list", "elements": "str", "required": True},
    "ledger": {"type": "dict"},
    "reads": {"type": "bool", "default": False},
    "evicted": {"type": "list", "elements": "dict", "default": []},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "contents": {"type": "dict"},
    "maintain": {"type": "str"},
}


class Planned(NamedTuple):
    """The step of each host. The hosts and the swarm are the input of the decision."""

    hosts: list
    steps: dict
    swarm: Swarm


class ActionModule(ActionBase):
    """Runs on the controller only; see the documentation of the module of this name."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(argument_spec=SPEC)
        absent = args["state"] == "absent"
        variables = {**task_vars, "hostvars": CachedHostvars(task_vars["hostvars"])}
        hosts = self._hosts(variables, args["hosts"])
        settings = run_settings(variables, args["hosts"], self._templar.template)
        answers = read(variables, args["ledger"])
        unread = answers.unread(absent) if args["reads"] else []
        result.update(changed=False, manager=answers.manager, managers=answers.location["live"], unread=unread, settings=settings)
        if unread:
            return result
        swarm = Swarm(check_first_manager(answers.location, hosts), answers.ledger, _by_node(args["evicted"]))
        try:
            chosen_level = settings[LEVEL] or (None if absent or args["maintain"] else isolation_change.default_level(swarm))
            level = isolation_change.OFF if absent else isolation_change.level_of(chosen_level, swarm.ledger)
            steps, losses = _steps(hosts, swarm, args, settings, level)
            batches = in_batches(hosts, steps, settings["provision_batch"])
            queues = queue_label.wanted_queues(None if absent or args["maintain"] else settings[QUEUES])
            if not absent:
                queue_label.check_service(queues, swarm.ledger, hosts, task_vars["groups"].get(MANAGERS, []))
        except GpuSwarmError as problem:
            raise AnsibleActionFail(problem.message) from problem
        groups = _check_mode_groups(steps) if self._task.check_mode else hosts_in(steps, batches)
        setting = isolation_label.level_to_write(chosen_level, hosts, steps)
        change = {} if absent else isolation_label.update_at_start(setting, hosts, swarm.ledger)
        queue_change = queue_label.update(queues, swarm.ledger)
        swarm_changes = [isolation_label.describe_change(change, swarm.ledger), queue_label.describe_change(queue_change, swarm.ledger)]
        if run_words := self._show(hosts, steps, swarm.nodes, absent, swarm_changes):
            last_words.say(result, run_words)
        result.update(
            warnings=_warnings(Planned(hosts, steps, swarm), task_vars["groups"].get(MANAGERS, []), settings, absent),
            steps={name: asdict(step) for name, step in steps.items()},
            # A deprovision removes resources for good, so the run does not wait until services have room again.
            rooms=None if absent else rooms_to_keep(rooms(swarm.ledger), losses, settings["provision_ignore_pending"]),
            ledger=swarm.ledger or {},
            left_lease=left_lease(swarm.ledger),
            made=time.monotonic_ns(),
            hosts_in=groups,
            batches=batches,
            to_change=to_change(groups),
            isolation={"level": level, "set": bool(setting), "change": change},
            queues={"wanted": queues, "change": queue_change},
            swarm_labels={**isolation_label.initial_labels(level), **queue_label.initial_labels(queues)},
            **_run_fields(steps, args["state"], swarm.ledger, settings, self._task.check_mode),
        )
        return result

    def _hosts(self, task_vars, names):
        return with_current_answers(hosts_of(task_vars, names, ASSESSED, self._templar.template), task_vars["ansible_play_hosts"])

    def _show(self, hosts, steps, nodes, absent, swarm_changes):
        """Print the impact. Return the last words if the run ends now. Otherwise return None, because the report at the end prints the last words."""
        width = terminal.width(self._display.columns)
        impact = "\n\n".join(filter(None, [provision_tables.impact(steps, width), paragraphs(filter(None, swarm_changes), width)]))
        if impact:
            self._display.display("\n" + impact + "\n")
        if any(step.groups for step in steps.values()):
            return provision_tables.check_outcome(steps) if self._task.check_mode else None
        if absent:
            states = {name: provision_tables.deprovision_state(step, ends.End(None)) for name, step in steps.items()}
            rows = [provision_tables.deprovision_row(host, steps[host.name], states[host.name]) for host in hosts]
            table = provision_tables.table(rows, width, provision_tables.DEPROVISION_HEADINGS)
        else:
            nodes_by_host = {name: nodes.get(step.membership.node_id) for name, step in steps.items()}
            states = {host.name: ends.state_of(host, steps[host.name], ends.End(nodes_by_host[host.name])) for host in hosts}
            table = provision_tables.table([provision_tables.row(host, nodes_by_host[host.name], states[host.name]) for host in hosts], width)
        return provision_tables.outcome(states, [], "deprovisioned" if absent else "as they should be")._replace(text=table)


def _warnings(planned, managers, settings, absent):
    hosts, steps, swarm = planned
    return [
        *leader_warnings(hosts, steps, swarm),
        *toolkit_warnings(hosts, steps),
        *warnings.merge_noted({host.name: host.assessed for host in hosts}),
        *warnings.even_managers(managers, {name: step.needs for name, step in steps.items()}),
        *advertised.warnings({host.name: _advertised_difference(host) for host in hosts if not absent}),
        *managers_service.warnings([] if absent else hosts, swarm),
        *dedicated.warnings(settings[DEDICATED] and not absent, swarm.ledger),
        *warnings.unreadable_keep_labels(swarm.nodes.values()),
        *warnings.long_runners({name: step.work.long_running for name, step in steps.items()}, settings["provision_keep_label"]),
        *(deprovision.remaining_toolkit(hosts) if absent else []),
        *provision_tables.old_entries({name: step.membership.node_id for name, step in steps.items()}, swarm.nodes),
    ]


def _advertised_difference(host):
    return advertised.difference(host.advertise_addr, (host.assessed or {}).get("swarm") or {})


def _run_fields(steps, state, ledger, settings, check_mode):
    """Return the hosts to handle before all others: hosts that return to service, hosts to pause, and hosts whose fault is over.

    ``notes`` tells whether a run without changes writes a note to the swarm.
    """
    notes = settings["provision_note_run"] or ends.failed_before(ledger)
    return {
        "only_paused": only_paused(steps),
        "cleared": cleared(steps),
        "to_pause": {} if check_mode else to_pause(steps),
        "notes": notes and state == "present",
    }


def _by_node(evicted):
    """Return the tasks that new labels would evict, by node ID and task ID, each with the reason as text."""
    tasks: dict = {}
    for item in evicted:
        tasks.setdefault(item["node"], {})[item["task"]] = describe(item)
    return tasks


def _steps(hosts, swarm, args, settings, level=isolation_change.OFF):
    """Return the step of each host, and the services that will no longer fit on any node, which the user has allowed.

    ``settings`` are the settings of the run.
    """
    remove_jobs = settings["provision_remove_finished_jobs"]
    if args["state"] == "absent":
        deprovisioned = deprovision.plan(hosts, swarm, args["contents"])
        plan_finished_jobs(hosts, deprovisioned, swarm, remove_jobs)
        return {host.name: replace(deprovisioned[host.name], settings=host.settings, playbook="deprovision") for host in hosts}, []
    steps = plan(hosts, swarm, args["maintain"], level)
    losses = check_reservations(hosts, steps, swarm, settings["provision_allow_pending"])
    plan_finished_jobs(hosts, steps, swarm, remove_jobs)
    for host in hosts:
        step = steps[host.name]
        step.settings = host.settings
        step.playbook = f"maintain ({args['maintain']})" if args["maintain"] else "provision"
        step.work.restart_waits = restart_waits(step, host.settings["provision_drain_timeout"], bool(args["maintain"]))
    return steps, losses


def _check_mode_groups(steps):
    """Return the groups for check mode: hosts whose package manager searches for the packages, and hosts that fail."""
    failing = [name for name, step in steps.items() if step.problem and END in step.groups]
    fetching = [name for name, step in steps.items() if FETCH in step.groups]
    return {group: names for group, names in ((FETCH, fetching), (END, failing)) if names}
