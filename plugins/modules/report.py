#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Prints the table at the end of a playbook, with the outcome of each host (internal)
version_added: 0.3.0
description:
  - Compares hosts with the manager's view of the swarm. Prints a table and a line with the outcome. If hosts are not done, it also prints the command
    to continue.
  - Runs on the controller. Use it once in a play, with C(run_once).
options:
  of:
    description:
      - With V(provision), each host is compared with its decision (C(gpu_node_assessed), C(gpu_node_applied)). The column C(advertised)
        shows the resources of the node as the manager sees them, and the decision if it differs. If a host is in no swarm, the column shows the
        resources of the host's daemon.
      - With V(deprovision), the table shows the removed parts. A warning names services whose tasks do not fit on any remaining node.
      - With V(status), the table shows nodes, GPUs and services, or the reason why one service is pending.
      - With V(verify), GPUs, files and daemon of each host (C(gpu_node_assessed)) are compared with the resources and labels in the manager's view,
        and with the result of M(fleet.gpu_swarm.swarm_gpu_verify).
    type: str
    choices: [provision, deprovision, status, verify]
    required: true
  ledger:
    description:
      - The result of M(fleet.gpu_swarm.swarm_gpu_info), after the changes of a run. For V(status), the result of M(fleet.gpu_swarm.swarm_explain)
        on the first manager that answered.
      - Required with O(of=status) and O(of=verify).
    type: dict
  steps:
    description: The RV(fleet.gpu_swarm.provision_plan#module:steps) of the plan. Required with O(of=provision) and O(of=deprovision).
    type: dict
  unlabelled:
    description: Why the nodes could not be labelled, for O(of=provision). Empty if there was no such problem.
    type: str
    default: ""
  refused:
    description:
      - The RV(fleet.gpu_swarm.swarm_nodes#module:refused) of all calls of M(fleet.gpu_swarm.swarm_nodes), for O(of=provision) and
        O(of=deprovision). The hosts of these nodes wait.
    type: list
    elements: dict
    default: []
  managers:
    description:
      - The managers that answered when the run began, for O(of=deprovision). While one of them is still in the swarm, the report needs a ledger.
    type: list
    elements: str
    default: []
  service:
    description: The service that O(of=status) explains, by name or ID. Empty for the whole fleet.
    type: str
    default: ""
  what:
    description:
      - The part of the fleet that O(of=status) shows. With V(usage), V(events) and V(card), O(ledger) is the result of
        M(fleet.gpu_swarm.swarm_record).
    type: str
    choices: [all, free, holders, pending, faulty, usage, events, card]
    default: all
  output:
    description:
      - With V(json), O(of=status) prints one line of JSON.
      - With V(html), it writes the page of the fleet to O(to). With V(ledger), it writes O(saved) to O(to).
    type: str
    choices: [table, json, html, ledger]
    default: table
  to:
    description: The file to write, on the controller. Required with O(output=html) and O(output=ledger). In check mode, nothing is written.
    type: path
  grafana_url:
    description: The address of Grafana, to which the page links (C(gpu_swarm_grafana_url)). Empty for no link.
    type: str
    default: ""
  recorded:
    description:
      - The result of M(fleet.gpu_swarm.swarm_record) with C(what=page), for O(output=html). Without it, the page shows neither usage nor events.
    type: dict
    default: {}
  saved:
    description: The result of M(fleet.gpu_swarm.swarm_stack_on_manager) with C(save), for O(output=ledger).
    type: dict
    default: {}
    version_added: 0.4.0
  fault_limit:
    description: The percentage of GPU nodes that may be paused for a fault (C(swarm_member_react_limit)), for O(of=status).
    type: int
    default: 20
  hosts:
    description: The hosts of the table, in order. Required with O(of=verify).
    type: list
    elements: str
  tested:
    description: The result of M(fleet.gpu_swarm.swarm_gpu_verify). Required with O(of=verify).
    type: dict
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes.controller
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.internal
seealso:
  - module: fleet.gpu_swarm.provision_plan
  - module: fleet.gpu_swarm.swarm_explain
  - module: fleet.gpu_swarm.swarm_gpu_info
  - module: fleet.gpu_swarm.swarm_gpu_verify
  - module: fleet.gpu_swarm.swarm_record
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Print the state of the fleet
  fleet.gpu_swarm.report:
    of: provision
    steps: "{{ plan.steps }}"
    ledger: "{{ ledger }}"
  run_once: true

- name: Print the status
  fleet.gpu_swarm.report:
    of: status
    ledger: "{{ gpu_swarm_answer }}"
"""

RETURN = r"""
states:
  description: The state of each host as text. This is V(ready), V(deprovisioned) (with O(of=deprovision)), or the reason why the host is not done.
  returned: with O(of=provision) and O(of=deprovision)
  type: dict
  sample: {"n1": "ready", "n2": "waiting for container by-hand (for 3 h); paused"}
waiting:
  description:
    - Hosts on which work must end before the run can change them. With O(of=verify), hosts on which no task was tested, for example
      because no GPU is free. These hosts are not listed if the test passed on another host.
    - With O(of=status), names of nodes that take no new tasks because somebody wanted it, and of services with fewer tasks than they want.
  returned: success
  type: list
  elements: str
  sample: [g4, train]
not_ready:
  description:
    - Hosts that are not done for another reason, including hosts that the run did not reach. With O(of=status), names of nodes and services in
      trouble.
  returned: success, not with O(of=verify)
  type: list
  elements: str
  sample: [g5]
problems:
  description: The problems of each host, as texts. Hosts without problems are not listed.
  returned: with O(of=verify)
  type: dict
  sample: {"g2": ["drift: swarm-resource is not set"]}
rows:
  description: The lines of the table, each with the node, the GPUs allocated to its task, the GPUs that the task saw, and the verdict.
  returned: with O(of=verify)
  type: list
  elements: list
"""
