# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The labels of a node."""

    DOCUMENTATION = r"""
options:
  label_prefix:
    description:
      - The prefix of the keys of GPU labels in RV(labels), at most 60 letters, digits, C(.), C(-) and C(_). Constraints of Docker Swarm
        cannot use other characters.
      - With an empty prefix, the node gets no GPU labels. The node's watcher then reports the model of the GPUs to the swarm's managers, see
        O(health).
    type: str
    default: gpu.
  label_cpu_prefix:
    description:
      - The prefix of the keys of CPU labels in RV(labels). With an empty prefix, the node gets no CPU labels.
      - The controller computes the CPU labels with C(archspec). Without C(archspec), the node gets no CPU labels, and you get a warning.
    type: str
    default: cpu.
  label_memory:
    description:
      - Memory sizes in GB. The node gets a label such as C(gpu.mem_ge_40=true) for each size that every GPU has.
      - These are nominal sizes. Memory that ECC and the driver use does not matter.
    type: list
    elements: int
    default: [16, 24, 40, 80]
  label_compute_capability:
    description: Compute capabilities. The node gets a label such as C(gpu.cc_ge_8_0=true) for each capability that every GPU reaches.
    type: list
    elements: str
    default: ["7.0", "8.0", "9.0"]
  label_cuda:
    description: CUDA versions. The node gets a label such as C(gpu.cuda_ge_12_4=true) for each version that the driver supports.
    type: list
    elements: str
    default: ["12.0", "12.4", "13.0"]
  dedicated:
    description:
      - Whether services without a GPU reservation should stay off this node. The node gets the label C(gpu.dedicated=true), with O(label_prefix).
        Services with the constraint C(node.labels.gpu.dedicated!=true) avoid the node. The label alone does not affect other services.
      - The node keeps the label while O(advertise) has rules, even if the node has no GPU now. V(true) needs an O(label_prefix) that is not empty.
    type: bool
    default: false
    version_added: 0.3.0
  data_interface:
    description:
      - The interface, or one of its addresses, that the members of work over several nodes use to reach each other on the host's network.
      - The node gets the labels C(gpu-swarm.data-interface) and C(gpu-swarm.data-address). The first IPv4 address of the interface counts, else its
        first IPv6 address.
      - V(advertised) is the interface with the address that the node advertises in its swarm. Before the node joins, it is the only interface that is
        not Docker's.
      - Without this option, the node keeps the labels that it has.
    type: str
    version_added: 0.4.0
"""
