# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What a task sees of a node's GPUs."""

    DOCUMENTATION = r"""
options:
  isolation:
    description:
      - What a task of the swarm sees of this node's GPUs, by a guard in front of NVIDIA's runtime. See C(docs/ISOLATION.md). Give all nodes
        of a swarm the same level.
      - Without it, the node keeps the level that it has, V(off) where it has no guard.
      - With V(off), an image or a variable decides, and a service without a reservation may see every GPU. There is a guard only where slots or
        groups are advertised, and it does no more than to find the cards of these.
      - With V(audit), nothing is withheld, and RV(isolation) counts what V(reserved) would hide or refuse.
      - With V(reserved), a task sees the GPUs that swarm gave it, and a service is refused that sets a variable for others.
      - With V(exclusive), a task is refused as well whose GPU another task on this node still has.
      - The daemon takes this by a reload. With O(restart=never), nothing of it is changed, and slots and groups are an error where there is no guard.
    type: str
    choices: ["off", audit, reserved, exclusive]
    version_added: 0.3.0
  cuda_overhead_mib:
    description:
      - What CUDA takes of a card's memory for each process, in MiB, beside what a framework allocates. A task with a share of a card (V(slots) or
        V(vram) of O(advertise[].as)) finds its share in C(MAX_CONTAINER_MEMORY), in MiB, and in C(GPU_MEMORY_FRACTION) the share less this, as a
        fraction of its card. A share that is not larger is refused.
    type: int
    default: 300
    version_added: 0.3.0
  isolation_allow:
    description:
      - Services that see what their variables request, whatever O(isolation) is, such as an exporter of metrics. They have no hold.
      - Each is the name of a service, or C(label:KEY) or C(label:KEY=VALUE) for a label of its containers (C(--container-label), not
        C(--label)).
    type: list
    elements: str
    default: []
    version_added: 0.3.0
"""
