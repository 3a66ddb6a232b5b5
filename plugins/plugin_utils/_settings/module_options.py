# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Explains errors of module options with the names of the role's variables (pure).

If a value has the wrong type, Ansible names neither the variable nor the expected values. If a value is not one of the choices, Ansible names only
the module's option.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .declaration import Setting
from .roles import settings_of_roles
from .validation import value_error

# Numbers that a role accepts as text, because an empty value means none.
NUMBERS = {"gpu_node_expect": "GPUs"}


def explain_option_errors(answer: dict[str, Any], role: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer. If the module failed because an option has the wrong type or is not one of the choices, the message explains that."""
    if not answer.get("failed"):
        return answer
    refused = re.findall(r"value of (\w+) must be one of", str(answer.get("msg")))  # a module may have more choices than its role
    explainable = [setting for setting in settings_of_roles([role]) if not setting.choices or setting.name.removeprefix(f"{role}_") in refused]
    settings = {setting.name: setting for setting in explainable}
    values = [(settings[f"{role}_{name}"], name, value) for name, value in options.items() if f"{role}_{name}" in settings]
    problems = [text for setting, name, value in values if (text := value_error(_as_option(setting, name), value))]
    if not problems:
        return answer
    # Ansible would print the exception instead of the message.
    return {**{key: value for key, value in answer.items() if key != "exception"}, "msg": " ".join(problems)}


def _as_option(setting: Setting, option: str) -> Setting:
    if setting.name in NUMBERS:
        setting = replace(setting, type="int", unit=NUMBERS[setting.name], empty=True)
    return replace(setting, name=f"{option} (role: {setting.name})")
