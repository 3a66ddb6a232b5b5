# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: availability_updates
short_description: Says what to ask of swarm_nodes to keep work away from hosts, or to give them back (internal)
version_added: 0.1.0
description:
  - Takes hosts and what this run knows of them and returns the option O(fleet.gpu_swarm.swarm_nodes#module:nodes) for
    those that are members of the swarm.
positional: variables, to, ledger, labels
options:
  _input:
    description: Names of hosts.
    type: list
    elements: str
    required: true
  to:
    description:
      - With V(pause), work is kept away from hosts with which nothing is wrong.
      - With V(drain), swarm starts elsewhere what still runs on them, where O(ledger) shows that something does.
      - With V(former), hosts get their former availability back, with their labels as decided. Those that wait, or do not
        answer any more, stay away, and so do those where O(ledger) shows a finished job that the swarm's leader would run again.
    type: str
    choices: [pause, drain, former]
    required: true
  ledger:
    description: What M(fleet.gpu_swarm.swarm_gpu_info) returned. Of nodes that it does not list, nothing is asked.
    type: dict
  labels:
    description: Whether hosts get their labels as decided together with their former availability.
    type: bool
    default: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
  - fleet.gpu_swarm.internal.variables
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Pause the nodes
  fleet.gpu_swarm.swarm_nodes:
    nodes: "{{ ansible_play_batch | fleet.gpu_swarm.availability_updates(hostvars, 'pause') }}"
  delegate_to: "{{ groups['swarm_managers'][0] }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: One dictionary per member, as the option O(fleet.gpu_swarm.swarm_nodes#module:nodes) takes it.
  type: list
  elements: dict
"""

from ..plugin_utils._rollout.updates import availability_updates


class FilterModule:
    def filters(self):
        return {"availability_updates": availability_updates}
