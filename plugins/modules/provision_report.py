#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: provision_report
short_description: Compares a fleet with what its manager shows, and prints it as a table (internal)
version_added: 0.1.0
description:
  - Compares what was decided for every host (C(gpu_node_assessed), C(gpu_node_applied)) with the manager's ledger, and
    prints a table with one line per host, and the command that goes on where some are not done.
  - The column C(advertised) shows what the manager shows of a node, and beside it what was decided where that differs; of a
    host in no swarm, what its daemon runs with.
  - Runs on the controller. Use it once in a play, with C(run_once).
options:
  steps:
    description: The RV(fleet.gpu_swarm.provision_plan#module:steps) of the plan.
    type: dict
    required: true
  ledger:
    description: What M(fleet.gpu_swarm.swarm_gpu_info) returned after the run's changes.
    type: dict
  unlabelled:
    description: Why the nodes could not be labelled, if so.
    type: str
    default: ""
  refused:
    description: >-
      What M(fleet.gpu_swarm.swarm_nodes) returned as RV(fleet.gpu_swarm.swarm_nodes#module:refused), of all its calls. The hosts of these nodes wait.
    type: list
    elements: dict
    default: []
    version_added: 0.2.0
  managers:
    description: With O(state=absent), the managers that answered when the run began. While one of them is still in the swarm, a ledger is
      needed to know what the manager shows.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
  state:
    description:
      - With V(absent), reports what was removed, and compares that with the ledger. Warns of the services for whose tasks no node
        that is left has room.
    type: str
    choices: [present, absent]
    default: present
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes.controller
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.internal
seealso:
  - module: fleet.gpu_swarm.provision_plan
  - module: fleet.gpu_swarm.swarm_gpu_info
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Print the state of the fleet
  fleet.gpu_swarm.provision_report:
    steps: "{{ plan.steps }}"
    ledger: "{{ ledger }}"
  run_once: true
"""

RETURN = r"""
states:
  description: By host, V(ready), with O(state=absent) V(deprovisioned), or what keeps it from that, in words.
  returned: always
  type: dict
  sample: {"n1": "ready", "n2": "waiting for container by-hand (for 3 h); paused"}
waiting:
  description: The hosts on which something has to end before they are changed.
  returned: always
  type: list
  elements: str
not_ready:
  description: The hosts that are not as they should be for another reason, also those whose turn did not come.
  returned: always
  type: list
  elements: str
"""
