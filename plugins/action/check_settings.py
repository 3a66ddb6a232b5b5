# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

from ..plugin_utils._settings.check import CachedHostvars, as_message, check
from ..plugin_utils._settings.command_line import CommandLine
from ..plugin_utils._settings.roles import ROLES, declared_settings
from ..plugin_utils._settings.validation import convert
from ..plugin_utils._settings.values import values


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
                "short": {"type": "dict", "default": {}},
            }
        )
        variables = {**task_vars, "hostvars": CachedHostvars(task_vars["hostvars"])}
        line = CommandLine(load_extra_vars(self._loader), args["short"])
        problems = check(variables, args["hosts"], self._templar.template, args["roles"], line)
        if problems.run or problems.hosts:
            raise AnsibleActionFail(as_message(problems))
        result.update(changed=False, settings=self._settings(variables, args["hosts"][:1], line, args["roles"]))
        return result

    def _settings(self, task_vars, host, line, roles):
        """Return the values of the settings that have a short name. Short names apply only on the command line."""
        declared = declared_settings(roles)
        from_variables = values(task_vars, host, line.short.values(), self._templar.template, roles).get("".join(host), {})
        from_command_line = {
            setting_name: convert(declared[setting_name], self._templar.template(line.variables[name]))
            for name, setting_name in line.used_short_names().items()
        }
        return {**from_variables, **from_command_line}
