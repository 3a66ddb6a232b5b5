# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import asdict

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._errors import GpuSwarmError
from ..plugin_utils._calls.manager_api import external
from ..plugin_utils._fleet import advertised, joining

OPTIONS = {
    "step": {"type": "str", "choices": ["survey", "assess", "promote", "demote", "leave"], "required": True},
    "managers": {"type": "list", "elements": "str"},
    "queried": {"type": "list", "elements": "dict", "default": []},
    "found": {"type": "dict"},
    "answer": {"type": "dict"},
    "listed": {"type": "dict", "default": {}},
    "role": {"type": "str", "choices": ["manager", "worker"]},
    "move": {"type": "bool", "default": False},
    "advertise_addr": {"type": "str", "default": ""},
    "dissolve": {"type": "bool", "default": False},
    "entry": {"type": "str", "default": ""},
}
NEEDS = [
    ("step", "survey", ["managers"]),
    ("step", "assess", ["found", "answer", "role"]),
    ("step", "promote", ["found"]),
    ("step", "demote", ["found", "answer"]),
    ("step", "leave", ["found", "answer"]),
]


class ActionModule(ActionBase):
    """Runs on the controller only; see the documentation of the module of this name."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(argument_spec=OPTIONS, required_if=NEEDS)
        decided = getattr(self, "_" + args["step"])(args, task_vars)
        result.update(changed=False, **decided)
        if args["step"] != "survey" and decided["error"]:
            result.update(failed=True, msg=decided["error"])
        return result

    def _survey(self, args, task_vars):
        """Find the hosts that run the swarm. Return an error instead of failing. A later step decides for each host whether the error matters."""
        in_play = task_vars["ansible_play_hosts"]
        try:
            managed_by_others = external(args["managers"], task_vars["hostvars"])
        except GpuSwarmError as problem:
            raise AnsibleActionFail(problem.message) from problem
        answers = joining.answers_of(task_vars["hostvars"], [*args["managers"], *in_play], args["queried"])
        return asdict(joining.survey(answers, args["managers"], in_play, managed_by_others))

    def _assess(self, args, task_vars):
        host_data = _known(args, task_vars)
        decided = joining.decide(host_data, args["role"], args["move"], args["advertise_addr"])
        return {**asdict(decided), "warnings": advertised.warnings({host_data.host: decided.noted})}

    def _promote(self, args, task_vars):
        host, names = task_vars["inventory_hostname"], task_vars["ansible_play_hosts_all"]
        return {"error": joining.promotion_error(host, args["found"]["manager"], task_vars["hostvars"], names)}

    def _demote(self, args, task_vars):
        return {"error": joining.demotion_error(_known(args, task_vars), task_vars["hostvars"], task_vars["ansible_play_hosts"])}

    def _leave(self, args, task_vars):
        return asdict(joining.leave(_known(args, task_vars), args["dissolve"], args["entry"]))


def _known(args, task_vars):
    survey = joining.Survey(**{key: args["found"][key] for key in joining.Survey.__dataclass_fields__})
    return joining.Known(task_vars["inventory_hostname"], args["answer"], survey, args["listed"])
