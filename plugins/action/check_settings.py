# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..plugin_utils._settings.check import ReadOnce, as_message, check
from ..plugin_utils._settings.roles import ROLES


class ActionModule(ActionBase):
    """Runs on the controller only; see the documentation of the module of this name."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(
            argument_spec={
                "hosts": {"type": "list", "elements": "str", "required": True},
                "roles": {"type": "list", "elements": "str", "default": list(ROLES)},
            }
        )
        variables = {**task_vars, "hostvars": ReadOnce(task_vars["hostvars"])}
        problems = check(variables, args["hosts"], self._templar.template, args["roles"])
        if problems.run or problems.hosts:
            raise AnsibleActionFail(as_message(problems))
        result["changed"] = False
        return result
