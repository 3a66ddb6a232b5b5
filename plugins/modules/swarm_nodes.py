#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_nodes
short_description: Labels, availability and role of many swarm nodes in one call
version_added: 0.1.0
description:
  - Brings labels, availability and role of any number of nodes to what is wanted, with one versioned update for each node that
    differs and none for the others.
  - All nodes are checked before the first is changed. If any of them cannot be brought to what is wanted, none is changed.
  - Only labels that this module set itself are changed or removed. Their keys are recorded in a label of the node, by
    default C(gpu-swarm.labels). A label of someone else with another value than the wanted one is an error; with the
    wanted value it is left alone and stays someone else's.
  - A changed label makes swarm evict at once the tasks whose placement constraints are no longer met. RV(evicted) names them,
    in check mode before anything happens. O(nodes[].evict) limits what it may evict.
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
    description: What is wanted of which node. Nodes that are not listed are left alone.
    type: list
    elements: dict
    required: true
    suboptions:
      id:
        description: The node's id in the swarm, never its host name, since two nodes may share one.
        type: str
        required: true
      labels:
        description:
          - The labels that the node should have from this collection, all of them. An empty dictionary removes all that it recorded.
          - If not given, labels are not touched.
          - Values are strings; booleans become V(true) or V(false), numbers their text.
        type: dict
      availability:
        description:
          - V(active), V(pause) (no new tasks) or V(drain) (tasks are moved away).
          - V(former) restores the availability that O(nodes[].remember) noted and removes the note; without a note
            nothing changes, and where somebody has changed the availability since, only the note is removed.
          - If not given, the availability is not touched.
        type: str
        choices: [active, pause, drain, former]
      remember:
        description:
          - Note the present availability in a label of the node, by default C(gpu-swarm.former-availability), in the same
            update that changes it. A note that is there already is kept, unless somebody has changed the availability since.
          - When that was, by the manager's clock, is noted beside it, by default in the label C(gpu-swarm.paused-since).
        type: bool
        default: false
      by:
        description:
          - What pauses or drains the node, in words, such as V(provision). With O(nodes[].remember), it is noted beside the former availability, by
            default in the label C(gpu-swarm.paused-by).
        type: str
        version_added: 0.3.0
      paused_for:
        description:
          - The fault of its GPUs for which the node is paused, in the words of its engine label C(fleet.gpu-swarm.health).
          - With O(nodes[].remember), it is noted in a label of the node, by default C(gpu-swarm.paused-for). Nothing changes unless the node is
            active.
          - With O(nodes[].availability=former), a node that is paused for a fault returns to service only where this is that fault. Without a
            note it returns in any case.
        type: str
        version_added: 0.3.0
      over:
        description:
          - With O(nodes[].availability=former), a fault that the node may report although it is over, in the same words. Where the node reports it
            still, that is noted as for O(nodes[].paused_for), so that no manager pauses the node for it. A node that was paused for it meanwhile
            returns to service.
        type: str
        version_added: 0.3.0
      role:
        description:
          - V(manager) promotes, V(worker) demotes. Whether enough managers are left for a quorum is the caller's to know.
          - If not given, the role is not touched.
        type: str
        choices: [manager, worker]
        version_added: 0.2.0
      host:
        description:
          - The host of the inventory that this node is. A node that a manager has bound to another host, by a label of the node, by default
            C(gpu-swarm.host), is refused. Only managers can change labels of nodes, while a host that somebody controls can show any id.
          - To bind a node to another host, as after a renaming, run C(docker node update --label-add gpu-swarm.host=NAME ID).
        type: str
        version_added: 0.2.0
      mark:
        description:
          - V(set) binds the node to O(nodes[].host), V(remove) ends that, both in the same update as the rest. V(keep) leaves it.
        type: str
        choices: [keep, set, remove]
        default: keep
        version_added: 0.2.0
      maintained:
        description:
          - The id of a maintenance that is finished on this node. It is noted in a label of the node, by default C(gpu-swarm.maintained), in the
            same update as the rest. The latest ten are kept; O(nodes[].mark=remove) removes them.
        type: str
        version_added: 0.3.0
      keep:
        description:
          - What the keys of labels begin with that stay as they are although O(nodes[].labels) does not name them.
          - For recorded labels whose values could not be computed this time.
        type: list
        elements: str
        default: []
      evict:
        description:
          - Which tasks this change of the node may evict. V(any); V(movable), only those that swarm starts again elsewhere, or on this
            node when it is back, and that no label of their service keeps (O(keep_label)); or V(none).
          - It is judged by the tasks that are there when the node is written, each time that it is. What would evict any other task is
            not written, and RV(refused) names them. If it is the labels alone that would, they stay as they are, and
            O(nodes[].availability) and O(nodes[].role) are brought to what is wanted.
        type: str
        choices: [any, movable, none]
        default: any
        version_added: 0.2.0
      if_shown:
        description:
          - Generic resources as C(KIND=value), as in C(daemon.json). The node is written only where swarm shows it ready and, of these kinds, these
            resources and no others, and where no finished job would run again for it (those of
            RV(fleet.gpu_swarm.swarm_gpu_info#module:finished_jobs) that clash). Else it is left as it is, and RV(held_back) names it.
          - It is judged once, before the first node is written. It saves a call of M(fleet.gpu_swarm.swarm_gpu_info).
        type: list
        elements: str
        version_added: 0.3.0
  holder:
    description:
      - Nothing is written unless this holder has the lease of the swarm (M(fleet.gpu_swarm.swarm_lease)) at that moment. For a call that may
        hang, and whose caller may have gone on without it.
      - If not given, the lease is not checked.
    type: str
    version_added: 0.2.0
  release:
    description:
      - The holder whose lease is released when all nodes are written, as M(fleet.gpu_swarm.swarm_lease) does it with C(state=absent), O(outcomes),
        O(always) and O(isolation). It saves a call of that module.
      - Where RV(held_back) or RV(refused) names a node, the lease stays as it is. Whether it was released is in RV(lease), and is no reason
        to fail, since the nodes are written by then.
    type: str
    version_added: 0.3.0
  prefix:
    description: What the keys of this module's own records begin with. Wanted labels may not begin with it.
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

- name: Pause a node while it is worked on
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
  description: The nodes of O(nodes), in that order, without those of RV(held_back).
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: The node's id in the swarm.
      type: str
    hostname:
      description: The node's host name.
      type: str
    changed:
      description: Whether the node differed from what is wanted.
      type: bool
    labels_before:
      description: All labels of the node before.
      type: dict
    labels_after:
      description: All labels of the node after.
      type: dict
    availability_before:
      description: The node's availability before.
      type: str
    availability:
      description: The node's availability after.
      type: str
    role_before:
      description: The node's role before.
      type: str
      version_added: 0.2.0
    role:
      description: The node's role after.
      type: str
      version_added: 0.2.0
evicted:
  description: The tasks that lose their place through this change; in check mode those that would.
  returned: success
  type: list
  elements: dict
  contains:
    service:
      description: The service's name.
      type: str
    task:
      description: The task's id.
      type: str
    slot:
      description: Which replica the task is; null for a global service.
      type: int
    node:
      description: The id of the node that it runs on.
      type: str
    hostname:
      description: The host name of that node.
      type: str
    reason:
      description:
        - V(constraint) if the task's placement constraint is no longer met, V(drain) if the node is drained.
        - V(engine) if the task has a generic resource allocated and the leading manager's Docker Engine (before 23.0.2, for counted
          kinds before 25.0.3) rejects one such task of an active node whenever the node is updated. Which one of them is
          not known beforehand.
      type: str
    constraint:
      description: The placement constraint that is no longer met; null for other reasons.
      type: str
    deferred:
      description: Whether this happens only when the node becomes active again, since swarm enforces no constraints before.
      type: bool
    movable:
      description: Whether swarm starts another task in its place, as in RV(fleet.gpu_swarm.swarm_gpu_info#module:nodes[].tasks[].movable).
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
  description: The nodes that are left as they are since swarm does not show yet what O(nodes[].if_shown) wants.
  returned: success
  version_added: 0.3.0
  type: list
  elements: dict
  contains:
    id:
      description: The node's id.
      type: str
    hostname:
      description: The node's host name.
      type: str
    reason:
      description: What is not shown, or which job would run again, in words.
      type: str
      sample: the manager shows 3 of 4 NVIDIA-GPU
lease:
  description: What M(fleet.gpu_swarm.swarm_lease) returns of the lease that O(release) names. Not returned where it could not be released.
  returned: with O(release), where RV(held_back) and RV(refused) are empty
  version_added: 0.3.0
  type: dict
refused:
  description: The nodes of which not all was written, or would be, for the tasks that O(nodes[].evict) protects.
  returned: success
  version_added: 0.2.0
  type: list
  elements: dict
  contains:
    id:
      description: The node's id.
      type: str
    hostname:
      description: The node's host name.
      type: str
    tasks:
      description: The tasks that would have been evicted and may not be, as in RV(evicted).
      type: list
      elements: dict
"""

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for what it does
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
