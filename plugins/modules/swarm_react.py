#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_react
short_description: Installs the part of the service on a manager that pauses nodes with faults (internal)
version_added: 0.3.0
description:
  - Installs, compares or removes the part of C(gpu-swarm-manager.service) that reads the list of nodes whenever one of them changes, and pauses
    those that report a fault of their GPUs. The same part writes metrics. The service goes with its last part.
options:
  state:
    description: V(absent) stops it and removes all of it. Nodes that it has paused stay so until a run of this collection returns them to service.
    type: str
    choices: [present, absent]
    default: present
  limit:
    description: So many of a hundred GPU nodes are paused at most, and at least two, of two nodes one. From 1 to 100.
    type: int
    default: 20
  metrics_directory:
    description: The directory to which the leader writes metrics for Prometheus, where it exists. Empty for none.
    type: str
    default: ''
  docker_socket:
    description: The Docker daemon's socket.
    type: path
    default: /var/run/docker.sock
  state_dir:
    description: Where this collection keeps what it needs on the machine.
    type: path
    default: /var/lib/gpu-swarm
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Nodes with faults are paused
  fleet.gpu_swarm.swarm_react:
    limit: 20
"""

RETURN = r"""
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for what it does
from ..module_utils._bounded import run
from ..module_utils._errors import GpuSwarmError
from ..module_utils._manager.parts import ManagerService
from ..module_utils._node.manager_state import PAUSE
from ..module_utils._program.installer import Machine


def main():
    module = AnsibleModule(
        argument_spec=dict(
            state=dict(type="str", choices=["present", "absent"], default="present"),
            limit=dict(type="int", default=20),
            metrics_directory=dict(type="str", default=""),
            docker_socket=dict(type="path", default="/var/run/docker.sock"),
            state_dir=dict(type="path", default="/var/lib/gpu-swarm"),
        ),
        supports_check_mode=True,
    )
    params = module.params
    if not 1 <= params["limit"] <= 100:
        module.fail_json(msg="limit is %d, but must be from 1 to 100 (role: swarm_member_react_limit). Nothing was changed." % params["limit"])
    settings = {name: params[name] for name in ("limit", "metrics_directory")} if params["state"] == "present" else None
    service = ManagerService(params["state_dir"], params["docker_socket"], Machine(run, module.atomic_move))
    try:
        changed = service.converge(PAUSE, settings, module.check_mode)
    except GpuSwarmError as problem:
        module.fail_json(msg=problem.message)
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
