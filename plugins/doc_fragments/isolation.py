# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Which GPUs of a node a task can see."""

    DOCUMENTATION = r"""
options:
  isolation:
    description:
      - Which GPUs of this node a task can see. A guard in front of NVIDIA's runtime enforces this. See C(docs/how/isolation.md). Use the same level
        on all nodes of a swarm.
      - Without this option, the node keeps its level. The level of a node without a guard is V(off).
      - With V(off), the image or its variables decide, and a service without a reservation may see every GPU. The node has a guard only if it
        advertises slots or groups, or allows O(devices). This guard only translates slots and groups to cards, and gives these devices.
      - With V(audit), nothing is hidden, but RV(isolation) counts what V(reserved) would hide or refuse.
      - With V(reserved), a task sees only the GPUs that swarm allocated to it. A service that requests other GPUs by a variable is refused.
      - With V(exclusive), a task is also refused while another task on this node still has its GPU.
      - The daemon applies the level with a reload. With O(restart=never), nothing is changed. Slots and groups are then an error if the node has no
        guard.
    type: str
    choices: ["off", audit, reserved, exclusive]
    version_added: 0.3.0
  cuda_overhead_mib:
    description:
      - How much memory CUDA uses for each process, in MiB, besides the memory that a framework allocates.
      - A task with a share of a card (V(slots) or V(vram) of O(advertise[].as)) gets two variables. C(MAX_CONTAINER_MEMORY) is the share in MiB.
        C(GPU_MEMORY_FRACTION) is the share without CUDA's memory, as a fraction of the card. If the share is not larger than CUDA's memory, the
        task is refused.
    type: int
    default: 300
    version_added: 0.3.0
  isolation_allow:
    description:
      - Services, such as a metrics exporter, that may see all GPUs that their variables request. This applies at every level of O(isolation).
      - Write the name of a service, or C(label:KEY) or C(label:KEY=VALUE) for a label of its containers (C(--container-label), not
        C(--label)).
    type: list
    elements: str
    default: []
    version_added: 0.3.0
  devices:
    description:
      - Devices, other than GPUs, that a service may ask for by name. Each name has a list of paths below C(/dev), which may contain wildcards. A
        service asks with the variable C(GPU_SWARM_DEVICES) in its own environment, such as V(rdma,fuse). See C(docs/run/devices.md).
      - The guard gives the character devices that match when a container starts. It never gives GPUs, VFIO devices, the kernel's memory or log.
      - If a name is allowed, a node with GPUs has a guard at every level of O(isolation). At V(off), this guard hides no GPU.
      - A name has at most 32 of the characters a-z, 0-9, C(_) and C(-), and begins with a letter or a digit. At most 32 names have 32 paths each. A
        name may match at most 256 devices.
      - With O(restart=never), nothing is changed.
    type: dict
    default: {}
    version_added: 0.4.0
"""
