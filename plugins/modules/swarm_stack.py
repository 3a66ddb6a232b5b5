#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_stack
short_description: Deploys a Compose file with GPUs on a swarm
version_added: 0.3.0
description:
  - Translates a Compose file on the controller into a stack file. Variables, C(.env), C(env_file), configs and secrets are read on the controller
    too. GPUs of C(gpus) and of C(deploy.resources.reservations.devices) become generic resources. RV(notes) lists keys that have no meaning on Swarm.
  - Checks with the filters of swarm's scheduler whether each service fits. If a service does not fit, nothing is deployed.
  - Docker refuses some values only after it has created a part of the stack, for example a port that another service uses. The module checks these
    values first. If Docker still refuses the stack, the error lists the parts that Docker created. If the stack is new, the module removes these
    parts again.
  - Deploys with C(docker stack deploy) on the host of the task, and waits until all tasks run. The host must be a manager with the C(docker) command.
  - If a service does not run in time, the output says why. The task fails only if nothing could be deployed. See RV(waiting) and RV(not_ready).
  - C(x-gpu) of a service becomes placement constraints. If a constraint needs a new label, the module adds the label to all nodes that meet the
    requirements. The label C(gpu-swarm.classes) of the service defines the new label, so that each run of provision updates it on the nodes.
  - C(devices) of a service become names of C(gpu_swarm_devices), which the module reads from the variables of the inventory's hosts. A service with
    the variable C(GPU_SWARM_DEVICES) gets a constraint for nodes that have these devices.
notes:
  - In check mode the module prints the stack file, for a deployment by hand. Values that may be secret are hidden.
  - The module stores the deployed stack file in a config of the swarm. The next run compares its stack file with the stored file.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.docker_client
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: partial
    details: If the tag of an image now refers to another image, the new image is deployed. A service that is a job runs again at each update.
options:
  name:
    description: The name of the stack. The names of its services begin with it.
    type: str
    required: true
  compose:
    description: The Compose file, on the controller. Required with O(state=present).
    type: path
  state:
    description:
      - Whether to deploy or to remove the stack. A removal keeps the volumes of the stack.
      - With V(absent), O(wait_timeout) is how long to wait until no task of the stack has a GPU any more.
    type: str
    choices: [present, absent]
    default: present
  kind:
    description: The resource kind that the GPUs of the Compose file become.
    type: str
    default: NVIDIA-GPU
  allow_pending:
    description: Whether to deploy a service even if no node has room for it now. A service that no node could ever run is always refused.
    type: bool
    default: false
  wait_timeout:
    description:
      - How long to wait, in seconds, until the services have run with the same tasks for 5 seconds. The module does not wait for tasks that already
        ran before the deployment and stay.
      - With V(0), the module does not wait. Services that do not run yet are in RV(waiting).
    type: int
    default: 300
  prune:
    description: Whether to remove services of the stack that are no longer in the Compose file.
    type: bool
    default: false
  with_registry_auth:
    description: Whether the nodes get the manager's logins to registries.
    type: bool
    default: false
  registries:
    description:
      - Logins by the name of the registry, each with C(username) and C(password). The nodes get these logins too.
      - The manager keeps these logins in memory while C(docker stack deploy) runs. With this option, the manager's own logins are not used.
    type: dict
    default: {}
  query_registries:
    description: Whether to check that the registries allow access to the images. If one refuses, nothing is deployed.
    type: bool
    default: true
  ledger:
    description:
      - A saved ledger on the controller. The module compares the stack with this ledger instead of the swarm. Only allowed in check
        mode.
      - The playbook C(status) saves a ledger with C(output=ledger).
    type: path
    version_added: 0.4.0
  pull:
    description:
      - Whether nodes pull the images of services with GPUs before the stack is deployed. The deployment then uses the digests that
        the registries returned before the pulls.
      - Each pull is a service on one node that reserves nothing and starts nothing. The module removes these services, also those of a killed run.
      - A node may pull for O(wait_timeout) seconds, or for 600 seconds with V(0). A node that could not pull does not prevent the deployment.
      - If no node has an image, or if a registry does not have it, nothing is deployed.
    type: bool
    default: false
    version_added: 0.4.0
seealso:
  - module: fleet.gpu_swarm.swarm_explain
"""

EXAMPLES = r"""
- name: Deploy a Compose file
  fleet.gpu_swarm.swarm_stack:
    name: train
    compose: compose.yml
  register: stack

- name: Check that all services run
  ansible.builtin.assert:
    that: not stack.waiting and not stack.not_ready
"""

RETURN = r"""
stack_file:
  description: The stack file. Values that may be secret are hidden.
  returned: with O(state=present)
  type: str
hidden:
  description: The paths of the values that RV(stack_file) hides.
  returned: with O(state=present)
  type: list
  elements: str
notes:
  description: Keys of the Compose file that have no meaning on Swarm, each with its replacement.
  returned: with O(state=present)
  type: list
  elements: str
services:
  description: The services of the stack, each with C(service), and with O(state=present) with C(fits), C(possible) and C(text).
  returned: always
  type: list
  elements: dict
placement:
  description:
    - The placement of each service with C(x-gpu) on this fleet, with C(service), C(image), C(constraints) and C(nodes). C(nodes) has the host names
      of nodes that meet the constraints.
  returned: with O(state=present)
  type: list
  elements: dict
  version_added: 0.3.0
progress:
  description: The progress of each service, as text.
  returned: with O(state=present), not in check mode
  type: dict
  sample: {train_web: 2 of 2 running}
summary:
  description: The result in one or two sentences.
  returned: success
  type: str
  version_added: 0.3.0
  sample: "All services of the stack train run: 2."
waiting:
  description:
    - Services that are pending or starting, without an error.
    - With O(state=absent), the resources that are still allocated to tasks of the stack.
  returned: success, not in check mode
  type: list
  elements: str
not_ready:
  description: Services in trouble, for example because a task ended and the service did not run by the end of the wait.
  returned: success, not in check mode
  type: list
  elements: str
answered:
  description: Whether this manager answered. If it did not answer, try another manager.
  returned: always
  type: bool
"""
