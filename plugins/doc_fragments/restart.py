# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What a restart of the daemon may stop, and how long the module waits before it."""

    DOCUMENTATION = r"""
options:
  when_busy:
    description:
      - What to do when a restart is needed while containers run on this node. A restart stops all of them.
      - With V(refuse), the module fails before it writes anything, and names the containers. It checks again just before the
        restart. If containers were started meanwhile, it fails too and restores the files.
      - With V(restart), the containers are stopped.
    type: str
    choices: [refuse, restart]
    default: refuse
  drain_timeout:
    description:
      - Before a restart, how long to wait until the tasks of a drained node have ended, in seconds.
      - Without a restart, and in check mode, the module does not wait.
      - With O(when_busy=refuse), containers that still run after this time prevent the restart.
    type: int
    default: 0
    version_added: 0.2.0
"""
