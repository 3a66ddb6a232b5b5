# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: external_managers
short_description: Returns the external managers (internal)
version_added: 0.2.0
description:
  - Takes the inventory names of managers and returns the external ones, which have the variable C(swarm_manager_docker_host). Only their
    Docker API is used, and nothing is changed on their hosts.
  - Fails for invalid inventories, such as an external manager in the group C(gpu_nodes).
positional: variables
options:
  _input:
    description: Names of hosts.
    type: list
    elements: str
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
  - fleet.gpu_swarm.internal.variables
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: External managers
  ansible.builtin.debug:
    msg: "{{ groups['swarm_managers'] | fleet.gpu_swarm.external_managers(hostvars) }}"
"""

RETURN = r"""
_value:
  description: Names of hosts.
  type: list
  elements: str
"""

from ansible.errors import AnsibleFilterError

from ..module_utils._errors import GpuSwarmError
from ..plugin_utils._calls.manager_api import external


def _external_managers(names, variables):
    try:
        return external(names, variables)
    except GpuSwarmError as problem:
        raise AnsibleFilterError(problem.message) from problem


class FilterModule:
    def filters(self):
        return {"external_managers": _external_managers}
