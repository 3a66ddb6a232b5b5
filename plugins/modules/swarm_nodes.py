#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_nodes
short_description: Sets labels, availability and role of many swarm nodes in one call
version_added: 0.1.0
description:
  - Sets labels, availability and role of any number of nodes. A node that differs from its entry gets one versioned update. The other nodes get no
    update.
  - The module checks all nodes before it changes the first. If one of them cannot be changed as requested, the module changes none.
  - The module changes and removes only labels that it set itself. It records their keys in a label of the node, by default C(gpu-swarm.labels).
    If someone else set a label to a different value, the module fails. If someone else set the label to the same value, the module does not record
    the label as its own.
  - If a changed label breaks the placement constraints of a task, swarm evicts the task at once. RV(evicted) names these tasks, also in check mode.
    Use O(nodes[].evict) to limit which tasks may be evicted.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.docker_client
  - fleet.gpu_swarm.keep_label
  - fleet.gpu_swarm.lease_end
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  nodes:
    description: The nodes to change. Other nodes stay as they are.
    type: list
    elements: dict
    required: true
    suboptions:
      id:
        description: The node's ID in the swarm. A host name is refused, because two nodes may have the same one.
        type: str
        required: true
      labels:
        description:
          - All labels that the node should have from this collection. An empty dictionary removes all recorded labels.
          - Without this option, labels stay as they are.
          - Values are strings. Booleans become V(true) or V(false), and numbers become text.
        type: dict
      availability:
        description:
          - V(active), V(pause) (no new tasks) or V(drain) (tasks are moved away).
          - V(former) restores the availability that O(nodes[].remember) recorded, and removes the record. Without a record, nothing changes. If
            someone has changed the availability since, the module only removes the record.
          - Without this option, the availability stays as it is.
        type: str
        choices: [active, pause, drain, former]
      remember:
        description:
          - Record the current availability in a label of the node, by default C(gpu-swarm.former-availability), in the same update that changes
            the availability. An existing record stays, unless someone has changed the availability since.
          - The module writes the time of the change, by the manager's clock, into another label of the node, by default C(gpu-swarm.paused-since).
        type: bool
        default: false
      by:
        description:
          - The program that pauses or drains the node, such as V(provision). With O(nodes[].remember), the module records it in a label of the node,
            by default C(gpu-swarm.paused-by).
        type: str
        version_added: 0.3.0
      paused_for:
        description:
          - The fault of the GPUs for which the node is paused, in the format of the engine label C(fleet.gpu-swarm.health).
          - With O(nodes[].remember), the module records the fault in a label of the node, by default C(gpu-swarm.paused-for). If the node is not
            active, its availability does not change.
          - With O(nodes[].availability=former), a node that is paused for a fault returns to service only if the recorded fault is the same as this
            one. If no fault is recorded, the node returns in any case.
        type: str
        version_added: 0.3.0
      over:
        description:
          - A fault that has been fixed, but that the node may still report. It has the same format as O(nodes[].paused_for), and is used with
            O(nodes[].availability=former).
          - If the node still reports the fault, the module records this, so that no manager pauses the node for the same fault again. If a manager
            has paused the node for the fault in the meantime, the node returns to service.
        type: str
        version_added: 0.3.0
      role:
        description:
          - V(manager) promotes the node, and V(worker) demotes it. The module does not check whether enough managers remain for a quorum. Check this
            before you demote a manager.
          - Without this option, the role stays as it is.
        type: str
        choices: [manager, worker]
        version_added: 0.2.0
      host:
        description:
          - The name of this node in the inventory. A label of the node, by default C(gpu-swarm.host), binds the node to one host of the inventory. If
            the node is bound to another host, the module fails. This protects against a compromised host that shows the ID of another node, because
            only managers can change labels of nodes.
          - To bind a node to another host, for example after you rename it, run C(docker node update --label-add gpu-swarm.host=NAME ID).
        type: str
        version_added: 0.2.0
      mark:
        description:
          - V(set) binds the node to O(nodes[].host), V(remove) removes this binding, and V(keep) leaves the binding as it is. The module changes the
            binding in the same update as everything else.
        type: str
        choices: [keep, set, remove]
        default: keep
        version_added: 0.2.0
      maintained:
        description:
          - The ID of a maintenance that is finished on this node. The module records it in a label of the node, by default C(gpu-swarm.maintained),
            in the same update as the other changes. The label keeps the latest ten IDs. O(nodes[].mark=remove) removes the label.
        type: str
        version_added: 0.3.0
      keep:
        description:
          - Prefixes of keys. Recorded labels with these prefixes stay as they are, even if O(nodes[].labels) does not list them.
          - Use this option if the values of these labels could not be computed this time.
        type: list
        elements: str
        default: []
      evict:
        description:
          - Which tasks this change of the node may evict.
          - With V(any), the change may evict any task. With V(none), it may evict no task.
          - With V(movable), the change may evict tasks that swarm starts again, elsewhere or on this node when it is back. It may not evict tasks
            that a label of their service (O(keep_label)) protects.
          - The module reads the tasks again before each update of the node. If the change would evict a task that it may not evict, the node is not
            changed, and RV(refused) names these tasks. If only the new labels would evict the tasks, only the labels stay as they are.
        type: str
        choices: [any, movable, none]
        default: any
        version_added: 0.2.0
      if_shown:
        description:
          - Generic resources as C(KIND=value), as in C(daemon.json). The module changes the node only if swarm shows the node as ready, with exactly
            these resources of these kinds.
          - The node must also have no finished job that would run again (an entry with C(clash) in
            RV(fleet.gpu_swarm.swarm_gpu_info#module:finished_jobs)). If a condition is not met, the node stays as it is, and RV(held_back) lists the
            node.
          - The module checks this once, before it changes the first node. This saves a call of M(fleet.gpu_swarm.swarm_gpu_info).
        type: list
        elements: str
        version_added: 0.3.0
  holder:
    description:
      - The holder that must have the lease of the swarm (M(fleet.gpu_swarm.swarm_lease)) at the time of each change. If another run has the lease by
        then, nothing more is changed. Use this option if the call may hang, since its caller may have continued in the meantime.
      - Without this option, the lease is not checked.
    type: str
    version_added: 0.2.0
  release:
    description:
      - The holder whose lease the module releases after it has changed all nodes. This saves a call of M(fleet.gpu_swarm.swarm_lease) with
        C(state=absent), O(outcomes), O(always) and O(isolation).
      - If RV(held_back) or RV(refused) lists a node, the module does not release the lease. RV(lease) shows whether the lease was released. If the
        release fails, the module does not fail, because the nodes have been changed by then.
    type: str
    version_added: 0.3.0
  prefix:
    description:
      - The prefix of the labels in which this module keeps its records. O(nodes[].labels) must not use it, except C(gpu-swarm.device.NAME),
        C(gpu-swarm.data-address) and C(gpu-swarm.data-interface).
    type: str
    default: gpu-swarm.
seealso:
  - module: fleet.gpu_swarm.swarm_gpu_info
  - module: community.docker.docker_node
"""

EXAMPLES = r"""
- name: Label the GPU nodes
  fleet.gpu_swarm.swarm_nodes:
    nodes:
      - id: i9pbrl1zyudukjfaj1z6lvqpf
        labels:
          gpu.model: NVIDIA-H100-80GB-HBM3
          gpu.count: 8
      - id: 8xyymi8zyrov0y4rqrwtoszf7
        labels:
          gpu.model: Tesla-T4
          gpu.count: 4
  delegate_to: manager-1
  run_once: true

- name: Pause a node during a repair
  fleet.gpu_swarm.swarm_nodes:
    nodes:
      - id: i9pbrl1zyudukjfaj1z6lvqpf
        availability: pause
        remember: true

- name: Return the node to service, in its former availability
  fleet.gpu_swarm.swarm_nodes:
    nodes:
      - id: i9pbrl1zyudukjfaj1z6lvqpf
        availability: former
"""

RETURN = r"""
nodes:
  description: The nodes of O(nodes), in the same order, without those in RV(held_back).
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: The node's ID in the swarm.
      type: str
    hostname:
      description: The node's host name.
      type: str
    changed:
      description: Whether the module changed the node. In check mode, whether it would.
      type: bool
    labels_before:
      description: All labels of the node before the change.
      type: dict
    labels_after:
      description: All labels of the node after the change.
      type: dict
    availability_before:
      description: The node's availability before the change.
      type: str
    availability:
      description: The node's availability after the change.
      type: str
    role_before:
      description: The node's role before the change.
      type: str
      version_added: 0.2.0
    role:
      description: The node's role after the change.
      type: str
      version_added: 0.2.0
evicted:
  description: The tasks that this change evicts, or would evict in check mode.
  returned: success
  type: list
  elements: dict
  contains:
    service:
      description: The service's name.
      type: str
    task:
      description: The task's ID.
      type: str
    slot:
      description: The number of the replica. Null for a global service.
      type: int
    node:
      description: The ID of the node that the task runs on.
      type: str
    hostname:
      description: The host name of that node.
      type: str
    reason:
      description:
        - V(constraint) if the node no longer meets a placement constraint of the task. V(drain) if the node is drained.
        - V(engine) if the leading manager has an old Docker Engine, before 23.0.2, or before 25.0.3 for discrete kinds. At each update of an active
          node, such a manager rejects one task that has a generic resource. It is not possible to predict which task.
      type: str
    constraint:
      description: The placement constraint that the node no longer meets. Null for other reasons.
      type: str
    deferred:
      description: Whether swarm evicts the task only when the node becomes active again. Until then, swarm does not enforce constraints.
      type: bool
    movable:
      description: Whether swarm starts another task instead, as in RV(fleet.gpu_swarm.swarm_gpu_info#module:nodes[].tasks[].movable).
      type: bool
      version_added: 0.2.0
    kept:
      description: As in RV(fleet.gpu_swarm.swarm_gpu_info#module:nodes[].tasks[].kept).
      type: str
      version_added: 0.3.0
    restarts_left:
      description: As in RV(fleet.gpu_swarm.swarm_gpu_info#module:nodes[].tasks[].restarts_left).
      type: int
      version_added: 0.2.0
  sample:
    - service: train
      task: oyl2ui5639bmnf3qq6mn5afae
      slot: 1
      node: i9pbrl1zyudukjfaj1z6lvqpf
      hostname: gpu-1
      reason: constraint
      constraint: node.labels.gpu.model==Tesla-T4
      deferred: false
      movable: true
      kept: null
      restarts_left: null
held_back:
  description: The nodes that stay as they are, because swarm does not yet show what O(nodes[].if_shown) requires.
  returned: success
  version_added: 0.3.0
  type: list
  elements: dict
  contains:
    id:
      description: The node's ID.
      type: str
    hostname:
      description: The node's host name.
      type: str
    reason:
      description: What swarm does not show yet, or which job would run again, as text.
      type: str
      sample: the manager shows 3 of 4 NVIDIA-GPU
lease:
  description: The result of M(fleet.gpu_swarm.swarm_lease) for the lease of O(release). Missing if the lease could not be released.
  returned: with O(release), if RV(held_back) and RV(refused) are empty
  version_added: 0.3.0
  type: dict
refused:
  description: The nodes that were not changed completely, or would not be in check mode, because O(nodes[].evict) protects their tasks.
  returned: success
  version_added: 0.2.0
  type: list
  elements: dict
  contains:
    id:
      description: The node's ID.
      type: str
    hostname:
      description: The node's host name.
      type: str
    tasks:
      description: The protected tasks that the change would have evicted, as in RV(evicted).
      type: list
      elements: dict
"""

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._node_spec import refused_changes
from ..module_utils._node_spec.write import write
from ..module_utils._swarm import manager_module
from ..module_utils._swarm.lease_options import LEASE_END_OPTIONS
from ..module_utils._tasks import keep

NODE_OPTIONS = dict(
    id=dict(type="str", required=True),
    labels=dict(type="dict"),
    availability=dict(type="str", choices=["active", "pause", "drain", "former"]),
    remember=dict(type="bool", default=False),
    role=dict(type="str", choices=["manager", "worker"]),
    keep=dict(type="list", elements="str", default=[]),
    host=dict(type="str"),
    mark=dict(type="str", choices=["keep", "set", "remove"], default="keep"),
    maintained=dict(type="str"),
    by=dict(type="str"),
    paused_for=dict(type="str"),
    over=dict(type="str"),
    evict=dict(type="str", choices=refused_changes.CHOICES, default=refused_changes.ANY),
    if_shown=dict(type="list", elements="str"),
)

OPTIONS = dict(
    nodes=dict(type="list", elements="dict", required=True, options=NODE_OPTIONS),
    holder=dict(type="str"),
    release=dict(type="str"),
    prefix=dict(type="str", default="gpu-swarm."),
    **keep.OPTION,
    **LEASE_END_OPTIONS,
)


def main():
    manager_module.main(write, OPTIONS)


if __name__ == "__main__":
    main()
