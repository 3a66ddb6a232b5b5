# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: manager_api
short_description: Returns the connection options for a manager's Docker API (internal)
version_added: 0.2.0
description:
  - Takes the inventory name of a manager and returns the connection options for modules that are delegated to that host.
  - If the host has the variable C(swarm_manager_docker_host), such as V(tcp://manager.example.org:2376), the API is at that address.
    C(swarm_manager_docker_tls) is a dictionary of C(tls), C(validate_certs), C(ca_path), C(client_cert) and C(client_key). The
    paths are on the machine that makes the calls.
  - Otherwise the API is the socket on the host.
positional: variables, socket
options:
  _input:
    description: The manager's name in the inventory.
    type: str
    required: true
  socket:
    description: The socket of a manager without C(swarm_manager_docker_host). The default is C(gpu_node_docker_socket) of that host.
    type: str
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
  - fleet.gpu_swarm.internal.variables
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Read the ledger
  fleet.gpu_swarm.swarm_gpu_info:
  delegate_to: "{{ groups['swarm_managers'][0] }}"
  module_defaults:
    group/fleet.gpu_swarm.manager: "{{ groups['swarm_managers'][0] | fleet.gpu_swarm.manager_api(hostvars) }}"
"""

RETURN = r"""
_value:
  description:
    - C(docker_host) and the TLS options.
  type: dict
  sample:
    docker_host: tcp://manager.example.org:2376
    validate_certs: true
    ca_path: /home/ops/.docker/ca.pem
    client_cert: /home/ops/.docker/cert.pem
    client_key: /home/ops/.docker/key.pem
"""

from ansible.errors import AnsibleFilterError

from ..module_utils._errors import GpuSwarmError
from ..plugin_utils._calls.manager_api import api


def _manager_api(name, variables, socket=None):
    try:
        return api(name, variables, socket)
    except GpuSwarmError as problem:
        raise AnsibleFilterError(problem.message) from problem


class FilterModule:
    def filters(self):
        return {"manager_api": _manager_api}
