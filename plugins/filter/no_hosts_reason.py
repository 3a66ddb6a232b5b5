# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: no_hosts_reason
short_description: Returns why a run would have no hosts (internal)
version_added: 0.2.0
description:
  - Ansible skips a play without hosts and succeeds. If this filter returns a reason, the run must fail.
options:
  _input:
    description: The groups of the inventory (C(groups)).
    type: dict
    required: true
  wanted:
    description: Groups of which at least one must have a host.
    type: list
    elements: str
    required: true
  limited:
    description:
      - The hosts that remain after C(--limit). Without this option there is no limit.
      - This option only applies if the user started a playbook of this collection. A playbook that imports one of these may be limited to other
        hosts.
    type: list
    elements: str
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Check that the run has hosts
  hosts: "{{ 'localhost' if groups | fleet.gpu_swarm.no_hosts_reason(['gpu_nodes']) else [] }}"
  gather_facts: false
  tasks:
    - name: Check that the run has hosts
      ansible.builtin.fail:
        msg: "{{ groups | fleet.gpu_swarm.no_hosts_reason(['gpu_nodes']) }}"
"""

RETURN = r"""
_value:
  description: What is wrong with the inventory or the limit, and what to do. Empty if there are hosts.
  type: str
"""

from ansible import context

from ..plugin_utils._plan import inventory_groups


class FilterModule:
    def filters(self):
        return {"no_hosts_reason": no_hosts_reason}


def no_hosts_reason(groups, wanted, limited=None):
    started_here = inventory_groups.are_all_of_this_collection(context.CLIARGS.get("args") or ())
    # ansible-core before 2.19 turns None in a template into an empty string.
    return inventory_groups.no_hosts_reason(groups, wanted, limited if started_here and limited not in (None, "") else None)
