# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: planned
short_description: Returns the hosts of the plays after a plan (internal)
version_added: 0.2.0
description:
  - Takes the groups of the inventory, and finds the plan of the current playbook. Plans of earlier playbooks in the same run are ignored.
options:
  _input:
    description: The variable C(groups).
    type: dict
    required: true
  hostvars:
    description: The variable C(hostvars), or an empty dictionary if there is none yet.
    type: dict
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Change members, canaries first
  hosts: "{{ (groups | fleet.gpu_swarm.planned(hostvars | default({}))).gpu_swarm_window | default([]) }}"
"""

RETURN = r"""
_value:
  description: A list of hosts for each group. C(batches) is how many hosts of C(gpu_swarm_window) are changed at the same time.
  type: dict
"""

from ..plugin_utils._rollout.planned import GROUP, planned


class FilterModule:
    def filters(self):
        return {"planned": _planned}


def _planned(groups, hostvars):
    # raw_get, because hostvars[name] would template the whole plan. Before the first play there is no plan.
    return planned(groups.get(GROUP, ()), hostvars.raw_get) if GROUP in groups else {}
