#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_member_plan
short_description: Decides what a host has to do to be a member of the swarm, or to leave it (internal)
version_added: 0.2.0
description:
  - Takes what hosts and managers reported of their swarm, and returns what the tasks of the role C(swarm_member) act on. Fails with what
    prevents that, and the remedy.
  - Runs on the controller. Changes nothing.
options:
  step:
    description:
      - V(survey) finds who runs the swarm, or where it may be initialised. Its error fails nobody. It is the same for all hosts, so use it
        once in a play, with C(run_once).
      - V(assess) decides what this host has to do to be what it is to be.
      - V(promote) fails while another host of the play has begun to become a manager and is not a working one.
      - V(demote) fails where too few managers would stay.
      - V(leave) decides how this host leaves its swarm.
    type: str
    choices: [survey, assess, promote, demote, leave]
    required: true
  managers:
    description: The hosts that are to be managers, in order. Required with O(step=survey).
    type: list
    elements: str
  queried:
    description: What managers returned for this play, as the results of a loop over them. For O(step=survey).
    type: list
    elements: dict
    default: []
  found:
    description: What O(step=survey) returned. Required with every other step.
    type: dict
  answer:
    description: What M(fleet.gpu_swarm.gpu_node) returned in check mode on this host. Required with O(step=assess), V(demote) and V(leave).
    type: dict
  listed:
    description: What M(fleet.gpu_swarm.swarm_members) returned, also where it failed. Empty where no manager was queried.
    type: dict
    default: {}
  role:
    description: What this host is to be. Required with O(step=assess).
    type: str
    choices: [manager, worker]
  move:
    description: Whether a worker of another swarm may leave it. For O(step=assess).
    type: bool
    default: false
  advertise_addr:
    description: The address or interface that this host is to advertise. Used by O(step=assess), which warns if a member advertises another one.
    type: str
    default: ""
  dissolve:
    description: Whether the last manager may leave, and the swarm ends with it. For O(step=leave).
    type: bool
    default: false
  entry:
    description: The id of an entry in the manager's list that is this host's from an earlier membership. For O(step=leave).
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
  description: The hosts that run the swarm, the best to query first.
  returned: with O(step=survey)
  type: list
  elements: str
init_on:
  description: The host to initialise the swarm on, or null.
  returned: with O(step=survey)
  type: str
manager:
  description:
    - With O(step=survey) the host that is queried about the others, or will be; with O(step=leave) the one that takes this host off
      its list. Empty if there is nobody.
  returned: with O(step=survey) and O(step=leave)
  type: str
complaint:
  description: What that manager reports as wrong with its swarm. Empty if nothing is.
  returned: with O(step=survey)
  type: str
in_play:
  description: Whether that manager may be changed in this play.
  returned: with O(step=survey)
  type: bool
unanswered:
  description: The managers that did not answer yet.
  returned: with O(step=survey)
  type: list
  elements: str
coming:
  description: What the hosts reported of their swarm that are managers before any manager is demoted.
  returned: with O(step=survey)
  type: list
  elements: dict
external:
  description: The managers of which only the API is called. On them nothing is changed.
  returned: with O(step=survey)
  type: list
  elements: str
claims:
  description: The hosts that say that they run a swarm which no manager confirms. They do not count as managers.
  returned: with O(step=survey)
  type: list
  elements: str
action:
  description:
    - What the host has to do, one of V(none), V(join), V(recover) (leave what was never joined, then join), V(move)
      (leave another swarm, then join), V(promote), V(demote) and V(unknown) (the list of nodes is not known).
  returned: with O(step=assess)
  type: str
node_id:
  description: Its id in the swarm. Empty where it is in none, or in another.
  returned: with O(step=assess)
  type: str
initialises:
  description: Whether it makes the swarm.
  returned: with O(step=assess)
  type: bool
joins:
  description: Whether it joins a swarm that there is, or that another host makes.
  returned: with O(step=assess)
  type: bool
becomes_manager:
  description: Whether it becomes a manager by its join or by a promotion.
  returned: with O(step=assess)
  type: bool
reacts:
  description: Whether it has the service that pauses nodes with faults.
  returned: with O(step=assess) and O(step=leave)
  type: bool
reported:
  description: Whether nodes of the swarm report the health of their GPUs to that service.
  returned: with O(step=assess)
  type: bool
noted:
  description: What a member advertises instead of the set address. Empty if all is well.
  returned: with O(step=assess)
  type: str
would:
  description: What check mode prints about it.
  returned: with O(step=assess)
  type: str
leaves:
  description: Whether it is in a swarm.
  returned: with O(step=leave)
  type: bool
demotes:
  description: Whether it becomes a worker before it leaves.
  returned: with O(step=leave)
  type: bool
force:
  description: Whether it leaves by force.
  returned: with O(step=leave)
  type: bool
entry:
  description: The id in the manager's list that is to go. Empty if there is none.
  returned: with O(step=leave)
  type: str
error:
  description: What stands in the way, or null.
  returned: always
  type: str
"""
