#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_member_plan
short_description: Decides how a host joins the swarm, changes its role, or leaves (internal)
version_added: 0.2.0
description:
  - Compares the answers of hosts and managers about their swarm, and returns the steps for the role C(swarm_member). If a step is impossible, the
    module fails with the reason and the remedy.
  - Runs on the controller, and changes nothing.
options:
  step:
    description:
      - V(survey) finds the hosts that run the swarm, or the host on which to initialise it. It returns an error instead of failing. The result is the
        same for all hosts, so use it once in a play, with C(run_once).
      - V(assess) decides the steps that bring this host to the wanted membership.
      - V(promote) checks whether this host can be promoted. It fails while another new manager of this play does not work as a manager yet.
      - V(demote) checks whether this host can be demoted. It fails if too few managers would remain.
      - V(leave) decides how this host leaves its swarm.
    type: str
    choices: [survey, assess, promote, demote, leave]
    required: true
  managers:
    description: The hosts that should be managers, in order. Required with O(step=survey).
    type: list
    elements: str
  queried:
    description: The answers of managers that were queried for this play, as results of a loop. For O(step=survey).
    type: list
    elements: dict
    default: []
  found:
    description: The result of O(step=survey). Required with all other steps.
    type: dict
  answer:
    description: The result of M(fleet.gpu_swarm.gpu_node) in check mode on this host. Required with O(step=assess), V(demote) and V(leave).
    type: dict
  listed:
    description: The result of M(fleet.gpu_swarm.swarm_members), even if it failed. Empty if no manager was queried.
    type: dict
    default: {}
  role:
    description: The wanted role of this host. Required with O(step=assess).
    type: str
    choices: [manager, worker]
  move:
    description: Whether a worker of another swarm may leave it. For O(step=assess).
    type: bool
    default: false
  advertise_addr:
    description: The address or interface that this host should advertise. O(step=assess) warns if a member advertises another one.
    type: str
    default: ""
  dissolve:
    description: Whether the last manager may leave, which ends the swarm. For O(step=leave).
    type: bool
    default: false
  entry:
    description: The node ID of this host's earlier membership, if the manager's list still has it. For O(step=leave).
    type: str
    default: ""
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes.controller
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.internal
seealso:
  - module: fleet.gpu_swarm.provision_plan
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Decide the steps of this host
  fleet.gpu_swarm.swarm_member_plan:
    step: assess
    found: "{{ found }}"
    listed: "{{ members }}"
    answer: "{{ gpu_node_assessed }}"
    role: worker
  register: plan
"""

RETURN = r"""
live:
  description: The hosts that run the swarm, in the order in which they should be queried.
  returned: with O(step=survey)
  type: list
  elements: str
init_on:
  description: The host on which to initialise the swarm, or null.
  returned: with O(step=survey)
  type: str
manager:
  description:
    - With O(step=survey), the manager that is queried about the other hosts. With O(step=leave), the manager that removes this host from its list.
    - Empty if there is no such manager.
  returned: with O(step=survey) and O(step=leave)
  type: str
complaint:
  description: The error that this manager reports about its swarm. Empty if there is none.
  returned: with O(step=survey)
  type: str
in_play:
  description: Whether this manager may be changed in this play.
  returned: with O(step=survey)
  type: bool
unanswered:
  description: The managers that have not answered yet.
  returned: with O(step=survey)
  type: list
  elements: str
new_managers:
  description: Reports about the swarm, one from each host that becomes a manager. These hosts become managers before any manager is demoted.
  returned: with O(step=survey)
  type: list
  elements: dict
external:
  description: The managers that this collection only queries over their API. It changes nothing on them.
  returned: with O(step=survey)
  type: list
  elements: str
claims:
  description: The hosts that claim to run a swarm, without confirmation by a manager. They do not count as managers.
  returned: with O(step=survey)
  type: list
  elements: str
action:
  description:
    - The step for this host, V(none), V(join), V(recover), V(move), V(promote), V(demote) or V(unknown).
    - V(recover) means to clean up after a failed join, then join. V(move) means to leave another swarm, then join. V(unknown) means that the
      manager's list of nodes is not known.
  returned: with O(step=assess)
  type: str
node_id:
  description: The host's ID in the swarm. Empty if the host is not in this swarm.
  returned: with O(step=assess)
  type: str
initialises:
  description: Whether the host initialises the swarm.
  returned: with O(step=assess)
  type: bool
joins:
  description: Whether the host joins an existing swarm, or the swarm that another host initialises.
  returned: with O(step=assess)
  type: bool
becomes_manager:
  description: Whether the host becomes a manager, when it joins or by a promotion.
  returned: with O(step=assess)
  type: bool
reacts:
  description: Whether the host has the part of the managers' service that pauses nodes with faults.
  returned: with O(step=assess)
  type: bool
has_service:
  description: Whether the host has the managers' service.
  returned: with O(step=assess) and O(step=leave)
  type: bool
  version_added: 0.3.0
reported:
  description: Whether nodes of the swarm report the health of their GPUs, which the service of RV(reacts) reads.
  returned: with O(step=assess)
  type: bool
noted:
  description: The warning that the host advertises another address than O(advertise_addr). Empty if there is no warning.
  returned: with O(step=assess)
  type: str
would:
  description: The text that check mode prints about this host.
  returned: with O(step=assess)
  type: str
leaves:
  description: Whether the host is in a swarm.
  returned: with O(step=leave)
  type: bool
demotes:
  description: Whether the host becomes a worker before it leaves.
  returned: with O(step=leave)
  type: bool
force:
  description: Whether the host leaves by force.
  returned: with O(step=leave)
  type: bool
entry:
  description: The node ID to remove from the manager's list. Empty if there is none.
  returned: with O(step=leave)
  type: str
error:
  description: Why the step is impossible, or null.
  returned: always
  type: str
"""
