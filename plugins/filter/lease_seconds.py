# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: lease_seconds
short_description: Says how long the swarm's lease has to last for a batch (internal)
version_added: 0.2.0
description:
  - Takes the hosts of a batch. Returns C(provision_lease), or by default as many seconds as the batch may take, by the settings of its
    hosts.
positional: plan, forks
options:
  _input:
    description: The hosts of the batch.
    type: list
    elements: str
    required: true
  plan:
    description: What M(fleet.gpu_swarm.provision_plan) returned.
    type: dict
    required: true
  forks:
    description: On how many hosts Ansible works at a time.
    type: int
    required: true
  maintain:
    description: Whether the user's own tasks are run on each host.
    type: bool
    default: false
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Hold the swarm's lease
  fleet.gpu_swarm.swarm_lease:
    ttl: "{{ ansible_play_batch | fleet.gpu_swarm.lease_seconds(plan, ansible_forks) }}"
"""

RETURN = r"""
_value:
  description: The seconds.
  type: int
"""

from ..plugin_utils._rollout.durations import lease_seconds


class FilterModule:
    def filters(self):
        return {"lease_seconds": lease_seconds}
