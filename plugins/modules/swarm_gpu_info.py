#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_gpu_info
short_description: Which generic resources a swarm has, what is allocated, free and pending
version_added: 0.1.0
description:
  - Reads the ledger of a swarm from one of its managers, for each node and each kind of generic resource the total, which
    GPU is allocated to which task, and what is free; which tasks are pending and why.
  - Reports which GPUs are allocated to two tasks, what finished jobs still count for an old leader, and which services can see
    GPUs without reserving one. What needs action is also a warning.
  - Join tokens are neither read nor returned, nor are variables of services but those that show GPUs.
notes:
  - Resources are allocated to a task from its assignment to its end, also while it shuts down. What is free is what the scheduler allocates.
    The tasks of finished jobs never keep anything from it, with any release of Docker Engine; see RV(finished_jobs) for what they do.
  - Every task that the swarm remembers is read, one at a time, so the module needs little memory for a big swarm.
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
      - With V(false), only RV(swarm) is read and returned. That costs one short call, however big the
        swarm is, and fails like the whole where the daemon cannot be reached or is no manager.
    type: bool
    default: true
    version_added: 0.2.0
  prefix:
    description: What the keys of M(fleet.gpu_swarm.swarm_nodes)'s own records begin with.
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

- name: Show what is free
  ansible.builtin.debug:
    msg: "{{ ledger.kinds['NVIDIA-GPU'].schedulable }} of {{ ledger.kinds['NVIDIA-GPU'].total }} GPUs are free"

- name: Show what waits, and what for
  ansible.builtin.debug:
    msg: "{{ item.count }} × {{ item.service }}: {{ item.missing | default([item.said], true) | join('; ') }}"
  loop: "{{ ledger.pending }}"
  loop_control:
    label: "{{ item.service }}"

- name: Name the tasks that a restart of these nodes would stop for good
  ansible.builtin.debug:
    msg: "{{ ledger.nodes | map(attribute='tasks') | flatten | rejectattr('movable') | map(attribute='name') }}"
"""

RETURN = r"""
swarm:
  description: The swarm that answered.
  returned: success
  type: dict
  contains:
    id: {type: str, description: The swarm's id.}
    node_id: {type: str, description: The node id of the manager that answered.}
    state: {type: str, version_added: 0.2.0, description: 'The state of that node in its swarm, which is V(active).'}
    control_available: {type: bool, version_added: 0.2.0, description: 'Whether it is a manager, which is V(true).'}
    autolocked: {type: bool, description: 'Whether a manager is locked after each restart of its dockerd, until it is given the unlock key.'}
    lease:
      description: Who may change the swarm just now, or could until lately; see M(fleet.gpu_swarm.swarm_lease). Null if nobody.
      type: dict
      contains:
        holder: {type: str, description: Who has it.}
        since: {type: str, description: When it was acquired first. Null where that is not known.}
        expires_in: {type: int, description: Seconds until it ends; 0 or less if it has. Null if it does not end by itself.}
    isolation: {type: dict, description: 'What the label C(gpu-swarm.isolation) says, see M(fleet.gpu_swarm.swarm_lease).'}
    last_run: {type: dict, description: 'C(ended), C(hosts) and C(always) of M(fleet.gpu_swarm.swarm_lease); null if none is noted.'}
nodes:
  description: All nodes of the swarm, ordered by host name.
  returned: success
  type: list
  elements: dict
  contains:
    id: {type: str, description: The node's id in the swarm.}
    hostname: {type: str, description: The node's host name; two nodes may share one.}
    addr: {type: str, description: The node's address as the managers see it.}
    role: {type: str, description: V(manager) or V(worker).}
    leader: {type: bool, description: Whether the node leads the managers.}
    reachability: {type: str, description: 'How the other managers reach it, such as V(reachable); null for a worker.'}
    state: {type: str, description: 'V(ready), V(down), V(unknown) or V(disconnected).'}
    availability: {type: str, description: 'V(active), V(pause) or V(drain).'}
    former_availability: {type: str, description: The availability that M(fleet.gpu_swarm.swarm_nodes) noted before a change; null if none.}
    set_by_run:
      description:
        - Whether a run of this collection set the availability that the node has, and has not restored the former one yet. False where
          somebody has changed it since.
      type: bool
      version_added: 0.3.0
    set_at: {type: str, description: "When it did so, by the manager's clock, such as V(2026-03-01T09:30:00Z); else null."}
    set_by: {type: str, description: "Which playbook did so, such as V(maintain (runs driver.yml\\)); null where that is not known."}
    paused_for: {type: str, description: "The fault for which it is paused, as V(fault reason=mismatch); else null."}
    unchanged_for:
      description:
        - For how many seconds the manager has recorded no change of the node, by its clock; null where that is not known. So long at
          least it has had its state and availability.
      type: int
      version_added: 0.3.0
    message: {type: str, version_added: 0.3.0, description: "What the manager says of the node's state, such as V(heartbeat failure); mostly empty."}
    health:
      description:
        - What the node reports of its own GPUs by the label C(fleet.gpu-swarm.health) of its engine; null where it reports nothing.
        - A dictionary of C(state) (V(ok), V(warning), V(fault), V(unwatched) or V(unknown)), C(card) (the first one's UUID), C(pci_bus_id), C(slot),
          C(serial), C(cards), C(reason), C(xid), C(since), C(drift) (of its files), C(model) (without labels), C(returned) (since a pause), C(text).
      type: dict
      version_added: 0.3.0
      sample: {state: fault, card: null, cards: 1, reason: hang, xid: null, since: null, drift: false, model: null, returned: false, text: fault hang}
    engine_version: {type: str, description: Version of the node's Docker Engine.}
    labels: {type: dict, description: The node's labels.}
    resources:
      description:
        - The node's generic resources by kind. A kind that is allocated and that the node no longer advertises has a total of 0.
        - Each has C(type) (V(named) or V(discrete)), C(total), C(values) (names of a named kind), C(free) (names, or a
          count for a discrete kind) and C(held), a list with C(value) or C(amount), C(task_id), C(service), C(name),
          C(slot), C(state), C(desired_state) and C(since), which mean what they do in RV(nodes[].tasks).
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
        - The tasks of all services that are on the node, ordered by name, with and without GPUs. Also those that swarm has
          assigned to it and that have no container yet. Neither those that ended, nor those that wait (RV(pending)), nor
          containers of C(docker run).
      type: list
      elements: dict
      contains:
        id: {type: str, description: The task's id.}
        service: {type: str, description: 'The name of its service; the id if that was removed (C(removed)).'}
        name: {type: str, description: "Its name as C(docker service ps) has it, the service's name with the slot or the node's id."}
        state: {type: str, description: 'V(assigned), V(accepted), V(preparing), V(ready), V(starting) or V(running).'}
        since:
          description:
            - When it came into that state, as RFC 3339 with nanoseconds, by the clock of the node (of the manager for
              V(assigned)).
          type: str
        age: {type: int, description: "Whole seconds since then by the manager's clock (C(SystemTime) of C(GET /info)); null where not known."}
        movable:
          description:
            - Whether swarm starts another task when this one is stopped, elsewhere or, for a global service, when the node
              is back. False for tasks with the restart condition V(none), for those of replicated and global jobs, and for those
              of a service that was removed, which are about to end.
            - False too where the service limits the attempts (C(--restart-max-attempts)) and RV(nodes[].tasks[].restarts_left) is 0. A drain
              is an attempt, but for global services, whose tasks are made anew when the node is back.
          type: bool
        kept: {type: str, version_added: 0.3.0, description: 'The label of its service (O(keep_label)) that keeps it from being moved; else null.'}
        restarts_left:
          description:
            - How many times swarm would restart it, at least, where the service limits the attempts; null where it does not, and for global
              services. Counted from the tasks of the same slot and version of the service that the manager still lists.
            - Attempts older than the C(--restart-window) count no more. Swarm counts it back from the start of the present task, not from
              its end, so that this number does not grow while the task runs.
          type: int
          version_added: 0.2.0
        elsewhere:
          description:
            - Whether another node that takes new tasks meets the constraints of its service, is of the image's platform, and has as much in
              all as the service reserves. What is free there now does not count.
            - Null for global services, each of whose tasks belongs to a node, and where the service is gone.
          type: bool
          version_added: 0.2.0
        holding: {type: dict, description: 'What the scheduler allocated to it, by kind, a list of names or the amount of a discrete kind.'}
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
    - Sums over all nodes by kind. C(total), C(held), C(free), and C(schedulable), which is what is free on nodes that are
      ready and active.
  returned: success
  type: dict
  sample: {NVIDIA-GPU: {total: 2, held: 1, free: 1, schedulable: 1}}
pools:
  description:
    - Sums by kind over the nodes that are ready and active, which is what the scheduler can allocate. C(nodes) that advertise
      the kind, C(total), C(held), C(free), and C(most_free), which is the most that is free on one node. A task gets all it
      reserves on one node.
  returned: success
  type: dict
  sample: {NVIDIA-GPU: {nodes: 1, total: 2, held: 1, free: 1, most_free: 1}}
held_twice:
  description:
    - Named resources that are allocated to more live tasks than the node has of them. A new leader of the managers can cause that, since
      it counts the running tasks anew.
  returned: success
  type: list
  elements: dict
  contains:
    kind: {type: str, description: The kind.}
    value: {type: str, description: "The resource's name, such as a GPU's UUID, or those of a group with C(+) between."}
    node: {type: str, description: The node's id.}
    hostname: {type: str, description: The node's host name.}
    holders: {type: list, elements: dict, description: 'The tasks that have it, as in C(held) of RV(nodes[].resources).'}
finished_jobs:
  description:
    - What was allocated to ended tasks of replicated and global jobs, where the leader's Docker Engine is older than 29.6.0
      (moby#52652); else empty.
    - It is free for the scheduler, and so it is in RV(nodes[].resources). But at each update of an active node such a leader
      adds it to what is allocated to live tasks, and where that is more than the node has (C(clash)), it stops a running task, or
      rejects the ended one and runs its job again.
    - Each has besides, under the key C(values), the names of what was allocated to them, each once; null for a discrete kind.
  returned: success
  type: list
  elements: dict
  contains:
    service: {type: str, description: The job's name.}
    node: {type: str, description: The node's id.}
    hostname: {type: str, description: The node's host name.}
    kind: {type: str, description: The kind.}
    amount: {type: int, description: How much of it was allocated to the ended tasks together.}
    tasks: {type: int, description: How many ended tasks that are.}
    clash: {type: bool, description: Whether more is allocated with them than the node has.}
unreserved:
  description:
    - Services that can see GPUs without reserving a kind of GPUs by name, and that have a task on a node with GPUs or may be
      placed on one. By the variables E(NVIDIA_VISIBLE_DEVICES) and C(DOCKER_RESOURCE_<KIND>) in the service's own
      specification. A service that reserves is not listed, whatever it sets, since the scheduler's value wins.
    - The variable's value V(void), or an empty one, closes a service. V(none) does not quite, and is listed, since it still
      gives the driver's libraries and control devices.
    - B(What an image sets is not seen), since a service's specification does not have it. CUDA's images set
      E(NVIDIA_VISIBLE_DEVICES) to V(all), so a service that is not listed may still see all GPUs of its node.
    - A node has GPUs if it advertises some by name, has the label C(gpu.count) of M(fleet.gpu_swarm.gpu_node), or reports their model.
  returned: success
  type: list
  elements: dict
  contains:
    service: {type: str, description: The service's name.}
    variables: {type: dict, description: 'The variables that show it GPUs, with their values.'}
    reserves:
      description:
        - The kinds that it does reserve. A service that reserves a share of a GPU's memory needs the variable, so those
          with anything here are not warned of.
      type: list
      elements: str
    nodes:
      description: Host names of the nodes with GPUs that its tasks are on; empty where it may only come to one.
      type: list
      elements: str
  sample:
    - {service: notebook, variables: {NVIDIA_VISIBLE_DEVICES: all}, reserves: [], nodes: [gpu-01]}
on_gpu_nodes:
  description:
    - Services that reserve no generic resource and have tasks on nodes with GPUs, ordered by name. C(service), C(mode) (V(replicated), V(global),
      V(replicated-job) or V(global-job)), C(tasks) and C(nodes), how many there and on which, by host name.
    - C(dedicated) is whether any of these nodes has the label of O(fleet.gpu_swarm.gpu_node#module:dedicated), and C(command) keeps the service off
      nodes that have it. Null where it has the constraint already, for a global service, which is meant to be on each node, and for a job, which
      would run again.
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
    - The services of which tasks run or wait that reserve generic resources, each with what one task reserves. A service that is
      being updated may stand here twice.
    - A task that runs and that swarm does not start again, such as that of a job, is not counted. It needs no place when it has ended.
  returned: success
  type: list
  elements: dict
  contains:
    service: {type: str, description: The service's name.}
    tasks: {type: int, description: How many tasks run or wait.}
    wants: {type: dict, description: 'What each of them reserves, by kind.'}
    able:
      {type: list, elements: str, description: 'Ids of the nodes that meet its constraints and platform, whatever they advertise; null where all do.'}
    nodes: {type: list, elements: str, description: 'For a global service, the ids of the nodes that the tasks belong to; else null.'}
  sample:
    - {service: train, tasks: 6, wants: {NVIDIA-GPU: 1}, able: null, nodes: null}
pending:
  description: Tasks that no node was found for, grouped by what they wait for, the largest group first.
  returned: success
  type: list
  elements: dict
  contains:
    service: {type: str, description: The service's name.}
    count: {type: int, description: How many tasks wait.}
    tasks: {type: list, elements: str, description: Their ids.}
    node: {type: str, description: "The node's id, for a task of a global service, which can run there or nowhere; else null."}
    hostname: {type: str, description: That node's host name.}
    state: {type: str, description: V(new) or V(pending).}
    since: {type: str, description: "When the first of them came into that state, as RFC 3339, by the manager's clock."}
    age: {type: int, description: Whole seconds since then by the manager's clock; null where that is not known.}
    said: {type: str, description: "The scheduler's own words (C(Status.Err) of the task, else C(Status.Message))."}
    wants: {type: dict, description: 'What a task reserves of generic resources, by kind.'}
    missing:
      description:
        - What is missing, from constraints, platform, nodes that take no new tasks, generic resources, CPUs and memory.
        - Empty where none of these is in the way. Then the task has just come, or waits for what is not compared here, which
          are ports, plugins, volumes and the limit of replicas on a node. RV(pending[].said) has the scheduler's reason, and
          M(fleet.gpu_swarm.swarm_explain) compares all but cluster volumes.
      type: list
      elements: str
  sample:
    - {service: train, count: 2, tasks: [1pnkjcn108mjfj51ruz41jgsw, 6xbb1e6wcyi0gbmektrvxx6nx], node: null, hostname: null, state: pending,
       since: "2026-03-01T11:00:00.123456789Z", age: 20, said: no suitable node (insufficient resources on 3 nodes), wants: {NVIDIA-GPU: 2},
       missing: ["wants 2 NVIDIA-GPU; most free on one node: 1 (gpu-03); 3 in all"]}
allocation_findings:
  description:
    - What the allocation check of each node found when a run of provision last read it, by the names in C(docs/operate/allocation-check.md).
      Findings of tasks that have ended since are excluded.
    - Each has its C(name), C(node), C(hostname), C(card), the C(task), C(task_id) and C(service) whose process it is or which does not use it,
      C(holder) and C(holder_id) of another task that has the card, C(by), who uses it, C(since), by the node's clock, and when it was C(read).
  returned: success
  type: list
  elements: dict
  version_added: 0.3.0
classes:
  {type: list, elements: str, returned: success, version_added: 0.3.0, description: What services say of the classes of nodes that they need.}
findings:
  description:
    - What needs action, one for each known issue that the ledger shows, and for each name in RV(allocation_findings). Each is also a warning.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description:
        - The name in C(docs/fix/known-issues.md), V(new-leader-claims-again), V(finished-jobs-count), V(variable-set-by-hand) or
          V(no-reservation-sees-all); or the name in RV(allocation_findings).
      type: str
    text: {type: str, description: 'What goes wrong, who is concerned (at most five are named), and the remedy.'}
"""

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for what it does
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
