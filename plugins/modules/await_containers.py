#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: await_containers
short_description: Inspects a node until containers have ended there (internal)
version_added: 0.2.0
description:
  - Runs M(fleet.gpu_swarm.gpu_node) with C(state=gathered) again and again, and prints once what is waited for. Other than with C(until), a
    round in which something still runs is no failure.
options:
  event:
    description:
      - With V(work_ended), until nothing runs there that must not be stopped, by C(provision_disrupt) of the host. What is left then is returned.
        It fails where the node does not answer, at first or at all.
      - With V(drained), until no container of a service of the swarm runs there. It fails where anything is left then that the change would
        stop, or where the node does not answer.
    type: str
    choices: [work_ended, drained]
    required: true
  with_tasks:
    description:
      - Whether, with V(work_ended), the node's tasks count too, as they were when the manager answered last (C(gpu_swarm_ledger)).
      - Where one of these must not be stopped, no container is waited for.
    type: bool
    default: false
  docker_socket:
    description: The daemon's local socket.
    type: path
    default: /var/run/docker.sock
  wait_timeout:
    description: How long to wait, in seconds. With V(0), the first answer is the result.
    type: float
    required: true
  delay:
    description: How long after an answer the node is inspected again, in seconds.
    type: float
    default: 2
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
- name: Wait until the drain has ended what ran here
  fleet.gpu_swarm.await_containers:
    event: drained
    wait_timeout: 120
  register: inspected
"""

RETURN = r"""
containers:
  description: With all else that M(fleet.gpu_swarm.gpu_node) returns for C(state=gathered), the answer that came last.
  returned: when the node answered
  type: list
  elements: dict
blocking:
  description: What runs there and must not be stopped, in words.
  returned: when the node answered, with O(event=work_ended)
  type: list
  elements: str
  sample: ["task sweep.4 of service sweep (for 3 h 5 min)"]
"""
