#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_explain
short_description: Why a service of a swarm is pending, and what would make room for it
version_added: 0.3.0
description:
  - Replays the filters of swarm's scheduler, in their order, for services over the nodes of their swarm, which are availability, reserved
    resources, plugins, constraints, platform, ports of the host and the limit of replicas on a node.
  - Reports on which nodes a service fits, how many nodes each filter excludes, the nearest misses by name, and the tasks that would have to
    end to make room. Before any filter, why a service has fewer tasks than it is to have.
  - Returns the ledger of M(fleet.gpu_swarm.swarm_gpu_info) as well, from the same look at the swarm.
notes:
  - Cluster volumes are not looked at, nor do pending tasks of other services count, which may take the place first.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.info_module
  - fleet.gpu_swarm.docker_client
options:
  services:
    description:
      - The services to explain, by name or id, whether or not their tasks wait. V(*) stands for each service that has fewer tasks than
        it is to have.
      - A name that no service has is left out of the result.
    type: list
    elements: str
    default: ['*']
  prefix:
    description: What the keys of M(fleet.gpu_swarm.swarm_nodes)'s own records begin with.
    type: str
    default: gpu-swarm.
seealso:
  - module: fleet.gpu_swarm.swarm_gpu_info
"""

EXAMPLES = r"""
- name: Why is it pending, and what would make room?
  fleet.gpu_swarm.swarm_explain:
    services: [train]
  register: answer

- name: Show it
  ansible.builtin.debug:
    msg: "{{ answer.explained | map(attribute='text') }}"
"""

RETURN = r"""
explained:
  description:
    - The services of O(services), ordered by name. The filters of swarm's scheduler are replayed, in their order, over the nodes as they are.
    - One service at a time, as if it came next. Which of the feasible nodes the scheduler would take is not predicted.
  returned: success
  type: list
  elements: dict
  contains:
    service: {type: str, description: The service's name.}
    id: {type: str, description: The service's id.}
    mode: {type: str, description: 'V(Replicated), V(Global), V(ReplicatedJob) or V(GlobalJob).'}
    text: {type: str, description: The answer in a sentence.}
    wanted: {type: int, description: 'How many tasks it is to have, or to complete; null for a global service.'}
    live: {type: int, description: 'How many tasks have a node, and are not to end.'}
    waiting: {type: int, description: How many tasks no node was found for.}
    needed: {type: int, description: For how many tasks a place is needed now.}
    since: {type: str, description: "When the first of those that wait began to, as RFC 3339; null where none waits."}
    age: {type: int, description: Whole seconds since then by the manager's clock; null where that is not known.}
    said: {type: str, description: The scheduler's own words for one of them.}
    without_tasks:
      description:
        - Why it has fewer tasks than it is to have before the scheduler comes to place any. A paused update, a job's limit of concurrent
          tasks, restart attempts that are used up, a restart delay, a network that is not allocated yet, a global service on a paused node.
      type: list
      elements: str
    wants: {type: dict, description: 'What one task reserves, by kind; C(CPUs) and C(GiB of memory) among them.'}
    nodes: {type: int, description: How many nodes were compared. Of a global service those that have no task of it.}
    excluded:
      description:
        - The filters that exclude nodes, in the scheduler's order, each with how many C(nodes) come to it and do not pass. C(filter) is
          V(ready), V(resources), V(plugins), V(constraints), V(platform), V(ports) or V(replicas).
      type: list
      elements: dict
    feasible: {type: list, elements: str, description: Ids of the nodes that pass every filter.}
    room: {type: int, description: 'How many of its tasks fit there at once; null where nothing limits them.'}
    fits: {type: bool, description: 'Whether all tasks that need a place have one, or one more would where none needs any.'}
    possible: {type: bool, description: Whether a node could take a task of it if that node were empty and took new tasks.}
    unchecked: {type: list, elements: str, description: 'What it needs besides, and is not looked at, which is V(cluster volumes) or nothing.'}
    nearest:
      description:
        - The nodes that a single filter excludes, those that lack the least first. Each with C(filter), C(hostnames), and C(text),
          which names the tasks that would have to end where resources are missing.
      type: list
      elements: dict
  sample:
    - service: train
      id: yea91eask0d0ysmja8a7xxqo0
      mode: Replicated
      text: "needs 2 NVIDIA-GPU on one node: g1 has 1 NVIDIA-GPU free and would have 2 if batch.7 ended"
      wanted: 1
      live: 0
      waiting: 1
      needed: 1
      since: "2026-03-01T11:00:00.123456789Z"
      age: 20
      said: no suitable node (insufficient resources on 1 node)
      without_tasks: []
      wants: {NVIDIA-GPU: 2}
      nodes: 1
      excluded: [{filter: resources, nodes: 1}]
      feasible: []
      room: 0
      fits: false
      possible: true
      unchecked: []
      nearest:
        - filter: resources
          hostnames: [g1]
          text: g1 has 1 NVIDIA-GPU free and would have 2 if batch.7 ended
nodes:
  description: As of M(fleet.gpu_swarm.swarm_gpu_info), and so are C(swarm), C(kinds), C(pools), C(pending), C(findings) and the others.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import GpuSwarmError
from ..module_utils._ledger.read import read
from ..module_utils._swarm.manager import CONNECTION_OPTIONS, connect, unprotected


def main():
    module = AnsibleModule(
        argument_spec=dict(
            CONNECTION_OPTIONS, services=dict(type="list", elements="str", default=["*"]), prefix=dict(type="str", default="gpu-swarm.")
        ),
        supports_check_mode=True,
    )
    try:
        result = read(connect(module.params), module.params["prefix"], module.params["services"])
    except GpuSwarmError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    for text in unprotected(module.params) + [finding["text"] for finding in result["findings"]]:
        module.warn(text)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
