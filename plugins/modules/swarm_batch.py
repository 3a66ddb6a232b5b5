#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_batch
short_description: Carries out one step of a window on a manager, for a batch of hosts (internal)
version_added: 0.2.0
description:
  - Runs modules of this collection on the manager to which the task is delegated. Returns an outcome for each host that does not pass the step.
    Prints once what it waits for.
  - If the manager does not answer, the task does not fail. Then RV(answered) is false, and another manager can carry out the same step.
  - The module reads the variables that the playbooks of this collection set, such as C(gpu_swarm_plan).
options:
  step:
    description:
      - V(start) acquires the lease of the swarm if a change is needed. It also returns paused nodes to service if they need no other change.
      - V(acquire) acquires or renews the lease. V(renew) renews the same lease within a window.
      - V(begin) reads the ledger, gives moved tasks time to start elsewhere, and acquires or renews the lease. Then it decides which hosts may
        be changed now, pauses their nodes, and waits for tasks that C(provision_disrupt) of each host protects.
      - V(drain) checks the remaining work on the hosts, renews the lease if necessary, and removes finished jobs that would run again. Then it drains
        the nodes that still have movable tasks.
      - V(unlabel) writes the remaining labels after a deprovision.
      - V(restore) waits until the manager shows the decision, and returns the nodes to service.
      - V(finish) returns the remaining nodes to service and labels them, and waits as V(restore) does. Then it releases the lease and writes a note
        to the swarm with the number of hosts by outcome.
    type: str
    choices: [start, acquire, begin, drain, renew, unlabel, restore, finish]
    required: true
  hosts:
    description: The hosts of the batch.
    type: list
    elements: str
    required: true
  force:
    description: Whether to take the lease even if another run has it.
    type: bool
    default: false
extends_documentation_fragment:
  - fleet.gpu_swarm.docker_client
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.internal
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: partial
    details: Each call renews the lease.
  platform:
    platforms: posix
seealso:
  - module: fleet.gpu_swarm.swarm_nodes
  - module: fleet.gpu_swarm.swarm_gpu_info
  - module: fleet.gpu_swarm.swarm_lease
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Pause the nodes of the batch that may be changed now, and wait for protected work
  fleet.gpu_swarm.swarm_batch:
    step: begin
    hosts: "{{ ansible_play_batch }}"
  delegate_to: "{{ manager }}"
  run_once: true
  register: paused
"""

RETURN = r"""
answered:
  description: Whether this manager carried out the step, so that no other manager is needed.
  returned: always
  type: bool
manager:
  description: The host of the inventory that was called.
  returned: always
  type: str
outcomes:
  description: The C(state) and the C(reason) of each host that did not pass the step.
  returned: always
  type: dict
drained:
  description: The hosts whose nodes were drained.
  returned: with O(step=drain)
  type: list
  elements: str
refused:
  description: The nodes that were not written completely, as RV(fleet.gpu_swarm.swarm_nodes#module:refused).
  returned: with O(step=finish)
  type: list
  elements: dict
unlabelled:
  description: Why labels could not be set.
  returned: with O(step=finish)
  type: str
ledger:
  description: The last result of M(fleet.gpu_swarm.swarm_gpu_info).
  returned: always
  type: dict
lease:
  description: The last result of M(fleet.gpu_swarm.swarm_lease).
  returned: always, but for V(begin) only if the manager answered
  type: dict
"""
