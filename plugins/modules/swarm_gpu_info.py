#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_gpu_info
short_description: Which generic resources a swarm has, who holds them, and what is free
version_added: 0.1.0
description:
  - Reads the ledger of a swarm from one of its managers, for each node and each kind of generic resource the total, which
    task holds which GPU, and what is free.
  - Join tokens are neither read nor returned.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.info_module
  - fleet.gpu_swarm.docker_client
options:
  prefix:
    description: What the keys of M(fleet.gpu_swarm.swarm_nodes)'s own records begin with.
    type: str
    default: gpu-swarm.
seealso:
  - module: fleet.gpu_swarm.swarm_nodes
  - module: fleet.gpu_swarm.gpu_info
"""

EXAMPLES = r"""
- name: Read the ledger
  fleet.gpu_swarm.swarm_gpu_info:
  register: ledger

- name: Show what is free
  ansible.builtin.debug:
    msg: "{{ ledger.kinds['NVIDIA-GPU'].schedulable }} of {{ ledger.kinds['NVIDIA-GPU'].total }} GPUs can be had now"
"""

RETURN = r"""
swarm:
  description: The swarm that answered.
  returned: success
  type: dict
  contains:
    id:
      description: The swarm's id.
      type: str
    node_id:
      description: The node id of the manager that answered.
      type: str
    autolocked:
      description: Whether a manager is locked after each restart of its dockerd, until it is given the unlock key.
      type: bool
nodes:
  description: All nodes of the swarm, ordered by host name.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: The node's id in the swarm.
      type: str
    hostname:
      description: The node's host name; two nodes may share one.
      type: str
    addr:
      description: The node's address as the managers see it.
      type: str
    role:
      description: V(manager) or V(worker).
      type: str
    leader:
      description: Whether the node leads the managers.
      type: bool
    reachability:
      description: How the other managers reach it, such as V(reachable); null for a worker.
      type: str
    state:
      description: V(ready), V(down), V(unknown) or V(disconnected).
      type: str
    availability:
      description: V(active), V(pause) or V(drain).
      type: str
    former_availability:
      description: The availability that M(fleet.gpu_swarm.swarm_nodes) noted before a change; null if none.
      type: str
    engine_version:
      description: Version of the node's Docker Engine.
      type: str
    labels:
      description: The node's labels.
      type: dict
    resources:
      description:
        - The node's generic resources by kind. A kind that a task holds and the node no longer advertises has a total of 0.
        - Each has C(type) (V(named) or V(discrete)), C(total), C(values) (names of a named kind), C(free) (names, or a
          count for a discrete kind) and C(held), a list with C(value) or C(amount), C(task_id), C(service), C(slot),
          C(state) and C(desired_state).
      type: dict
      sample:
        NVIDIA-GPU:
          type: named
          total: 2
          values: [GPU-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30, GPU-5fa2e7a4-7777-4c53-9d1f-0c9a7d1e2f31]
          free: [GPU-5fa2e7a4-7777-4c53-9d1f-0c9a7d1e2f31]
          held:
            - value: GPU-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30
              task_id: oyl2ui5639bmnf3qq6mn5afae
              service: train
              slot: 1
              state: running
              desired_state: running
kinds:
  description:
    - Sums over all nodes by kind. C(total), C(held), C(free), and C(schedulable), which is what is free on nodes that are
      ready and active.
  returned: success
  type: dict
  sample:
    NVIDIA-GPU:
      total: 2
      held: 1
      free: 1
      schedulable: 1
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import GpuSwarmError
from ..module_utils._swarm import CONNECTION_OPTIONS, connect
from ..module_utils._swarm_ledger import ledger


def run(params):
    """The module's result."""
    manager = connect(params)
    result = ledger(manager.nodes(), manager.tasks(), manager.services(), params["prefix"])
    return dict(result, changed=False, swarm={"id": manager.swarm_id, "node_id": manager.node_id, "autolocked": manager.autolocked})


def main():
    module = AnsibleModule(
        argument_spec=dict(CONNECTION_OPTIONS, prefix=dict(type="str", default="gpu-swarm.")),
        supports_check_mode=True,
    )
    try:
        result = run(module.params)
    except GpuSwarmError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
