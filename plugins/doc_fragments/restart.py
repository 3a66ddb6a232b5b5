# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What a restart of the daemon may stop, and what it waits for."""

    DOCUMENTATION = r"""
options:
  when_busy:
    description:
      - What to do when a restart is needed while containers run on this node. A restart stops all of them.
      - With V(refuse), the module fails before it writes anything, and names the containers. It checks again directly before the
        restart; where containers were started by then it fails as well, and restores the files.
      - With V(restart), the containers are stopped.
    type: str
    choices: [refuse, restart]
    default: refuse
  drain_timeout:
    description:
      - How long to wait, in seconds, before a restart for the containers of swarm's services to end. For a node that was drained.
      - Where no restart is due, and in check mode, nothing is waited for.
      - With O(when_busy=refuse), what still runs after that keeps the daemon from being restarted.
    type: int
    default: 0
    version_added: 0.2.0
"""
