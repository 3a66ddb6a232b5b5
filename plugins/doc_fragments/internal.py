# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Common documentation of internal modules and filters."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
notes:
  - This plugin is internal. Only the playbooks and roles of this collection should use it. Its options and its result may change with any release.
"""

    # For plugins that need the variables of all hosts.
    VARIABLES = r"""
options:
  variables:
    description: The variable C(hostvars).
    type: dict
    required: true
"""

    # For modules that install something on a machine.
    MACHINE = r"""
options:
  docker_socket:
    description: The Docker daemon's socket.
    type: path
    default: /var/run/docker.sock
  state_dir:
    description: The directory of this collection's files on the machine.
    type: path
    default: /var/lib/gpu-swarm
"""

    # For plugins that need a manager's view of its swarm.
    LEDGER = r"""
options:
  ledger:
    description: The result of M(fleet.gpu_swarm.swarm_gpu_info).
    type: dict
"""
