#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_gpu_verify
short_description: Proves on a live swarm that tasks see the GPUs allocated to them, and no others
version_added: 0.2.0
description:
  - Reserves free GPUs with one-shot services, one service for each node and resource kind. A constraint binds each service to its node.
  - Compares the GPUs that swarm allocated to a task with the GPUs that the task sees.
  - Uses only free GPUs. The module neither waits for other work nor changes running tasks.
  - Creates up to 500 services at once, waits for all of them, and always removes them. If a run was killed, the next run removes its services.
  - The tasks request all GPUs (E(NVIDIA_VISIBLE_DEVICES) is V(all)), as every CUDA image does. If a task has all GPUs of its node, it requests
    no GPU. The allocation must take precedence, so a node that does not isolate tasks cannot pass.
  - On a node with a guard (O(isolation)), the module starts two more tasks. The first task reserves nothing and requests all GPUs of the node. If a
    GPU is free, the second task reserves one GPU and requests all GPUs. The guard must refuse each task, or the task must see only what it reserved.
  - Also checks whether the ledger adds up. The total of a resource kind must be the sum of allocated and free resources.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.docker_client
attributes:
  check_mode:
    support: full
    details:
      - The module returns the checks that it would run, and creates nothing.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - The module leaves nothing in the swarm.
options:
  nodes:
    description:
      - The ids of the nodes to test. If not given, the module tests all nodes that advertise GPUs or MIG devices by name, and all GPU nodes with a
        guard.
    type: list
    elements: str
  sample:
    description:
      - How many of the nodes with free GPUs to test, as a number, a percentage such as V(10%), or V(all).
      - The nodes are chosen at random in each run.
    type: str
    default: all
  gpus:
    description:
      - How many free GPUs of each resource kind to reserve on a node, or V(all). If fewer GPUs are free, the module reserves all of them.
      - Slots (shares of a card) are each tested by a task of their own. Tasks for slots of one kind are replicas of one service.
      - V(auto) means one GPU of each kind of whole GPUs. For each kind of slots, it means all free slots, but at most 64 on a node.
    type: str
    default: auto
  image:
    description:
      - The image of the tasks. If a node does not have the image, the node pulls it.
      - The image must contain glibc. NVIDIA's runtime adds C(nvidia-smi) to a task, but not the C library that C(nvidia-smi) needs.
      - Without this option, each node is tested with an image that it already has (O(images)). If a node has no such image, it pulls
        V(nvidia/cuda:13.0.0-base-ubuntu24.04). O(pulls) limits how many nodes pull this image. The other nodes without an image are not tested.
    type: str
  images:
    description:
      - The images of each node that the tests can use, by node id, as RV(fleet.gpu_swarm.gpu_node#module:images) returns them. The best image comes
        first.
      - The services refer to an image by its id, so no registry is needed.
    type: dict
    default: {}
  pulls:
    description:
      - How many of the nodes without a suitable image pull one, as a number, a percentage such as V(10%), or V(all). With V(0), no node pulls.
      - The nodes are chosen at random. A registry may limit the number of pulls, as Docker Hub does.
    type: str
    default: "3"
  isolation:
    description:
      - The isolation level of each node, by node id, as C(level) of RV(fleet.gpu_swarm.gpu_node#module:isolation).
      - On nodes with the level V(reserved) or V(exclusive), the module tests the guard. Other levels enforce nothing.
    type: dict
    default: {}
    version_added: 0.3.0
  memory:
    description:
      - The resource kinds for GPU memory of each node, by node id, as C(memory) of RV(fleet.gpu_swarm.gpu_node#module:isolation).
      - On nodes with V(reserved) or V(exclusive), a task reserves the smallest usable amount of each kind. It must see exactly the cards of that
        kind.
    type: dict
    default: {}
    version_added: 0.3.0
  command:
    description: The command that prints the full UUIDs of the GPUs and MIG devices that a task sees. The command replaces the image's entrypoint.
    type: str
    default: nvidia-smi -L
  wait_timeout:
    description:
      - How long to wait for the tasks of a round, in seconds, including the pull of the image. At least 1.
      - A round has about 500 tasks. All tasks of a node are in one round. If a task needs a GPU that another task of that round uses, it is in a
        later round.
    type: int
    default: 300
  prefix:
    description: The prefix of the labels of the test services.
    type: str
    default: gpu-swarm.
seealso:
  - module: fleet.gpu_swarm.swarm_gpu_info
"""

EXAMPLES = r"""
- name: Test one GPU of each kind on every GPU node
  fleet.gpu_swarm.swarm_gpu_verify:
  register: tested

- name: Check that no task saw too many or too few GPUs
  ansible.builtin.assert:
    that: not tested.failed_checks

- name: Test everything that is free on three nodes, with an image of your own registry
  fleet.gpu_swarm.swarm_gpu_verify:
    sample: 3
    gpus: all
    image: registry.example.org/cuda:13.0.0-base
"""

RETURN = r"""
checks:
  description: One check for each node and resource kind, and one for each node that cannot be tested.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: The node's id in the swarm.
      type: str
    hostname:
      description: The node's host name. Null if the node is not in the swarm.
      type: str
    probe:
      description:
        - With V(allocated), the task must see the GPUs that are allocated to it, and no others.
        - With V(memory), the task reserves memory, and must see the cards of that kind.
        - With V(unreserved), the task reserves no GPU, and sets variables that request all GPUs.
        - With V(beside), the task reserves a GPU, and sets variables that request all GPUs.
      type: str
      version_added: 0.3.0
    level:
      description: The level of isolation that is tested. Null with V(allocated).
      type: str
      version_added: 0.3.0
    variables:
      description: The variables that the task sets to V(all). Empty with V(allocated) and V(memory).
      type: list
      elements: str
      version_added: 0.3.0
    kind:
      description: The resource kind. Null if no GPU is reserved, or if the node cannot be tested.
      type: str
    count:
      description: How many GPUs, or MiB of memory, the task reserves.
      type: int
    others:
      description: How many other GPUs and MIG devices the node advertises. The task must not see them.
      type: int
    reserved:
      description: The full UUIDs of the GPUs that swarm allocated to the task. If the task reserves memory, the cards of its resource kind.
      type: list
      elements: str
    seen:
      description: The GPUs that the task saw.
      type: list
      elements: str
    image:
      description:
        - The image of the task. C(name) is the name of the image, and C(reference) is how the service refers to it. Null if nothing is tested.
        - C(from) is V(named) for O(image), V(there) for an image that the node had, and V(pull) for an image that the node pulled.
      type: dict
    state:
      description:
        - V(passed), V(failed) or V(untested). In check mode, V(planned) for a test that would run.
        - A check is V(untested) if nothing is free, or if the node takes no tasks, advertises no GPUs by name, is not in the sample, or has no
          suitable image.
      type: str
    verdict:
      description: The reason for the state.
      type: str
  sample:
    - node: i9pbrl1zyudukjfaj1z6lvqpf
      hostname: gpu-1
      probe: allocated
      level: null
      variables: []
      kind: NVIDIA-GPU
      count: 1
      others: 7
      reserved: [GPU-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30]
      seen: [GPU-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30]
      image:
        name: nvidia/cuda:13.0.0-base-ubuntu24.04
        reference: sha256:5bda776c49d0b84680fe57343547d5d4508afe13654f4995a2ceff64623e6985
        from: there
      state: passed
      verdict: sees the GPUs allocated to it and no others
failed_checks:
  description: The entries of RV(checks) that failed.
  returned: success
  type: list
  elements: dict
ledger_problems:
  description: Inconsistencies in the ledger, as texts by node id. Nodes without a problem are not listed.
  returned: success
  type: dict
  sample: {}
left_behind:
  description: The number of removed test services of killed runs.
  returned: success
  type: int
"""

import random

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._ledger.ledger import ledger
from ..module_utils._ledger.listed import Listed
from ..module_utils._swarm import manager_module
from ..module_utils._swarm.manager import SwarmError, connect
from ..module_utils._verify import plan, probe_images
from ..module_utils._verify import probe_run as verify_run
from ..module_utils._verify.probe_results import ledger_problems

OPTIONS = dict(
    nodes=dict(type="list", elements="str"),
    sample=dict(type="str", default="all"),
    gpus=dict(type="str", default="auto"),
    image=dict(type="str"),
    images=dict(type="dict", default={}),
    pulls=dict(type="str", default="3"),
    isolation=dict(type="dict", default={}),
    memory=dict(type="dict", default={}),
    command=dict(type="str", default="nvidia-smi -L"),
    wait_timeout=dict(type="int", default=300),
    prefix=dict(type="str", default="gpu-swarm."),
)


def run(params, check_mode):
    """Return the module's result."""
    prefix, timeout_s = params["prefix"], params["wait_timeout"]
    if timeout_s < 1:
        raise SwarmError("wait_timeout is %d, but must be 1 or more: the seconds to wait for the test tasks. Nothing was started." % timeout_s)
    tests = verify_run.Tests(prefix, plan.argv(params["command"]), timeout_s)
    probe_images.refuse_name(params["image"])
    manager = connect(params)
    left_behind = 0 if check_mode else verify_run.sweep(manager, prefix)
    before = _read_ledger(manager, prefix)
    extent, guarded = plan.Extent(params["gpus"], params["sample"], random.sample), plan.Guarded(params["isolation"], params["memory"])
    checks = plan.checks(before["nodes"], params["nodes"], extent, guarded)
    checks = probe_images.assign_images(checks, params["image"], params["images"], params["pulls"], random.sample)
    planned = [check for check in checks if check["state"] == plan.PLANNED]
    if planned and not check_mode:
        outcomes = verify_run.carry_out(manager, planned, before["nodes"], tests)
        with_verdicts = iter(verify_run.add_verdicts(outcomes, timeout_s, before["nodes"], lambda: _read_ledger(manager, prefix)["nodes"]))
        checks = [next(with_verdicts) if check["state"] == plan.PLANNED else check for check in checks]
    return {
        # The module removes its own services, so only the removal of abandoned services is a change.
        "changed": bool(left_behind),
        "checks": checks,
        "failed_checks": [check for check in checks if check["state"] == plan.FAILED],
        "ledger_problems": _problems(before, {check["node"] for check in checks}),
        "left_behind": left_behind,
    }


def _read_ledger(manager, prefix):
    return ledger(Listed(manager.nodes(), manager.tasks(), manager.services()), prefix)


def _problems(swarm_ledger, node_ids):
    by_node = {node["id"]: ledger_problems(node, swarm_ledger.get("held_twice", ())) for node in swarm_ledger["nodes"] if node["id"] in node_ids}
    return {node_id: problems for node_id, problems in by_node.items() if problems}


def main():
    manager_module.main(run, OPTIONS)


if __name__ == "__main__":
    main()
