#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: provision_plan
short_description: Sorts the hosts of a fleet by what a run has to do on them
version_added: 0.1.0
description:
  - Takes the assessment of every host (the variable C(gpu_node_assessed), registered from
    M(fleet.gpu_swarm.gpu_node) in check mode) and the manager's ledger, and decides what each host needs.
  - Prints what that means for those who use the fleet before anything is done, or the table of the fleet when there is
    nothing to do.
  - Runs on the controller. Use it once in a play, with C(run_once).
options:
  hosts:
    description: The hosts to decide about.
    type: list
    elements: str
    required: true
  ledger:
    description: What M(fleet.gpu_swarm.swarm_gpu_info) returned, or nothing where there is no swarm yet.
    type: dict
  manager:
    description: The host that runs the swarm and answered, if there is one. It is returned for the plays that follow.
    type: str
  toolkit_version:
    description: The version of the NVIDIA Container Toolkit that every GPU node is to have. Any, if empty.
    type: str
  disrupt:
    description:
      - With V(never), a host on which containers run is left alone and listed as waiting when a change would stop them.
      - With V(all), what runs on a host may be stopped.
    type: str
    choices: [never, all]
    default: never
  gpu_group:
    description: The inventory group of the hosts that have GPUs.
    type: str
    default: gpu_nodes
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
attributes:
  check_mode:
    support: full
    details: In check mode no host is placed into a group, so a run ends after its plan.
  diff_mode:
    support: none
  idempotent:
    support: full
  platform:
    platforms: all
seealso:
  - module: fleet.gpu_swarm.gpu_node
  - module: fleet.gpu_swarm.swarm_gpu_info
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: What is to be done
  fleet.gpu_swarm.provision_plan:
    hosts: "{{ ansible_play_hosts_all }}"
    ledger: "{{ ledger }}"
  run_once: true
  register: plan
"""

RETURN = r"""
steps:
  description: By host, what it needs (C(needs)), the C(groups) it belongs to, the C(impact) in words, what it C(waits_for), and its C(error).
  returned: always
  type: dict
manager:
  description: The option O(manager), or an empty string.
  returned: always
  type: str
hosts_in:
  description: The hosts by group, for the plays that follow.
  returned: always
  type: dict
placements:
  description: The same by host, for M(ansible.builtin.add_host).
  returned: always
  type: list
  elements: dict
waiting:
  description: The hosts that are left alone because something runs on them.
  returned: always
  type: list
  elements: str
errors:
  description: By host, why nothing can be done with it.
  returned: always
  type: dict
"""
