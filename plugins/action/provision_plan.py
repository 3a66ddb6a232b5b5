# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import asdict

from ansible.plugins.action import ActionBase

from ..plugin_utils import _report
from ..plugin_utils._fleet import hosts_of
from ..plugin_utils._plan import plan

ASSESSED = ("gpu_node_assessed",)


class ActionModule(ActionBase):
    """Runs on the controller only; see the documentation of the module of this name."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(
            argument_spec={
                "hosts": {"type": "list", "elements": "str", "required": True},
                "manager": {"type": "str"},
                "ledger": {"type": "dict"},
                "toolkit_version": {"type": "str"},
                "disrupt": {"type": "str", "choices": ["never", "all"], "default": "never"},
                "gpu_group": {"type": "str", "default": "gpu_nodes"},
            }
        )
        hosts = hosts_of(task_vars, args["hosts"], args["gpu_group"], ASSESSED)
        ledger = args["ledger"] if (args["ledger"] or {}).get("nodes") else None
        steps = plan(hosts, ledger, args["toolkit_version"] or None, args["disrupt"])
        groups = {} if self._task.check_mode else _members(steps)
        self._show(hosts, steps, ledger)
        result.update(
            changed=False,
            steps={name: asdict(step) for name, step in steps.items()},
            manager=args["manager"] or "",
            hosts_in=groups,
            placements=[
                {"host": host, "groups": list(step.groups)} for host, step in steps.items() if groups and step.groups
            ],
            waiting=sorted(name for name, step in steps.items() if step.waits_for),
            errors={name: step.error for name, step in steps.items() if step.error},
        )
        return result

    def _show(self, hosts, steps, ledger):
        told = _report.impact(steps)
        if told:
            self._display.display("\n" + told + "\n")
        if any(step.groups for step in steps.values()):
            return  # the table comes at the end of the run
        nodes = {node["id"]: node for node in (ledger or {}).get("nodes", [])}
        rows = []
        for host in hosts:
            node = nodes.get(host.node_id)
            rows.append(_report.row(host, node, _report.state_of(host, steps[host.name], node, None)))
        self._display.display("\n" + _report.table(rows) + "\n")


def _members(steps):
    groups: dict[str, list[str]] = {}
    for name, step in steps.items():
        for group in step.groups:
            groups.setdefault(group, []).append(name)
    return groups
