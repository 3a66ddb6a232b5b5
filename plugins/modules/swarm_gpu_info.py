#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_gpu_info
short_description: Reads which generic resources of a swarm are allocated and which are free, and which tasks are pending
version_added: 0.1.0
description:
  - Reads the ledger of a swarm from one of its managers. For each node and each kind of generic resource, the ledger has the total, the free
    resources, and which GPU is allocated to which task. The ledger also lists pending tasks, each with the reason.
  - Reports GPUs that are allocated to two tasks, resources of finished jobs that an old leader still counts, and services that can see GPUs without
    reserving one. If you need to act, you also get a warning.
  - The module neither reads nor returns join tokens. It returns the variables of services that let them see GPUs, but no other variables.
notes:
  - Resources stay allocated to a task from its assignment to its end, also while it shuts down. Free resources are those that the scheduler can
    allocate. Tasks of finished jobs never block free resources, with any release of Docker Engine. RV(finished_jobs) describes what they affect.
  - The module reads all tasks that the swarm remembers, one at a time. So it needs little memory even for a large swarm.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.info_module
  - fleet.gpu_swarm.docker_client
  - fleet.gpu_swarm.keep_label
options:
  ledger:
    description:
      - With V(false), the module reads and returns only RV(swarm). This takes one short call, for any size of swarm. The module still fails if the
        daemon cannot be reached or is not a manager.
    type: bool
    default: true
    version_added: 0.2.0
  prefix:
    description: The prefix of the labels in which M(fleet.gpu_swarm.swarm_nodes) keeps its records.
    type: str
    default: gpu-swarm.
seealso:
  - module: fleet.gpu_swarm.swarm_explain
  - module: fleet.gpu_swarm.swarm_nodes
  - module: fleet.gpu_swarm.gpu_info
"""

EXAMPLES = r"""
- name: Read the ledger
  fleet.gpu_swarm.swarm_gpu_info:
  register: ledger

- name: Show how many GPUs are free
  ansible.builtin.debug:
    msg: "{{ ledger.kinds['NVIDIA-GPU'].schedulable }} of {{ ledger.kinds['NVIDIA-GPU'].total }} GPUs are free"

- name: Show pending tasks with the reason
  ansible.builtin.debug:
    msg: "{{ item.count }} × {{ item.service }}: {{ item.missing | default([item.said], true) | join('; ') }}"
  loop: "{{ ledger.pending }}"
  loop_control:
    label: "{{ item.service }}"

- name: List the tasks that swarm would not start again after a restart of their nodes
  ansible.builtin.debug:
    msg: "{{ ledger.nodes | map(attribute='tasks') | flatten | rejectattr('movable') | map(attribute='name') }}"
"""

RETURN = r"""
swarm:
  description: The swarm of the manager that answered.
  returned: success
  type: dict
  contains:
    id: {type: str, description: The swarm's ID.}
    node_id: {type: str, description: The node ID of the manager that answered.}
    state: {type: str, version_added: 0.2.0, description: 'The state of this node in its swarm. It is always V(active).'}
    control_available: {type: bool, version_added: 0.2.0, description: 'Whether the node is a manager. It is always V(true).'}
    autolocked: {type: bool, description: 'Whether a manager is locked after each restart of its dockerd, until someone enters the unlock key.'}
    lease:
      description: The lease of the run that changes the swarm, or changed it last. See M(fleet.gpu_swarm.swarm_lease). Null if there is no lease.
      type: dict
      contains:
        holder: {type: str, description: The run that has the lease.}
        since: {type: str, description: When the run acquired the lease. Null if that is not known.}
        expires_in: {type: int, description: Seconds until the lease ends. It is 0 or less if it has ended. Null if the lease does not end by itself.}
    isolation: {type: dict, description: 'The content of the label C(gpu-swarm.isolation). See M(fleet.gpu_swarm.swarm_lease).'}
    queues: {type: str, description: 'The text of the label C(gpu-swarm.queues). Empty without the label.', version_added: 0.4.0}
    last_run: {type: dict, description: 'C(ended), C(hosts) and C(always) of M(fleet.gpu_swarm.swarm_lease). Null if no run recorded them.'}
nodes:
  description: All nodes of the swarm, ordered by host name.
  returned: success
  type: list
  elements: dict
  contains:
    id: {type: str, description: The node's ID in the swarm.}
    hostname: {type: str, description: The node's host name. Two nodes may have the same one.}
    addr: {type: str, description: The node's address as the managers see it.}
    role: {type: str, description: V(manager) or V(worker).}
    leader: {type: bool, description: Whether the node is the leader of the managers.}
    reachability: {type: str, description: 'Whether the other managers reach the node, such as V(reachable). Null for a worker.'}
    state: {type: str, description: 'V(ready), V(down), V(unknown) or V(disconnected).'}
    availability: {type: str, description: 'V(active), V(pause) or V(drain).'}
    former_availability: {type: str, description: Availability that M(fleet.gpu_swarm.swarm_nodes) recorded before a change. Null if there is none.}
    set_by_run:
      description:
        - Whether a run of this collection set the node's availability and has not restored the former availability yet. False if someone has changed
          the availability since.
      type: bool
      version_added: 0.3.0
    set_at: {type: str, description: "When the run set the availability, by the manager's clock, as V(2026-03-01T09:30:00Z). Otherwise null."}
    set_by: {type: str, description: "The playbook that set the availability, such as V(maintain (runs driver.yml\\)). Null if it is not known."}
    paused_for: {type: str, description: "The fault for which the node is paused, such as V(fault reason=mismatch). Otherwise null."}
    unchanged_for:
      description:
        - For how many seconds the manager has recorded no change of the node, by the manager's clock. The node has had its state and availability
          for at least this time. Null if the time is not known.
      type: int
      version_added: 0.3.0
    message: {type: str, version_added: 0.3.0, description: "Message of the manager about the node's state, as V(heartbeat failure). Usually empty."}
    health:
      description:
        - What the node reports about its own GPUs with the engine label C(fleet.gpu-swarm.health). Null if it reports nothing.
        - The keys are C(state), C(card), C(cards), C(pci_bus_id), C(slot), C(serial), C(reason), C(xid), C(since), C(drift), C(model), C(returned)
          and C(text).
        - C(state) is V(ok), V(warning), V(fault), V(unwatched) or V(unknown). C(cards) is the number of cards in this state, and C(card) is the UUID
          of the first of them.
        - C(drift) tells whether someone has changed the node's files since provision. C(model) is only set if the node has no labels. C(returned)
          tells whether a run has returned the node to service after a pause for this fault.
      type: dict
      version_added: 0.3.0
      sample: {state: fault, card: null, cards: 1, reason: hang, xid: null, since: null, drift: false, model: null, returned: false, text: fault hang}
    engine_version: {type: str, description: Version of the node's Docker Engine.}
    labels: {type: dict, description: The node's labels.}
    resources:
      description:
        - The node's generic resources by kind. If a kind is allocated but no longer advertised, its total is 0.
        - Each kind has C(type) (V(named) or V(discrete)), C(total), C(values), C(free) and C(held).
        - C(values) lists the names of a named kind. C(free) lists the free names, or is the free amount of a discrete kind.
        - C(held) lists the allocations, each with C(value) or C(amount), C(task_id), C(service), C(name), C(slot), C(state), C(desired_state) and
          C(since), as in RV(nodes[].tasks).
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
              name: train.1
              slot: 1
              state: running
              desired_state: running
              since: "2026-03-01T09:30:00.123456789Z"
    tasks:
      description:
        - All tasks of services on the node, with and without GPUs, ordered by name. This includes tasks that swarm has assigned to the node but that
          have no container yet.
        - Ended tasks, pending tasks (RV(pending)) and containers of C(docker run) are not listed.
      type: list
      elements: dict
      contains:
        id: {type: str, description: The task's ID.}
        service: {type: str, description: "The name of the task's service. If the service was removed, its ID. Then C(removed) is true."}
        name: {type: str, description: "The task's name as in C(docker service ps): the service's name with the slot or the node's ID."}
        state: {type: str, description: 'V(assigned), V(accepted), V(preparing), V(ready), V(starting) or V(running).'}
        since:
          description:
            - When the task entered its state, as RFC 3339 with nanoseconds. The time is by the node's clock, or for V(assigned) by the manager's.
          type: str
        age: {type: int, description: "Whole seconds since C(since), by the manager's clock (C(SystemTime) of C(GET /info)). Null if not known."}
        movable:
          description:
            - Whether swarm starts another task when this task is stopped. Swarm starts it elsewhere. A task of a global service starts when its node
              is back.
            - False for tasks with the restart condition V(none), for tasks of jobs, and for tasks of removed services, which will end soon.
            - Also false if the service limits its restarts (C(--restart-max-attempts)) and RV(nodes[].tasks[].restarts_left) is 0. A drain uses up
              one restart. This does not apply to global services, since swarm creates their tasks again when the node is back.
          type: bool
        kept: {type: str, version_added: 0.3.0, description: "The label (O(keep_label)) of the task's service that protects the task, or null."}
        restarts_left:
          description:
            - How many times swarm would restart the task at least. Null if the service does not limit its restarts, and for global services.
            - The number is computed from the tasks that the manager still lists for the same slot and the same version of the service.
            - Restarts before the C(--restart-window) do not count. Swarm measures this window back from the start of the current task, so the number
              does not grow while the task runs.
          type: int
          version_added: 0.2.0
        elsewhere:
          description:
            - Whether the task could run on another node that takes new tasks. That node must meet the constraints of the service and the platform
              of the image, and its total resources must be enough. It does not matter whether these resources are free.
            - Null for global services, since each of their tasks belongs to one node. Also null for removed services.
          type: bool
          version_added: 0.2.0
        holding: {type: dict, description: 'The resources of the task by kind, as a list of names, or as the amount of a discrete kind.'}
      sample:
        - id: oyl2ui5639bmnf3qq6mn5afae
          service: train
          name: train.1
          state: running
          since: "2026-03-01T09:30:00.123456789Z"
          age: 5400
          movable: true
          kept: null
          restarts_left: null
          elsewhere: true
          holding:
            NVIDIA-GPU: [GPU-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30]
kinds:
  description:
    - Sums over all nodes by kind, with C(total), C(held), C(free) and C(schedulable).
    - C(schedulable) counts the free resources of nodes that are ready and active.
  returned: success
  type: dict
  sample: {NVIDIA-GPU: {total: 2, held: 1, free: 1, schedulable: 1}}
pools:
  description:
    - Sums by kind over the nodes that are ready and active. The scheduler can allocate only these resources.
    - Each kind has C(nodes), C(total), C(held), C(free) and C(most_free). C(nodes) is the number of nodes that advertise the kind.
    - C(most_free) is the largest free amount on one node. It matters because a task gets all its resources from one node.
  returned: success
  type: dict
  sample: {NVIDIA-GPU: {nodes: 1, total: 2, held: 1, free: 1, most_free: 1}}
held_twice:
  description:
    - Named resources that are allocated to more live tasks than the node advertises. This can happen after another manager becomes the leader, since
      the new leader counts the running tasks again.
  returned: success
  type: list
  elements: dict
  contains:
    kind: {type: str, description: The kind.}
    value: {type: str, description: "The resource's name, such as a GPU's UUID. For a group, its UUIDs are joined by C(+)."}
    node: {type: str, description: The node's ID.}
    hostname: {type: str, description: The node's host name.}
    holders: {type: list, elements: dict, description: 'The tasks that have the resource, as in C(held) of RV(nodes[].resources).'}
finished_jobs:
  description:
    - Resources that were allocated to ended tasks of replicated and global jobs. Empty if the leader has Docker Engine 29.6.0 or newer (moby#52652).
    - The scheduler can allocate these resources, and RV(nodes[].resources) shows them as free. But at each update of an active node, an older leader
      adds them to the resources of live tasks. If the sum is more than the node has (C(clash)), the leader stops a running task. Or it rejects an
      ended task and runs the job of that task again.
    - Each entry also has C(values), the names of these resources. C(values) is null for a discrete kind.
  returned: success
  type: list
  elements: dict
  contains:
    service: {type: str, description: The job's name.}
    node: {type: str, description: The node's ID.}
    hostname: {type: str, description: The node's host name.}
    kind: {type: str, description: The kind.}
    amount: {type: int, description: The amount that was allocated to all these ended tasks together.}
    tasks: {type: int, description: The number of these ended tasks.}
    clash: {type: bool, description: Whether this amount plus the resources of live tasks is more than the node has.}
unreserved:
  description:
    - Services that can see GPUs but do not reserve GPUs by name. Only services that have a task on a node with GPUs, or may be placed on such a node,
      are listed.
    - They see GPUs because their specification sets E(NVIDIA_VISIBLE_DEVICES) or C(DOCKER_RESOURCE_<KIND>). If a service reserves GPUs by name, the
      value from the scheduler overrides the value in the specification. So such a service is never listed.
    - With the value V(void), or an empty value, a service sees no GPU. With V(none), the service still gets the driver's libraries and control
      devices, so it is listed.
    - B(The variables of images are not known), because a service's specification does not contain them. CUDA's images set
      E(NVIDIA_VISIBLE_DEVICES) to V(all), so a service that is not listed may still see all GPUs of its node.
    - A node has GPUs if it advertises GPUs by name, has the label C(gpu.count) of M(fleet.gpu_swarm.gpu_node), or reports the model of its GPUs.
  returned: success
  type: list
  elements: dict
  contains:
    service: {type: str, description: The service's name.}
    variables: {type: dict, description: 'The variables that let the service see GPUs, with their values.'}
    reserves:
      description:
        - The kinds that the service reserves. If there are any, the module does not warn about the service, because a service that reserves a share
          of a GPU's memory needs such a variable.
      type: list
      elements: str
    nodes:
      description: Host names of the nodes with GPUs on which the service has tasks. Empty if the service has no task on such a node yet.
      type: list
      elements: str
  sample:
    - {service: notebook, variables: {NVIDIA_VISIBLE_DEVICES: all}, reserves: [], nodes: [gpu-01]}
on_gpu_nodes:
  description:
    - Services that reserve no generic resource and have tasks on nodes with GPUs, ordered by name.
    - Each entry has C(service), C(mode), C(tasks), C(nodes), C(dedicated) and C(command). C(mode) is V(replicated), V(global), V(replicated-job) or
      V(global-job). C(tasks) is the number of tasks on these nodes. C(nodes) lists their host names.
    - C(dedicated) tells whether one of these nodes has the label of O(fleet.gpu_swarm.gpu_node#module:dedicated).
    - C(command) is a command that keeps the service off nodes with that label. It is null if the service already has this constraint. It is also null
      for a global service, which should run on each node, and for a job, which the command would run again.
  returned: success
  type: list
  elements: dict
  sample:
    - service: web
      mode: replicated
      tasks: 2
      nodes: [gpu-01]
      dedicated: true
      command: docker service update --constraint-add 'node.labels.gpu.dedicated!=true' web
reservations:
  description:
    - Services with running or pending tasks that reserve generic resources, each with the reservation of one task. A service may be listed twice
      while it is updated.
    - Running tasks that swarm does not start again, such as tasks of jobs, are not counted, because they need no room after they end.
  returned: success
  type: list
  elements: dict
  contains:
    service: {type: str, description: The service's name.}
    tasks: {type: int, description: The number of running and pending tasks of the service.}
    wants: {type: dict, description: 'The amount that each task reserves, by kind.'}
    able: {type: list, elements: str, description: 'IDs of nodes that meet the constraints and platform, with any resources. Null means all.'}
    nodes: {type: list, elements: str, description: 'For a global service, the IDs of the nodes of its tasks. Otherwise null.'}
  sample:
    - {service: train, tasks: 6, wants: {NVIDIA-GPU: 1}, able: null, nodes: null}
pending:
  description: Pending tasks, grouped by the reason. The largest group comes first.
  returned: success
  type: list
  elements: dict
  contains:
    service: {type: str, description: The service's name.}
    count: {type: int, description: The number of these tasks.}
    tasks: {type: list, elements: str, description: The IDs of these tasks.}
    node: {type: str, description: "The ID of the only node on which a task of a global service can run. Null for other services."}
    hostname: {type: str, description: The host name of that node.}
    state: {type: str, description: V(new) or V(pending).}
    since: {type: str, description: "When the first of these tasks entered this state, as RFC 3339, by the manager's clock."}
    age: {type: int, description: "Whole seconds since C(since), by the manager's clock. Null if the age is not known."}
    said: {type: str, description: "The scheduler's own message (the task's C(Status.Err), or C(Status.Message) if that is empty)."}
    wants: {type: dict, description: 'The generic resources that a task reserves, by kind.'}
    missing:
      description:
        - The reasons from constraints, platform, nodes that take no new tasks, generic resources, CPUs and memory.
        - Empty if none of these is the reason. Then the task is new, or the reason is a port, a plugin, a volume, or the limit of replicas on a node.
          RV(pending[].said) has the scheduler's reason. M(fleet.gpu_swarm.swarm_explain) checks every possible reason except cluster volumes.
      type: list
      elements: str
  sample:
    - {service: train, count: 2, tasks: [1pnkjcn108mjfj51ruz41jgsw, 6xbb1e6wcyi0gbmektrvxx6nx], node: null, hostname: null, state: pending,
       since: "2026-03-01T11:00:00.123456789Z", age: 20, said: no suitable node (insufficient resources on 3 nodes), wants: {NVIDIA-GPU: 2},
       missing: ["wants 2 NVIDIA-GPU; most free on one node: 1 (gpu-03); 3 in all"]}
allocation_findings:
  description:
    - The findings of each node's allocation check, as the last run of provision read them. C(docs/operate/allocation-check.md) explains their names.
      Findings about tasks that have ended since are excluded.
    - Each finding has C(name), C(node), C(hostname) and C(card). C(task), C(task_id) and C(service) identify the task whose process uses the card. If
      a task does not use its card, they identify this task. C(holder) and C(holder_id) identify another task to which the card is allocated. C(by)
      tells who uses the card. C(since) is the start of the finding, by the node's clock. C(read) is when the run read it.
  returned: success
  type: list
  elements: dict
  version_added: 0.3.0
classes:
  {type: list, elements: str, returned: success, version_added: 0.3.0, description: The definitions of node classes that labels of services contain.}
findings:
  description:
    - The problems that require action. There is one for each known issue in the ledger, and one for each name in RV(allocation_findings). Each
      problem is also a warning.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description:
        - The name in C(docs/fix/known-issues.md) (V(new-leader-claims-again), V(finished-jobs-count), V(variable-set-by-hand) or
          V(no-reservation-sees-all)), or the name in RV(allocation_findings).
      type: str
    text: {type: str, description: 'The problem, where it occurs (at most five names), and the remedy.'}
"""

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._ledger.read import read_ledger, swarm_of
from ..module_utils._swarm import manager_module
from ..module_utils._swarm.manager import connect
from ..module_utils._tasks import keep

OPTIONS = dict(keep.OPTION, ledger=dict(type="bool", default=True), prefix=dict(type="str", default="gpu-swarm."))


def run(params, check_mode):
    """Return the module's result."""
    manager = connect(params)
    return (
        read_ledger(manager, params["prefix"], keep_label=params["keep_label"])
        if params["ledger"]
        else {"changed": False, "swarm": swarm_of(manager)}
    )


def main():
    manager_module.main(run, OPTIONS)


if __name__ == "__main__":
    main()
