#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_explain
short_description: Explains why a service of a swarm is pending, and what would make room for it
version_added: 0.3.0
description:
  - Replays the filters of swarm's scheduler, in their order, for services and the nodes of their swarm. The filters are availability, reserved
    resources, plugins, constraints, platform, ports of the host and the limit of replicas on a node.
  - Reports on which nodes a service fits, how many nodes each filter excludes, the nearest misses by name, and the tasks that must
    end to make room. Also reports why swarm has created fewer tasks than the service wants.
  - Returns the ledger of M(fleet.gpu_swarm.swarm_gpu_info) as well, from the same reading of the swarm.
  - With O(textfile_directory), the module also writes the ledger as metrics for Prometheus. Without this option, it only reads.
notes:
  - The module does not check cluster volumes. It ignores pending tasks of other services, although swarm may place these tasks first.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.docker_client
attributes:
  idempotent:
    support: partial
    details: With O(textfile_directory), each call writes the file, because the file contains the time. Without this option, the module changes
      nothing.
options:
  services:
    description:
      - The services to explain, by name or ID, even if no task of them is waiting. V(*) means each service with fewer tasks than it wants.
      - Unknown names are ignored.
    type: list
    elements: str
    default: ['*']
  prefix:
    description: The prefix of the labels with which M(fleet.gpu_swarm.swarm_nodes) records its changes.
    type: str
    default: gpu-swarm.
  owner_label:
    description: The label of services that names their owner.
    type: str
    default: gpu-swarm.owner
    version_added: 0.3.0
  textfile_directory:
    description:
      - The directory that the textfile collector of Prometheus' node_exporter reads, such as V(/var/lib/prometheus/node-exporter). The ledger
        is written there as metrics, to the file C(gpu-swarm.prom). A reader sees either the old or the new file.
      - The directory is on the machine on which the module runs, and must exist. If the module cannot write the file, it fails, but still
        returns the ledger.
    type: path
    version_added: 0.3.0
seealso:
  - module: fleet.gpu_swarm.swarm_gpu_info
"""

EXAMPLES = r"""
- name: Explain why a service is pending
  fleet.gpu_swarm.swarm_explain:
    services: [train]
  register: answer

- name: Show the explanation
  ansible.builtin.debug:
    msg: "{{ answer.explained | map(attribute='text') }}"
"""

RETURN = r"""
owners:
  description: The value of O(owner_label) by service, for services with that label.
  returned: success
  type: dict
  sample: {train: alice}
  version_added: 0.3.0
textfile:
  description: The written file. In check mode, the file that would be written.
  returned: with O(textfile_directory)
  type: str
  sample: /var/lib/prometheus/node-exporter/gpu-swarm.prom
  version_added: 0.3.0
explained:
  description:
    - The explanations of O(services), ordered by the name of the service. They apply the filters of swarm's scheduler, in their order, to the nodes.
    - Each explanation assumes that swarm places this service next. It does not predict which feasible node the scheduler would choose.
  returned: success
  type: list
  elements: dict
  contains:
    service: {type: str, description: The service's name.}
    id: {type: str, description: The service's id.}
    mode: {type: str, description: 'V(Replicated), V(Global), V(ReplicatedJob) or V(GlobalJob).'}
    text: {type: str, description: The answer in a sentence.}
    wanted: {type: int, description: 'How many tasks the service wants, or wants to complete. Null for a global service.'}
    live: {type: int, description: 'How many tasks have a node and should run.'}
    waiting: {type: int, description: How many tasks wait for a node.}
    needed: {type: int, description: How many tasks need a node now.}
    over: {type: bool, description: 'Whether swarm starts no more tasks of the service, because all tasks have ended or the service is scaled to 0.'}
    since: {type: str, description: "When the first waiting task began to wait, as RFC 3339. Null if no task waits."}
    age: {type: int, description: "Whole seconds since then, by the manager's clock. Null if unknown."}
    said: {type: str, description: The scheduler's own message for one of the waiting tasks.}
    without_tasks:
      description:
        - Why swarm has not created all tasks yet. Examples are a paused update, a job's limit of concurrent
          tasks, restart attempts that are used up, a restart delay, a network that is not allocated yet, a global service on a paused node.
      type: list
      elements: str
    wants: {type: dict, description: 'The reservation of one task, by resource kind. CPUs and memory have the kinds C(CPUs) and C(GiB of memory).'}
    nodes: {type: int, description: "How many nodes were compared. For a global service, nodes that already have its task are ignored."}
    excluded:
      description:
        - The filters that exclude nodes, in the scheduler's order, each with the number of C(nodes) that it excludes. C(filter) is
          V(ready), V(resources), V(plugins), V(constraints), V(platform), V(ports) or V(replicas).
      type: list
      elements: dict
    feasible: {type: list, elements: str, description: Ids of the nodes that pass every filter.}
    room: {type: int, description: 'How many tasks of the service fit on these nodes at once. Null if there is no limit.'}
    rooms: {type: dict, description: "How many tasks fit on each feasible node, by node ID."}
    fits: {type: bool, description: 'Whether all tasks that need a node fit, or one more task if none needs a node.'}
    possible: {type: bool, description: Whether any node could run a task of the service if the node were empty and schedulable.}
    unchecked: {type: list, elements: str, description: 'Requirements that are not checked. This is V(cluster volumes), or the list is empty.'}
    nearest:
      description:
        - The nodes that only one filter excludes. Nodes that lack the least are listed first.
        - Each entry has C(filter), C(hostnames) and C(text). If resources are missing, C(text) names the tasks that must end.
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
      over: false
      since: "2026-03-01T11:00:00.123456789Z"
      age: 20
      said: no suitable node (insufficient resources on 1 node)
      without_tasks: []
      wants: {NVIDIA-GPU: 2}
      nodes: 1
      excluded: [{filter: resources, nodes: 1}]
      feasible: []
      room: 0
      rooms: {}
      fits: false
      possible: true
      unchecked: []
      nearest:
        - filter: resources
          hostnames: [g1]
          text: g1 has 1 NVIDIA-GPU free and would have 2 if batch.7 ended
queue:
  description:
    - The queues of the swarm and their work, as C(gpu-swarm queue --json) prints them. Null for a swarm without queues.
    - C(queues) has the use and the limits of each queue. C(work) has the services of queues, in the order in which they may start. C(problem) is the
      reason why no work is admitted, or empty.
    - C(work) has at most 100 waiting services of each queue, and at most 100 others. Services whose work is over are left out. All O(services) are
      included in any case.
  returned: success
  type: dict
  version_added: 0.4.0
nodes:
  description: As in M(fleet.gpu_swarm.swarm_gpu_info). All other values of that module are returned too, such as C(swarm), C(kinds) and C(pending).
  returned: success
  type: list
  elements: dict
"""

import time

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._errors import GpuSwarmError
from ..module_utils._ledger.owners import owners_of
from ..module_utils._metrics import file, samples
from ..module_utils._placement.explain import ALL
from ..module_utils._queue.read_queue import read_ledger_and_queue
from ..module_utils._swarm import manager_module
from ..module_utils._swarm.manager import connect
from ..module_utils._tasks.tasks import epoch
from ..module_utils._view.shown_queues import shortened_queue

OPTIONS = dict(
    services=dict(type="list", elements="str", default=["*"]),
    prefix=dict(type="str", default="gpu-swarm."),
    owner_label=dict(type="str", default="gpu-swarm.owner"),
    textfile_directory=dict(type="path"),
)


def run(params, check_mode):
    """Return the module's result. Raise a GpuSwarmError that contains the result if the metrics cannot be written."""
    manager, wanted, directory = connect(params), params["services"], params["textfile_directory"]
    # The metrics describe all pending services, so explain them too.
    result = read_ledger_and_queue(manager, params["prefix"], [*wanted, ALL] if directory else wanted)
    result["owners"] = owners_of(manager.services(), params["owner_label"])
    shown = shortened_queue(result["queue"], wanted)
    if not directory:
        return dict(result, queue=shown)
    text = samples.rendered(result, epoch(manager.time) or time.time(), file.STATUS)
    explained = [service for service in result["explained"] if ALL in wanted or service["service"] in wanted or service["id"] in wanted]
    with_metrics = dict(result, queue=shown, explained=explained, changed=True, textfile=file.path_in(directory))
    try:
        if not check_mode:
            file.write(directory, text)
    except GpuSwarmError as problem:
        raise GpuSwarmError(problem.message, **dict(with_metrics, changed=False)) from problem
    return with_metrics


def main():
    manager_module.main(run, OPTIONS)


if __name__ == "__main__":
    main()
