# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils import color

from ..plugin_utils._fleet.model import Host
from ..plugin_utils._report import last_words, status, terminal
from ..plugin_utils._report.status_text import Screen, plain


class ActionModule(ActionBase):
    """Runs on the controller only; see the documentation of the module of this name."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(
            argument_spec={
                "answer": {"type": "dict", "required": True},
                "service": {"type": "str", "default": ""},
                "what": {"type": "str", "choices": ["all", "free", "holders", "pending", "faulty"], "default": "all"},
                "output": {"type": "str", "choices": ["table", "json"], "default": "table"},
                "fault_limit": {"type": "int", "default": Host.fault_limit},
            }
        )
        ledger = args["answer"]
        if "nodes" not in ledger:
            raise AnsibleActionFail(ledger["msg"])
        screen = Screen(terminal.width(self._display.columns), color.stringc if color.ANSIBLE_COLOR else plain)
        if args["service"]:
            found, text = self._of_service(screen, ledger, args["service"])
        else:
            found = status.status(ledger, args["fault_limit"])
            text = screen.show(found, args["what"])
            found = found if args["what"] == "all" else {key: found[key] for key in (args["what"], "waiting", "wrong")}
        if args["output"] == "json":
            self._display.display(json.dumps(found, ensure_ascii=False))
            text = ""
        line = "" if args["service"] or not text else status.outcome(found)
        last_words.say(result, last_words.LastWords(last_words.verdict_of(found["waiting"], found["wrong"]), line, text))
        result.update(changed=False, waiting=found["waiting"], not_ready=found["wrong"])
        if ledger.get("msg"):  # it has read the swarm, and what else it was to do went wrong
            result.update(failed=True, msg=f"{ledger['manager']}: {ledger['msg']}")
        return result

    def _of_service(self, screen, ledger, service):
        one = status.of_service(ledger, service)
        if one is None:
            raise AnsibleActionFail(f"The swarm has no service {service}. 'docker service ls' on a manager lists those that it has.")
        return status.only_service(one), screen.service(one)
