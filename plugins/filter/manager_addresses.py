# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: manager_addresses
short_description: Says where the managers of a swarm can be joined (internal)
version_added: 0.1.0
description:
  - Takes the manager's list of nodes and returns where its reachable managers listen.
  - Also takes addresses that a user wrote and completes them with the swarm's port.
options:
  _input:
    description: Nodes as C(docker node inspect) shows them, or strings such as V(10.0.0.1) or V([fd00::1]:2377).
    type: list
    elements: raw
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Try the managers' ports
  ansible.builtin.wait_for:
    host: "{{ item.host }}"
    port: "{{ item.port }}"
    timeout: 5
  loop: "{{ manager.nodes | fleet.gpu_swarm.manager_addresses }}"
"""

RETURN = r"""
_value:
  description: One dictionary per address, with C(addr) (as Docker wants it), C(host) and C(port).
  type: list
  elements: dict
"""

from ..plugin_utils._fleet.membership import addresses, parse_address


def _manager_addresses(nodes):
    written = [parse_address(node) for node in nodes if isinstance(node, str)]
    return written + addresses(node for node in nodes if not isinstance(node, str))


class FilterModule:
    def filters(self):
        return {"manager_addresses": _manager_addresses}
