# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The paths of Docker, the toolkit and this collection on a node."""

    DOCUMENTATION = r"""
options:
  daemon_config:
    description:
      - The daemon's configuration file. If the path is a symbolic link, the module changes the target and keeps the link.
      - If you have changed this option or O(runtime_config) since the last change of the node, the module also restores the file at the former path,
        as with V(absent) of O(state). If you moved or copied the written file unchanged to the new path, its recorded original now belongs to the
        new path.
    type: path
    default: /etc/docker/daemon.json
  runtime_config:
    description: The NVIDIA Container Toolkit's configuration file.
    type: path
    default: /etc/nvidia-container-runtime/config.toml
  docker_socket:
    description:
      - The daemon's local socket. Set this option if the daemon listens on another socket, because of C(hosts) in C(daemon.json) or C(-H) in the
        daemon's unit.
    type: path
    default: /var/run/docker.sock
  docker_unit:
    description: The daemon's systemd unit.
    type: str
    default: docker.service
  state_dir:
    description: The directory for original files and the record of changes, with mode 0700.
    type: path
    default: /var/lib/gpu-swarm
"""
