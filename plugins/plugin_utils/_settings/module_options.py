# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module that refused its options, explained with the names of the role's variables (pure).

Ansible reports that it could not convert a str to an int, and neither which variable that is nor what its value has to be. Of a value that is none
of the choices it names the option alone.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .declaration import Setting
from .roles import of_roles
from .validation import problem

# Numbers that a role takes as text, since empty means none.
NUMBERS = {"gpu_node_expect": "GPUs"}


def explained(answer: dict[str, Any], role: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The answer; where it failed over an option of a wrong type or outside of its choices, with what is wrong with that."""
    if not answer.get("failed"):
        return answer
    refused = re.findall(r"value of (\w+) must be one of", str(answer.get("msg")))  # a module may have more choices than its role
    settings = {setting.name: setting for setting in of_roles([role]) if not setting.choices or setting.name.removeprefix(f"{role}_") in refused}
    known = [(settings[f"{role}_{name}"], name, value) for name, value in options.items() if f"{role}_{name}" in settings]
    problems = [text for setting, name, value in known if (text := problem(_as_option(setting, name), value))]
    if not problems:
        return answer
    # Ansible would print the exception in place of the message.
    return {**{key: value for key, value in answer.items() if key != "exception"}, "msg": " ".join(problems)}


def _as_option(setting: Setting, option: str) -> Setting:
    if setting.name in NUMBERS:
        setting = replace(setting, type="int", unit=NUMBERS[setting.name], empty=True)
    return replace(setting, name=f"{option} (role: {setting.name})")
