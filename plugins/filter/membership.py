# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: membership
short_description: Says what a host has to do to be a member of the swarm (internal)
version_added: 0.1.0
description:
  - Compares what a host said about its swarm membership with the manager's list of nodes, by node id.
positional: nodes
options:
  _input:
    description: What M(fleet.gpu_swarm.gpu_node) returned in check mode on the host.
    type: dict
    required: true
  nodes:
    description: The manager's list of nodes, as C(docker node inspect) shows them, or null if it is not known.
    type: list
    elements: dict
    required: true
  role:
    description: What the host is to be.
    type: str
    choices: [manager, worker]
    required: true
  move:
    description: Whether a worker of another swarm may leave it.
    type: bool
    default: false
  leaving:
    description: The ids of all nodes that are to be demoted in this run, in order.
    type: list
    elements: str
    default: []
  coming:
    description: What M(fleet.gpu_swarm.gpu_node) returned on the hosts that are managers by the time of a demotion.
    type: list
    elements: dict
    default: []
  host:
    description: The host's name in the inventory. A node that belongs to another host by its label C(gpu-swarm.host) is an error.
    type: str
    version_added: 0.2.0
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: What is to be done with this host
  ansible.builtin.debug:
    msg: "{{ gpu_node_assessed | fleet.gpu_swarm.membership(manager.nodes, role='worker') }}"
"""

RETURN = r"""
_value:
  description:
    - A dictionary with C(action), one of V(none), V(join), V(recover) (leave what was never joined, then join), V(move)
      (leave another swarm, then join), V(promote), V(demote) and V(unknown) (the list of nodes is not known), and C(error)
      (why nothing can be done, or null).
  type: dict
"""

from ansible.errors import AnsibleFilterError

from ..plugin_utils._fleet.membership import membership


def _membership(answer, nodes, role, move=False, leaving=(), coming=(), host=None):
    if role not in ("manager", "worker"):
        raise AnsibleFilterError(f"membership: role is manager or worker, not {role!r}")
    return membership(answer, nodes, role, move=move, leaving=leaving, coming=coming, host=host)


class FilterModule:
    def filters(self):
        return {"membership": _membership}
