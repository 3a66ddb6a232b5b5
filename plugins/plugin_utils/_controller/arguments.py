# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Arguments of a task that are nothing but the name of a variable.

Ansible compiles a template for each argument of each host, in a process that ends with the task: for the two dozen of gpu_node, most of which
are ``{{ name }}``, that was the larger part of what a host costs the controller.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}")


def named_value(value: Any, variables: Mapping[str, Any]) -> Any:
    """What is to be templated in place of ``value``: of ``{{ name }}`` the variable of that name, which may be a template itself."""
    found = _NAME.fullmatch(value) if isinstance(value, str) else None
    return variables[found[1]] if found and found[1] in variables and _is_trusted(value) else value


def _is_trusted(value: str) -> bool:
    """Whether Ansible would template it: what somebody else wrote, such as a host, stays text."""
    from ansible.template import is_trusted_as_template  # as of ansible-core 2.19, where this is called

    return is_trusted_as_template(value)
