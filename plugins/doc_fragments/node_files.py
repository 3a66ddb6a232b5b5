# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Where Docker, the toolkit and this collection have their files on a node."""

    DOCUMENTATION = r"""
options:
  daemon_config:
    description:
      - The daemon's configuration file. A symbolic link is followed and stays one.
      - Where this or O(runtime_config) names another file than when the node was last changed, the former file is restored in
        the same transaction, as V(absent) of O(state) does it. A file that was moved or copied to the new place as it was
        written takes its original along.
    type: path
    default: /etc/docker/daemon.json
  runtime_config:
    description: The NVIDIA Container Toolkit's configuration file.
    type: path
    default: /etc/nvidia-container-runtime/config.toml
  docker_socket:
    description:
      - The daemon's local socket. Where the daemon listens on another one, as C(hosts) in C(daemon.json) or C(-H) in its
        unit say, give that.
    type: path
    default: /var/run/docker.sock
  docker_unit:
    description: The daemon's systemd unit.
    type: str
    default: docker.service
  state_dir:
    description: Where the original files and the record of what was taken over are kept, mode 0700.
    type: path
    default: /var/lib/gpu-swarm
"""
