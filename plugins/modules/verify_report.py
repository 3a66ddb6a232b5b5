#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: verify_report
short_description: Puts what was tested on a fleet together, and prints it as a table (internal)
version_added: 0.2.0
description:
  - Compares for every host what its GPUs, files and daemon are (C(gpu_node_assessed)) with what the manager shows, resources
    and labels, adds what M(fleet.gpu_swarm.swarm_gpu_verify) found, and prints a table.
  - Runs on the controller. Use it once in a play, with C(run_once).
options:
  hosts:
    description: The hosts of the table, in order.
    type: list
    elements: str
    required: true
  ledger:
    description: What M(fleet.gpu_swarm.swarm_gpu_info) returned.
    type: dict
    required: true
  tested:
    description: What M(fleet.gpu_swarm.swarm_gpu_verify) returned.
    type: dict
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes.controller
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.internal
seealso:
  - module: fleet.gpu_swarm.swarm_gpu_verify
  - module: fleet.gpu_swarm.swarm_gpu_info
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: What was found
  fleet.gpu_swarm.verify_report:
    hosts: "{{ ansible_play_hosts_all }}"
    ledger: "{{ ledger }}"
    tested: "{{ tested }}"
  run_once: true
  register: report

- name: Nothing is wrong with the node
  ansible.builtin.assert:
    that: inventory_hostname not in report.problems
    fail_msg: "{{ report.problems[inventory_hostname] | default([]) | join('; ') }}"
"""

RETURN = r"""
problems:
  description: By host, what is wrong with it, in words. Hosts with which nothing is wrong are not in it.
  returned: always
  type: dict
  sample: {"g2": ["drift: swarm-resource is not set"]}
waiting:
  description: The hosts on which no task was tried, for example because nothing is free there. Empty if a task has proved the GPUs of any host.
  returned: always
  type: list
  elements: str
  version_added: 0.3.0
rows:
  description: The lines of the table, each with the node, what was allocated to its task, what that saw, and the verdict.
  returned: always
  type: list
  elements: list
"""
