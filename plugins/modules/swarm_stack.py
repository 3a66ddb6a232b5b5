#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_stack
short_description: Deploys an ordinary Compose file with GPUs on a swarm
version_added: 0.3.0
description:
  - Translates a Compose file of the controller into a stack file. Variables, C(.env), C(env_file), configs and secrets are read there. GPUs of
    C(gpus) and of C(deploy.resources.reservations.devices) become generic resources, and what has no meaning on Swarm is listed.
  - Checks whether each service of it fits, with the filters of swarm's scheduler, and deploys nothing where one does not.
  - Some values are refused by Docker only once a part of the stack is made, such as a port that another service has. They are checked beforehand, and
    nothing is deployed. If Docker still refuses, the error names what was made by then. If the stack is new, these parts are removed again.
  - Deploys with C(docker stack deploy) on the host of the task, which is a manager with the C(docker) command, and waits until all tasks run.
  - Of a service that does not run in time it says why. The task fails only where nothing could be deployed; see RV(waiting) and RV(not_ready).
  - What C(x-gpu) of a service wants of its nodes becomes constraints. A label that these need is added to the nodes of which it is true; what it
    means is kept in the label C(gpu-swarm.classes) of the service, by which a run of provision keeps it true.
notes:
  - In check mode the stack file is printed, which can be deployed by hand. Values that may be secret are hidden.
  - The stack file that was deployed is kept in a config of the swarm, with which the next run compares.
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
    details: Where the tag of an image stands for another image by now, that one is deployed. A service that is a job runs again at each update.
options:
  name:
    description: The name of the stack, with which the names of its services begin.
    type: str
    required: true
  compose:
    description: The Compose file, on the controller. Required with O(state=present).
    type: path
  state:
    description:
      - Whether the stack is deployed or removed. Its volumes stay. With V(absent), O(wait_timeout) is how long to wait until none of its tasks has a
        GPU any more.
    type: str
    choices: [present, absent]
    default: present
  kind:
    description: The kind of generic resources that the GPUs of the Compose file are.
    type: str
    default: NVIDIA-GPU
  allow_pending:
    description: Whether a service is deployed for which there is no room now. One that no node could ever run is refused all the same.
    type: bool
    default: false
  wait_timeout:
    description:
      - For how many seconds the services are waited for until they run, and have done so with the same tasks for 5 seconds. Tasks that were there
        before, and stay, are not waited for.
      - With V(0) they are read once; those that do not run yet are in RV(waiting).
    type: int
    default: 300
  prune:
    description: Whether services of the stack are removed that the Compose file has no more.
    type: bool
    default: false
  with_registry_auth:
    description: Whether the manager's login to a registry is passed on to the nodes.
    type: bool
    default: false
  registries:
    description:
      - Logins to registries, by the name of the registry, each with C(username) and C(password). They are passed on to the nodes.
      - They are in memory on the manager while C(docker stack deploy) runs, and the manager's own logins do not count then.
    type: dict
    default: {}
  query_registries:
    description: Whether registries that images name are queried, and nothing is deployed where one refuses the login.
    type: bool
    default: true
seealso:
  - module: fleet.gpu_swarm.swarm_explain
"""

EXAMPLES = r"""
- name: Deploy a Compose file
  fleet.gpu_swarm.swarm_stack:
    name: train
    compose: compose.yml
  register: stack

- name: All of it runs
  ansible.builtin.assert:
    that: not stack.waiting and not stack.not_ready
"""

RETURN = r"""
stack_file:
  description: The stack file. Values that may be secret are hidden.
  returned: with O(state=present)
  type: str
hidden:
  description: The paths of these values.
  returned: with O(state=present)
  type: list
  elements: str
notes:
  description: What of the Compose file has no meaning on Swarm, with what to write instead.
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
    - What C(x-gpu) of the services means on this fleet. Each has C(service), C(image), C(constraints), and under C(nodes) the host names of
      those that meet them.
  returned: with O(state=present)
  type: list
  elements: dict
  version_added: 0.3.0
progress:
  description: By service how far it is.
  returned: with O(state=present), not in check mode
  type: dict
  sample: {train_web: 2 of 2 running}
summary:
  description: What became of the stack, in a sentence or two.
  returned: success
  type: str
  version_added: 0.3.0
  sample: "All services of the stack train run: 2."
waiting:
  description:
    - The services that are pending, or start, and with which nothing is wrong. With O(state=absent) what tasks of the stack still have allocated.
  returned: success, not in check mode
  type: list
  elements: str
not_ready:
  description: The services with which something is wrong. Such as those of which a task has ended, and that did not run by the end of the wait.
  returned: success, not in check mode
  type: list
  elements: str
answered:
  description: Whether another manager need not be tried.
  returned: always
  type: bool
"""
