# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of a node's assessment for the role verify."""

    DOCUMENTATION = r"""
options:
  look_for_images:
    description: Whether RV(images) lists the images of the node that can test GPUs, in the form for M(fleet.gpu_swarm.swarm_gpu_verify).
      This needs one more call of the Docker API.
    type: bool
    default: false
    version_added: 0.2.0
  try_cuda:
    description:
      - Whether to test CUDA on this node with C(cuInit) of the driver's C(libcuda.so.1). The result is in RV(cuda). NVML
        can work although CUDA does not start.
      - Without persistence mode this wakes each GPU. A process that does not answer within O(nvml_timeout) is abandoned.
    type: bool
    default: false
    version_added: 0.3.0
"""
