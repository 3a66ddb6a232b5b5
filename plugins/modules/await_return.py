#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: await_return
short_description: Assesses a node until it is back in its swarm (internal)
version_added: 0.2.0
description:
  - Runs M(fleet.gpu_swarm.gpu_node) again and again, until it succeeds and the node is a member of its swarm, and prints once what is waited
    for. Other than with C(until), a round in which the node is not back is no failure.
  - It takes all options of M(fleet.gpu_swarm.gpu_node) besides its own, and is to run in check mode.
options:
  wait_timeout:
    description: How long to wait, in seconds. With V(0), the first answer is the result.
    type: float
    required: true
  delay:
    description: How long after an answer the next query is made, in seconds.
    type: float
    default: 5
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
- name: Wait until the node is back
  fleet.gpu_swarm.await_return:
    wait_timeout: 900
  check_mode: true
  register: inspected
"""

RETURN = r"""
swarm:
  description: With all else that M(fleet.gpu_swarm.gpu_node) returns, the answer that came last.
  returned: when the node answered
  type: dict
"""
