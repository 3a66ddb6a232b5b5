# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Computes arguments of gpu_node without templates.

Ansible compiles a template for each argument of each host, in a process that ends with the task. gpu_node has two dozen arguments, and most of them
are ``{{ name }}``. For each host, these templates cost the controller more than all other work.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ...module_utils._policy.data_network import ADVERTISED, is_valid

_NAME = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}")


def named_value(value: Any, variables: Mapping[str, Any]) -> Any:
    """Return the variable behind a value of the form ``{{ name }}``, which may itself be a template. Any other value is returned unchanged."""
    match = _NAME.fullmatch(value) if isinstance(value, str) else None
    return variables[match[1]] if match and match[1] in variables and _is_trusted(value) else value


def role_arguments(variables: Mapping[str, Any], template: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the arguments that depend on whether the host has GPUs, and on settings of the whole swarm or of another role.

    The level in the plan (``_gpu_node_level``) overrides the level of the swarm, even if the level in the plan is empty.
    """
    arguments: dict[str, Any] = {}
    if not boolean(template(variables.get("gpu_node_has_gpus", True)), strict=False):
        arguments = {"advertise": [], "extra_resources": []}
    if dedicated := template(variables.get("gpu_swarm_dedicated")):
        arguments["dedicated"] = dedicated
    if devices := template(variables.get("gpu_swarm_devices")):
        arguments["devices"] = devices
    # Only swarms with queues get the labels, because a new label on a busy node ends a task if the leader is older than Docker 23.0.2.
    if template(variables.get("gpu_swarm_queues")) and not template(variables.get("gpu_node_data_interface")):
        setting = template(variables.get("swarm_member_advertise_addr"))
        arguments["data_interface"] = setting if is_valid(setting) else ADVERTISED
    planned = "_gpu_node_level" in variables
    level = template(variables.get("_gpu_node_level" if planned else "gpu_swarm_isolation"))
    return {**arguments, "isolation": level} if planned or level not in ("", None) else arguments


def _is_trusted(value: str) -> bool:
    """Return whether Ansible would template this text. Ansible does not template untrusted texts, such as texts from a host."""
    from ansible.template import is_trusted_as_template  # exists since ansible-core 2.19; older versions never call this

    return is_trusted_as_template(value)
