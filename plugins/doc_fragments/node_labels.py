# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Which labels a node gets."""

    DOCUMENTATION = r"""
options:
  label_prefix:
    description:
      - What the keys of labels about GPUs in RV(labels) begin with, of at most 60 letters, digits, C(.), C(-) and C(_). Constraints of Docker Swarm
        can name no other keys.
      - Empty, for no such labels. The node's watcher then reports the model of the GPUs to the swarm's managers, see O(health).
    type: str
    default: gpu.
  label_cpu_prefix:
    description:
      - What the keys of labels about the CPU in RV(labels) begin with. Empty, for no such labels.
      - They are computed on the controller, with C(archspec). Where it is missing, they are left out with a warning.
    type: str
    default: cpu.
  label_memory:
    description:
      - Sizes in GB for which there is a label such as C(gpu.mem_ge_40=true) where every GPU has that much.
      - Sizes are as cards are sold. What ECC and the driver take away makes no difference.
    type: list
    elements: int
    default: [16, 24, 40, 80]
  label_compute_capability:
    description: Compute capabilities for which there is a label such as C(gpu.cc_ge_8_0=true) where every GPU has that or more.
    type: list
    elements: str
    default: ["7.0", "8.0", "9.0"]
  label_cuda:
    description: CUDA versions for which there is a label such as C(gpu.cuda_ge_12_4=true) where the driver supports that or more.
    type: list
    elements: str
    default: ["12.0", "12.4", "13.0"]
  dedicated:
    description:
      - Whether services without a reservation are to keep off this node. It then has the label C(gpu.dedicated=true), with O(label_prefix), which
        keeps off whichever service has the constraint C(node.labels.gpu.dedicated!=true). The label alone changes nothing for the others.
      - The node has it as long as it is to advertise GPUs by O(advertise), also while it has none. It needs a O(label_prefix).
    type: bool
    default: false
    version_added: 0.3.0
"""
