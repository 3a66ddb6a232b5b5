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
  - Reserves free GPUs of nodes with one-shot services, one for each node and kind, each bound to its very node, and compares
    what swarm allocated to a task with what the task sees.
  - Only what is free is used. Nobody waits for anybody else's work, and nothing that runs is touched.
  - Services are made at once, 500 at most, awaited together, and removed whatever happens. What a run that was killed left behind is
    removed by the next one.
  - The tasks request all GPUs (E(NVIDIA_VISIBLE_DEVICES) is V(all)), as every CUDA image does, or for none where the task
    has all of the node's. What swarm allocated must win over that, so that a node that does not isolate cannot pass.
  - On a node with a guard (O(isolation)) two more are tried. One reserves nothing and sets the variables for all GPUs of the node; one, where a GPU
    is free, sets them beside a reservation of one. They must be refused, or see no more than was reserved.
  - Also checks whether the ledger adds up, so that the total of a kind is what is allocated plus what is free.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.docker_client
attributes:
  check_mode:
    support: full
    details:
      - Returns what it would test, and creates nothing.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - The swarm is afterwards as it was.
options:
  nodes:
    description: The ids of the nodes to test. If not given, all that advertise named GPUs or MIG devices.
    type: list
    elements: str
  sample:
    description:
      - How many of the nodes that have something free to test, as a number, a percentage such as V(10%), or V(all).
      - They are picked by chance, so that each run picks others.
    type: str
    default: all
  gpus:
    description:
      - How many GPUs of each kind to reserve on a node, or V(all) that are free. Where fewer are free, those.
      - Of slots, so many are tested, each by a task of its own. Those of a kind are replicas of one service.
      - V(auto) is one GPU of each kind, and of slots all that are free, at most 64 of each kind of a node.
    type: str
    default: auto
  image:
    description:
      - The image of the tasks. A node that lacks it pulls it.
      - It needs glibc. NVIDIA's runtime brings C(nvidia-smi) into a task, and not the C library that it is linked with.
      - If not given, each node is tested with an image that it has (O(images)). Nodes that have none pull
        V(nvidia/cuda:13.0.0-base-ubuntu24.04), as many as O(pulls) allows, and the others are not tested.
    type: str
  images:
    description:
      - By node id, the images that the node has and a test can be run in, the best first, as RV(fleet.gpu_swarm.gpu_node#module:images)
        returns them.
      - They are used by their ids, so that no registry is needed.
    type: dict
    default: {}
  pulls:
    description:
      - On how many of the nodes that have no such image one is pulled, as a number, a percentage such as V(10%), or V(all). V(0) pulls none.
      - They are picked by chance. A registry may limit how much is pulled, as Docker Hub does.
    type: str
    default: "3"
  isolation:
    description:
      - By node id, the level of isolation that its guard enforces, as C(level) of RV(fleet.gpu_swarm.gpu_node#module:isolation).
      - Nodes with V(reserved) or V(exclusive) are tested for that. With any other level nothing is enforced, and nothing is tested.
    type: dict
    default: {}
    version_added: 0.3.0
  memory:
    description:
      - By node id, what the guard has of kinds that are an amount of memory, as C(memory) of RV(fleet.gpu_swarm.gpu_node#module:isolation).
      - On nodes with V(reserved) or V(exclusive) a task reserves as much of each as it can use, and must see exactly the cards of that kind.
    type: dict
    default: {}
    version_added: 0.3.0
  command:
    description: What prints the full UUIDs of the GPUs and MIG devices that a task sees. It is run in place of the image's entrypoint.
    type: str
    default: nvidia-smi -L
  wait_timeout:
    description:
      - For how many seconds to wait for the tasks of a round, which includes the pull of the image.
      - A round has about 500 tasks, those of a node together. Tasks that need what others of their node have first are in rounds after these.
    type: int
    default: 300
  prefix:
    description: What the keys of the services' labels begin with.
    type: str
    default: gpu-swarm.
seealso:
  - module: fleet.gpu_swarm.swarm_gpu_info
  - module: fleet.gpu_swarm.report
"""

EXAMPLES = r"""
- name: Test one GPU of each kind on every GPU node
  fleet.gpu_swarm.swarm_gpu_verify:
  register: tested

- name: No task saw too much or too little
  ansible.builtin.assert:
    that: not tested.failed_checks

- name: Test everything that is free on three nodes, with an image of one's own registry
  fleet.gpu_swarm.swarm_gpu_verify:
    sample: 3
    gpus: all
    image: registry.example.org/cuda:13.0.0-base
"""

RETURN = r"""
checks:
  description: One for each node and kind, and one for each node of which nothing can be tested.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: The node's id in the swarm.
      type: str
    hostname:
      description: The node's host name; null if the swarm does not have it.
      type: str
    probe:
      description:
        - What is tested. V(allocated) is a task that must see the GPUs that are allocated to it and no others, V(memory) one that reserves memory and
          must see the cards of that kind, V(unreserved) one that sets variables for all GPUs and reserves none, V(beside) one that sets them beside
          its reservation.
      type: str
      version_added: 0.3.0
    level:
      description: The level of isolation that is tested; null with V(allocated).
      type: str
      version_added: 0.3.0
    variables:
      description: The variables that the task sets to V(all); none with V(allocated).
      type: list
      elements: str
      version_added: 0.3.0
    kind:
      description: The kind; null where the reason is the node's, and where no GPU is reserved.
      type: str
    count:
      description: How many GPUs of the kind the task reserves, of memory how many MiB.
      type: int
    others:
      description: How many more GPUs and MIG devices the node advertises, which the task must not see.
      type: int
    reserved:
      description: The GPUs that swarm allocated to the task, by their full UUIDs; of memory the cards of its kind.
      type: list
      elements: str
    seen:
      description: What the task saw.
      type: list
      elements: str
    image:
      description:
        - The image of the task, as C(name) and as C(reference), by which the service names it; null where nothing is tested.
        - C(from) is V(named) for the one of O(image), V(there) for one that the node had, V(pull) for one that it had to pull.
      type: dict
    state:
      description:
        - V(passed), V(failed), or V(untested) where nothing is free, the node takes no tasks, has no named GPUs, is not in
          the sample, or has no image that a test can be run in.
        - V(planned) in check mode.
      type: str
    verdict:
      description: Why, in words.
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
  description: Those of RV(checks) that failed.
  returned: success
  type: list
  elements: dict
ledger_problems:
  description: Where the ledger of a node does not add up, in words, by the node's id. Nodes without a problem are not in it.
  returned: success
  type: dict
  sample: {}
left_behind:
  description: How many services of runs that were killed were removed.
  returned: success
  type: int
"""

import random

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for what it does
from ..module_utils._ledger.ledger import ledger
from ..module_utils._ledger.listed import Listed
from ..module_utils._swarm import manager_module
from ..module_utils._swarm.manager import connect
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
    tests = verify_run.Tests(prefix, plan.argv(params["command"]), timeout_s)
    probe_images.refuse_name(params["image"])
    manager = connect(params)
    left_behind = 0 if check_mode else verify_run.sweep(manager, prefix)
    before = _read_ledger(manager, prefix)
    extent, guarded = plan.Extent(params["gpus"], params["sample"], random.sample), plan.Guarded(params["isolation"], params["memory"])
    checks = plan.checks(before["nodes"], params["nodes"], extent, guarded)
    checks = probe_images.assigned(checks, params["image"], params["images"], params["pulls"], random.sample)
    planned = [check for check in checks if check["state"] == plan.PLANNED]
    if planned and not check_mode:
        outcomes = verify_run.carry_out(manager, planned, before["nodes"], tests)
        rated = iter(verify_run.add_verdicts(outcomes, timeout_s, before["nodes"], lambda: _read_ledger(manager, prefix)["nodes"]))
        checks = [next(rated) if check["state"] == plan.PLANNED else check for check in checks]
    return {
        # What it creates it removes: the swarm is as it was, but for what other runs left behind.
        "changed": bool(left_behind),
        "checks": checks,
        "failed_checks": [check for check in checks if check["state"] == plan.FAILED],
        "ledger_problems": _problems(before, {check["node"] for check in checks}),
        "left_behind": left_behind,
    }


def _read_ledger(manager, prefix):
    return ledger(Listed(manager.nodes(), manager.tasks(), manager.services()), prefix)


def _problems(read, node_ids):
    found = {node["id"]: ledger_problems(node, read.get("held_twice", ())) for node in read["nodes"] if node["id"] in node_ids}
    return {node_id: problems for node_id, problems in found.items() if problems}


def main():
    manager_module.main(run, OPTIONS)


if __name__ == "__main__":
    main()
