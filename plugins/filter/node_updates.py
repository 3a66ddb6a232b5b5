# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: node_updates
short_description: Says what to ask of swarm_nodes for some hosts of a run
version_added: 0.1.0
description:
  - Takes hosts and what this run knows of them (C(gpu_node_assessed), C(gpu_node_applied), C(swarm_member_state)) and
    returns the option O(fleet.gpu_swarm.swarm_nodes#module:nodes) for those that are members of the swarm.
positional: variables
options:
  _input:
    description: Names of hosts.
    type: list
    elements: str
    required: true
  variables:
    description: The variable C(hostvars).
    type: dict
    required: true
  availability:
    description: The availability that the nodes are to have; V(former) gives back what a run had remembered.
    type: str
    choices: [active, pause, drain, former]
  labels:
    description: Whether to ask for the labels that were decided, on hosts where nothing failed.
    type: bool
    default: false
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Pause the nodes
  fleet.gpu_swarm.swarm_nodes:
    nodes: "{{ ansible_play_batch | fleet.gpu_swarm.node_updates(hostvars, availability='pause') }}"
  delegate_to: "{{ groups['swarm_managers'][0] }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: One dictionary per member, as the option O(fleet.gpu_swarm.swarm_nodes#module:nodes) takes it.
  type: list
  elements: dict
"""

from ..plugin_utils._plan import node_updates


class FilterModule:
    def filters(self):
        return {"node_updates": node_updates}
