#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: await_node
short_description: Queries a node until containers have ended there, or until it is back in its swarm (internal)
version_added: 0.3.0
description:
  - Runs M(fleet.gpu_swarm.gpu_node) repeatedly until the event has happened. It prints once what it waits for. Unlike with C(until), Ansible shows no
    failure for a query before the event.
  - The module also takes all options of M(fleet.gpu_swarm.gpu_node).
options:
  event:
    description:
      - With V(work_ended), the module waits until the work that C(provision_disrupt) of the host protects has ended. RV(blocking) lists the work that
        is left at the end. The module fails if the node does not answer at first, or never answers.
      - With V(drained), the module waits until no container of a service of the swarm runs on the node. It fails if work is left that the change
        would stop, or if the node does not answer.
      - With V(returned), the module waits until the node can be assessed and is a member of its swarm. Use check mode with V(returned).
    type: str
    choices: [work_ended, drained, returned]
    required: true
  with_tasks:
    description:
      - Whether V(work_ended) includes the node's tasks, as they were in the last answer of a manager (C(gpu_swarm_ledger)).
      - If one of these tasks must not be stopped, the module does not wait for containers.
    type: bool
    default: false
  wait_timeout:
    description: How long to wait, in seconds. With V(0), the first answer is the result.
    type: float
    required: true
  delay:
    description: The time between an answer and the next query, in seconds. The default is 2, or 5 with V(returned).
    type: float
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.internal
attributes:
  platform:
    platforms: posix
seealso:
  - module: fleet.gpu_swarm.gpu_node
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Wait until the containers of services have ended on the drained node
  fleet.gpu_swarm.await_node:
    event: drained
    wait_timeout: 120
  register: inspected

- name: Wait until the node is back
  fleet.gpu_swarm.await_node:
    event: returned
    wait_timeout: 900
  check_mode: true
  register: inspected
"""

RETURN = r"""
containers:
  description: The containers of the node. The result also has all other values of the last answer of M(fleet.gpu_swarm.gpu_node).
  returned: when the node answered
  type: list
  elements: dict
blocking:
  description: Work on the node that must not be stopped, as texts.
  returned: when the node answered, with O(event=work_ended)
  type: list
  elements: str
  sample: ["task sweep.4 of service sweep (for 3 h 5 min)"]
"""
