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
      - The NVML library, C(libnvidia-ml.so.1), or the directory that it is in.
      - If not given, the node's loader finds it.
    type: path
  nvml_timeout:
    description:
      - How long NVML may take, in seconds. It is read in a process of its own, which is abandoned after that, since a driver that waits
        for a GPU never answers.
      - Without persistence mode, a driver needs seconds for each GPU to start it.
    type: int
    default: 60
    version_added: 0.2.0
  libraries:
    description:
      - Pure Python libraries that the node lacks, in a zip file as base64 text.
      - The action plugin of this module fills it with copies from the controller. It is not meant to be given by hand.
    type: str
"""
