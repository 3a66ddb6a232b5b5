# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What watches the GPUs of a node between two runs."""

    DOCUMENTATION = r"""
options:
  health:
    description:
      - Whether a service on the node, C(gpu-swarm-health), watches its GPUs between two runs and reports what is wrong to the swarm's
        managers, by the engine label C(fleet.gpu-swarm.health).
      - With V(false) the service and its label are removed, as they are where nothing is advertised. Where the daemon is not to be
        restarted, they are left as they are.
    type: bool
    default: true
    version_added: 0.3.0
  health_report:
    description:
      - What that service reports while tasks of the swarm run on the node. Each report is an update of the node, for which a leader of Docker Engine
        before 29.6.0 may stop one of them.
      - With V(all) everything. With V(faults) a fault at once, and all else only while no task runs there.
      - The default is what it reports so far, and V(faults) where it is new. The playbooks decide it by the releases of the swarm's managers.
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
      - NVIDIA's numbers of errors (XIDs) that make a GPU unfit for work until it is reset or the node reboots.
      - The default are those for which NVIDIA's catalogue has a reset, a reboot or worse. A number in no list is a warning.
    type: list
    elements: int
    default: [46, 48, 62, 64, 74, 79, 95, 119, 120, 140, 155, 156]
    version_added: 0.3.0
  health_ignored:
    description:
      - Those that say nothing about the GPU.
      - The default are those of applications, as NVIDIA's device plugin for Kubernetes has them, and those for which the catalogue has
        nothing to do or a restart of the application.
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
      - What becomes of the node when a card is lost, or is unfit for work, or the driver cannot be read.
      - V(pause), it takes no new tasks until that is fixed. V(report), it is reported and the node stays in service. Neither is done by this
        module; the label RV(labels) C(fleet.gpu-swarm.on-loss) has what differs from the default.
      - V(shrink) is paused as well, and is consent to advertise the node without a card that is lost or failed, and without a MIG device of
        one, the next time that this is applied. O(expect) goes before it, and rules that forget a card are an error as before.
    type: str
    choices: [pause, report, shrink]
    default: pause
    version_added: 0.3.0
"""
