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
      - Whether the service C(gpu-swarm-health) watches the node's GPUs between two runs. The service reports faults to the swarm's managers with
        the engine label C(fleet.gpu-swarm.health).
      - With V(false), the service and its label are removed. The same happens if the node advertises nothing. If the daemon must not be restarted,
        the service and its label are not changed.
    type: bool
    default: true
    version_added: 0.3.0
  health_report:
    description:
      - What the service C(gpu-swarm-health) reports while tasks of the swarm run on the node. Each report updates the node, and a leader with
        Docker Engine before 29.6.0 may then stop a task.
      - With V(all), the service reports everything. With V(faults), it reports faults at once, and everything else only while no task runs on the
        node.
      - The default is the present setting of the service, or V(faults) for a new service. The playbooks set this option from the managers'
        releases of Docker.
    type: str
    choices: [all, faults]
    version_added: 0.3.0
  health_now:
    description:
      - Whether this call may report a repaired drift to the managers even while tasks of the swarm run on the node. The report is an update of the
        node, see O(health_report). While no task runs, every reload reports the repair, whatever this option says.
      - The playbooks set this option if no manager would stop a task because of the update, and no finished job would run again.
    type: bool
    default: false
    version_added: 0.3.0
  health_faults:
    description:
      - NVIDIA's error numbers (XIDs) that make a GPU unusable until it is reset or the node reboots.
      - By default, these are the XIDs for which NVIDIA's catalogue demands a reset, a reboot or more. An XID that is neither here nor in
        O(health_ignored) causes a warning.
    type: list
    elements: int
    default: [46, 48, 62, 64, 74, 79, 95, 119, 120, 140, 155, 156]
    version_added: 0.3.0
  health_ignored:
    description:
      - XIDs that say nothing about the GPU.
      - By default, these are the errors that NVIDIA's device plugin for Kubernetes attributes to applications, and the XIDs for which NVIDIA's
        catalogue demands nothing or only a restart of the application.
    type: list
    elements: int
    default: [13, 31, 43, 45, 63, 68, 92, 93, 94, 109, 121, 157]
    version_added: 0.3.0
  idle_after:
    description:
      - An allocated GPU, slot or share without a process for this many seconds is reported as not used, in C(allocation_findings) of RV(health).
      - V(0) disables this report. A process on a card that is not allocated to its task is still reported.
    type: int
    default: 14400
    version_added: 0.3.0
  textfile:
    description:
      - The directory of node_exporter's textfile collector on the node. The service writes there what the cards are doing, to the file
        C(gpu-swarm-cards.prom), each time it reads them. The label C(UUID) is the same as in dcgm-exporter.
      - If this is not set, there is no such file. The directory must exist, and must not be below V(/tmp) or V(/var/tmp).
      - systemd lets the service write only to directories that its unit names, and this module never makes systemd read a changed unit,
        because running containers could lose their GPUs. So on a node that already has the service, a new directory takes effect when
        the node reboots.
    type: path
    version_added: 0.3.0
  on_loss:
    description:
      - What happens to the node when a card is lost or unusable, or the driver cannot be read.
      - V(pause) pauses the node until the card and the driver work again. V(report) leaves the node in service. This module itself pauses no node.
        If the value differs from the default, the module adds the label C(fleet.gpu-swarm.on-loss) to RV(labels).
      - V(shrink) pauses the node too. You also consent that the next run advertises the node without a lost or failed card, or without a MIG device
        of such a card. O(expect) overrides this consent. A card that no rule selects is still an error.
    type: str
    choices: [pause, report, shrink]
    default: pause
    version_added: 0.3.0
"""
