# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """How a module reads the GPUs of a node."""

    DOCUMENTATION = r"""
options:
  nvml_path:
    description:
      - The path of the NVML library C(libnvidia-ml.so.1), or of its directory.
      - If not given, the node's loader finds it.
    type: path
  nvml_timeout:
    description:
      - How long to wait for NVML, in seconds. A separate process reads NVML. After this time the module abandons the process, because a driver
        that waits for a broken GPU never answers.
      - Without persistence mode, the driver needs some seconds to start each GPU.
    type: int
    default: 60
    version_added: 0.2.0
  libraries:
    description:
      - Pure Python libraries that the node lacks, in a zip file as base64 text.
      - The action plugin of this module sets this option to copies from the controller. Do not set it yourself.
    type: str
"""
