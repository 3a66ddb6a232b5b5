#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: check_settings
short_description: Fails if a variable of this collection has a wrong value or a misspelt name (internal)
version_added: 0.2.0
description:
  - Reads the variables of hosts from all sources. It fails if a value is wrong, such as V(soon) for C(provision_wait). It also fails if a name
    resembles the name of a setting, such as C(gpu_node_advertize), because Ansible itself ignores misspelt names.
  - Reports all errors in one message. Each error appears once, with its hosts. Each playbook runs this module before it contacts a host.
  - Runs on the controller. Changes nothing.
options:
  hosts:
    description: The hosts whose variables are checked.
    type: list
    elements: str
    required: true
  roles:
    description: The roles whose variables are checked, besides those of the playbooks.
    type: list
    elements: str
    default: [gpu_node, nvidia_container_toolkit, swarm_member]
  short:
    description:
      - Short names of the playbooks' settings, each with the name of the setting. Short names apply only on the command line (C(-e)).
      - A variable on the command line whose name resembles a short name, such as C(servise), is an error too.
    type: dict
    default: {}
    version_added: 0.3.0
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes.controller
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.internal
seealso:
  - module: fleet.gpu_swarm.provision_plan
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Check the settings
  fleet.gpu_swarm.check_settings:
    hosts: "{{ ansible_play_hosts_all }}"
  run_once: true
"""

RETURN = r"""
settings:
  description: The values of the settings in O(short) for the first host, by their full names.
  returned: success
  type: dict
  sample: {status_what: free}
"""
