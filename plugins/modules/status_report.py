#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: status_report
short_description: Prints what a fleet is like, from one answer of a manager (internal)
version_added: 0.3.0
description:
  - Prints tables of nodes, GPUs and services, or why one service is pending, from what M(fleet.gpu_swarm.swarm_explain) returned.
  - Runs on the controller. Use it once in a play.
options:
  answer:
    description: What M(fleet.gpu_swarm.swarm_explain) returned on the first manager that answered.
    type: dict
    required: true
  service:
    description: The service that is explained, by name or id. Empty for the whole fleet.
    type: str
    default: ''
  what:
    description: The part of the fleet's status that is printed.
    type: str
    choices: [all, free, holders, pending, faulty]
    default: all
  output:
    description: V(json) prints one line of JSON.
    type: str
    choices: [table, json]
    default: table
  fault_limit:
    description: How many of a hundred GPU nodes may be paused for a fault (C(swarm_member_react_limit)).
    type: int
    default: 20
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes.controller
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.internal
seealso:
  - module: fleet.gpu_swarm.swarm_explain
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: What the fleet is like
  fleet.gpu_swarm.status_report:
    answer: "{{ gpu_swarm_answer }}"
  register: status
"""

RETURN = r"""
waiting:
  description: Nodes that take no new tasks since somebody wanted it, and services with fewer tasks than they are to have, by name.
  returned: success
  type: list
  elements: str
  sample: [g4, train]
not_ready:
  description: Nodes and services with which something is wrong, by name.
  returned: success
  type: list
  elements: str
  sample: [g5]
"""
