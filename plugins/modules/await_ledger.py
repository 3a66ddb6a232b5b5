#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: await_ledger
short_description: Queries a manager until work has ended or nodes are shown as decided (internal)
version_added: 0.2.0
description:
  - Runs M(fleet.gpu_swarm.swarm_gpu_info) again and again, and prints once what is waited for. Other than with C(until), a round in which
    something is still waited for is no failure.
  - A manager that cannot be reached fails, and is not unreachable, as for M(fleet.gpu_swarm.swarm_gpu_info).
options:
  hosts:
    description: The hosts about which it is.
    type: list
    elements: str
    required: true
  event:
    description:
      - With V(work_ended), until no task runs on these hosts that must not be stopped, by C(provision_disrupt) of each. A manager that no
        longer answers ends the wait.
      - With V(shown), until the manager shows these hosts as this run has decided.
    type: str
    choices: [work_ended, shown]
    required: true
  wait_timeout:
    description: How long to wait, in seconds. With V(0), the first answer is the result.
    type: float
    required: true
  delay:
    description: How long after an answer the next query is sent, in seconds.
    type: float
    default: 2
extends_documentation_fragment:
  - fleet.gpu_swarm.docker_client
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.internal
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
  platform:
    platforms: posix
seealso:
  - module: fleet.gpu_swarm.swarm_gpu_info
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Wait for tasks that must not be stopped
  fleet.gpu_swarm.await_ledger:
    hosts: "{{ ansible_play_batch }}"
    event: work_ended
    wait_timeout: 300
  delegate_to: "{{ manager }}"
  run_once: true
  register: ledger
"""

RETURN = r"""
nodes:
  description: With all else that M(fleet.gpu_swarm.swarm_gpu_info) returns, the answer that came last.
  returned: when the manager answered
  type: list
  elements: dict
"""
