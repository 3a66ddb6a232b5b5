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
        The number of hosts with each outcome at the end of the run, such as V({done: 7, waiting: 1}). The update that releases the lease records
        these numbers and the time in the label C(gpu-swarm.last-run) of the swarm. If another run has the lease, nothing is recorded.
      - With an empty dictionary, the label is removed. Without this option, the label stays as it is.
    type: dict
    version_added: 0.3.0
  always:
    description: Whether runs that change nothing also record their O(outcomes). This option is recorded with the outcomes.
    type: bool
    default: false
    version_added: 0.3.0
  isolation:
    description:
      - The new content of the label C(gpu-swarm.isolation) of the swarm. The label describes the guards of the swarm's GPUs. The update that
        releases the lease writes the label, unless another run has the lease. See C(docs/operate/isolation.md).
      - If a suboption is not set, its part of the label stays as it is. If every level is V(off), the label is removed.
    type: dict
    version_added: 0.3.0
    suboptions:
      level:
        description: The level of the swarm.
        type: str
        choices: ["off", audit, reserved, exclusive]
      nodes:
        description: The levels of nodes, by node ID, as a run found or set them.
        type: dict
      listed:
        description: The IDs of the nodes whose entries are kept. Without this option, all entries are kept.
        type: list
        elements: str
      found:
        description:
          - The guards' counts of what V(reserved) would hide or refuse, by service. C(docs/operate/isolation.md) explains the C(names). C(last) is
            the time of the last count, in seconds since 1970. At the level V(audit), these counts are added to earlier counts.
          - A service without C(names) no longer exists, so its entry is removed.
          - The dictionary is empty if nothing was counted.
        type: dict
      whole:
        description: Whether O(isolation.found) was read on all nodes that have a guard.
        type: bool
        default: false
      allocation_findings:
        description:
          - The findings of allocation checks, by node ID, as in C(allocation_findings) of RV(fleet.gpu_swarm.gpu_node#module:health). These findings
            replace earlier findings on these nodes.
        type: dict
  queues:
    description:
      - The queues of the swarm, in the form of the setting C(gpu_swarm_queues). The update that releases the lease writes them into the label
        C(gpu-swarm.queues) of the swarm, unless another run has the lease.
      - With an empty dictionary, the label is removed. Without this option, the label stays as it is.
    type: dict
    version_added: 0.4.0
"""
