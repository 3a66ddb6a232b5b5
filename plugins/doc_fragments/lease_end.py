# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  outcomes:
    description:
      - >-
        Where the lease is released, what became of the run, which is how many hosts came to which end, such as V({done: 7, waiting: 1}). It is
        kept with the time in the label C(gpu-swarm.last-run) of the swarm, in the same update that releases the lease; where another run has the
        lease, it is not. Empty removes that label with the lease.
      - Without this option the label stays as it is.
    type: dict
    version_added: 0.3.0
  always:
    description: Kept beside O(outcomes), it says whether runs that find nothing to change note that as well.
    type: bool
    default: false
    version_added: 0.3.0
  isolation:
    description:
      - What the label C(gpu-swarm.isolation) of the swarm is to say of the guards of its GPUs, in the same update. It is written where this run has
        the lease or, where that is released, nobody has it. See C(docs/operate/isolation.md).
      - What is not given stays. Where every level is V(off), the label is removed.
    type: dict
    version_added: 0.3.0
    suboptions:
      level:
        description: The level of the swarm.
        type: str
        choices: ["off", audit, reserved, exclusive]
      nodes:
        description: The levels of nodes by their ids, as a run found or made them.
        type: dict
      listed:
        description: The ids of the nodes of which anything is kept. Without it, of all.
        type: list
        elements: str
      found:
        description:
          - What guards counted that V(reserved) would hide or refuse, by service. C(names) are those in C(docs/operate/isolation.md). C(last) is when
            it was counted last, in seconds since 1970. It is kept at the level V(audit), with that of before.
          - A service without C(names) exists no more, and nothing of it is kept.
          - Empty where nothing was counted.
        type: dict
      whole:
        description: Whether O(isolation.found) was read on all nodes that have a guard.
        type: bool
        default: false
      allocation_findings:
        description:
          - What the allocation check of nodes found, by the ids of the nodes, as C(allocation_findings) of
            RV(fleet.gpu_swarm.gpu_node#module:health). It replaces the findings that were known of these nodes.
        type: dict
"""
