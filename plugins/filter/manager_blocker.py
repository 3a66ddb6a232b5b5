# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: manager_blocker
short_description: Says why a manager must not be restarted now (internal)
version_added: 0.1.0
description:
  - Takes a manager that is about to be restarted. It must not be if an earlier one of the same run failed, or if the
    swarm would lose its quorum.
positional: others, variables, ledger
options:
  _input:
    description: The manager's name.
    type: str
    required: true
  others:
    description: The managers that the run changes.
    type: list
    elements: str
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
  - fleet.gpu_swarm.internal.variables
  - fleet.gpu_swarm.internal.ledger
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: The swarm can do without this manager
  ansible.builtin.assert:
    that: gate | length == 0
    fail_msg: "{{ gate }}"
  vars:
    gate: "{{ inventory_hostname | fleet.gpu_swarm.manager_blocker(groups['swarm_managers'], hostvars, ledger) }}"
"""

RETURN = r"""
_value:
  description: The reason, or an empty string.
  type: str
"""

from ..plugin_utils._rollout.preconditions import manager_blocker


class FilterModule:
    def filters(self):
        return {"manager_blocker": manager_blocker}
