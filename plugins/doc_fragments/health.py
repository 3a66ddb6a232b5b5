# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The service that watches the GPUs of a node between two runs."""

    DOCUMENTATION = r"""
options:
  health:
    description:
      - Whether a service on the node, C(gpu-swarm-health), watches its GPUs between two runs and reports faults to the swarm's
        managers, by the engine label C(fleet.gpu-swarm.health).
      - With V(false) the service and its label are removed. This also happens if nothing is advertised. If the daemon must not be
        restarted, they stay as they are.
    type: bool
    default: true
    version_added: 0.3.0
  health_report:
    description:
      - What that service reports while tasks of the swarm run on the node. Each report updates the node, and a leader with Docker Engine
        before 29.6.0 may then stop a task.
      - With V(all) it reports everything. With V(faults) it reports faults at once, and everything else only while no task runs there.
      - The default is the present setting of the service, and V(faults) for a new one. The playbooks choose it by the managers' releases of Docker.
    type: str
    choices: [all, faults]
    version_added: 0.3.0
  health_now:
    description:
      - Whether this call may report a repaired drift to the managers even while tasks of the swarm run on the node.
        That is an update of the node, see O(health_report). While no task runs, any reload reports the repair anyway.
      - The playbooks allow it if no manager would stop a task for it, and no finished job would run again.
    type: bool
    default: false
    version_added: 0.3.0
  health_faults:
    description:
      - NVIDIA's error numbers (XIDs) that make a GPU unusable until it is reset or the node reboots.
      - The default are XIDs for which NVIDIA's catalogue demands a reset, a reboot or more. A number in neither list gives a warning.
    type: list
    elements: int
    default: [46, 48, 62, 64, 74, 79, 95, 119, 120, 140, 155, 156]
    version_added: 0.3.0
  health_ignored:
    description:
      - XIDs that say nothing about the GPU.
      - The default are errors of applications, according to NVIDIA's device plugin for Kubernetes, and XIDs for which the catalogue demands
        nothing or only a restart of the application.
    type: list
    elements: int
    default: [13, 31, 43, 45, 63, 68, 92, 93, 94, 109, 121, 157]
    version_added: 0.3.0
  idle_after:
    description:
      - After how many seconds without a process an allocated GPU, slot or share is reported as not used, in C(allocation_findings) of RV(health).
      - V(0) disables this. Processes on a card that their task does not have are still reported.
    type: int
    default: 14400
    version_added: 0.3.0
  on_loss:
    description:
      - What happens to the node when a card is lost or unusable, or the driver cannot be read.
      - V(pause) pauses the node until that is fixed. V(report) leaves it in service. This module does neither; it sets the label
        C(fleet.gpu-swarm.on-loss) in RV(labels) if the value differs from the default.
      - V(shrink) pauses the node too. It is also your consent that the next run advertises the node without a lost or failed card, or without
        a MIG device of such a card. O(expect) overrides it. A card that no rule selects is still an error.
    type: str
    choices: [pause, report, shrink]
    default: pause
    version_added: 0.3.0
"""
