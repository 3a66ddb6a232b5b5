#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: provision_plan
short_description: Sorts the hosts of a fleet by what a run has to do on them (internal)
version_added: 0.1.0
description:
  - Takes the assessment of every host (the variable C(gpu_node_assessed), registered from
    M(fleet.gpu_swarm.gpu_node) in check mode) and the manager's ledger, which may have come with its assessment, and decides what each host needs.
  - Prints the impact on users before any change, or the table of the fleet if there is nothing to do.
  - Reads the settings of the playbooks, which C(docs/reference/settings.md) lists, and returns those that tasks need, with their declared types.
    Also the variables C(nvidia_container_toolkit_version), C(nvidia_container_toolkit_hold), C(swarm_member_move) and
    C(swarm_member_advertise_addr) of each host.
  - M(fleet.gpu_swarm.check_settings) must check the settings first, because here an invalid value counts as the default.
  - Runs on the controller. Use it once in a play, with C(run_once).
options:
  hosts:
    description: The hosts to decide about.
    type: list
    elements: str
    required: true
  ledger:
    description: What M(fleet.gpu_swarm.swarm_gpu_info) returned. Not needed if it came with the assessment of the manager, or if there is no swarm.
    type: dict
  reads:
    description: Whether to return RV(unread) instead of a plan, if more data about the swarm must be read first.
    type: bool
    default: false
  evicted:
    description: The tasks that M(fleet.gpu_swarm.swarm_nodes) would evict by setting the decided labels.
    type: list
    elements: dict
    default: []
  maintain:
    description: The purpose of a maintenance window that every member of the swarm gets, as text. Without it, only hosts that need a change get a
      window.
    type: str
  state:
    description:
      - With V(present), the hosts get the desired state. With V(absent), they are deprovisioned.
      - For V(absent), the hosts must be assessed with O(fleet.gpu_swarm.gpu_node#module:state=absent).
    type: str
    choices: [present, absent]
    default: present
  contents:
    description:
      - The names of the objects that would be lost with the swarm's last manager, as lists by V(services), V(secrets) and V(configs).
      - Only for O(state=absent). Without it, the last manager does not leave.
    type: dict
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes.controller
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.internal
attributes:
  check_mode:
    support: full
    details: In check mode it adds only hosts with an error to a group, the one of failed hosts.
seealso:
  - module: fleet.gpu_swarm.gpu_node
  - module: fleet.gpu_swarm.swarm_gpu_info
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Plan the work on each host
  fleet.gpu_swarm.provision_plan:
    hosts: "{{ ansible_play_hosts_all }}"
    ledger: "{{ ledger }}"
  run_once: true
  register: plan
"""

RETURN = r"""
unread:
  description:
    - The data about the swarm that must be read first. If this is not empty, there is no plan, and of the values below only RV(manager),
      RV(managers) and RV(settings) are returned.
    - V(ledger) is the result of M(fleet.gpu_swarm.swarm_gpu_info), V(evictions) is for O(evicted), V(contents) is for O(contents).
  returned: always
  type: list
  elements: str
  sample: [evictions]
  version_added: 0.3.0
ledger:
  description: The ledger that the plan is based on; empty without one.
  returned: always
  type: dict
  version_added: 0.3.0
settings:
  description: The settings of the whole run, by name.
  returned: always
  type: dict
  version_added: 0.2.0
steps:
  description:
    - For each host its needs (C(needs)), its C(groups), the C(impact) as text, its C(error), and the C(settings) that tasks need, by name.
    - C(work) describes the running work and what the change does with it. The host C(waits_for) some of it, and may be C(left_alone) until that has
      ended. C(restart_waits) is how many seconds the restart of dockerd waits for the drain.
    - C(fault) is why the host is unfit for its advertised GPUs, and whether the run pauses it for that. C(membership) is its node in the swarm.
      C(target) is its desired state.
    - With O(state=absent) also the C(removal), such as why the host C(remains) in the swarm, and the C(entry) that an earlier run left in the
      manager's list.
  returned: always
  type: dict
manager:
  description: The manager that answered; empty if none did.
  returned: always
  type: str
managers:
  description: All managers that answered.
  returned: always
  type: list
  elements: str
rooms:
  description:
    - How many tasks of each service had room when the plan was made (C(running), only those that swarm restarts), and how many were
      waiting (C(pending)).
    - Null with O(state=absent), because then no room returns.
  returned: always
  type: dict
left_lease:
  description: The holder of the swarm's lease, if its run has ended or its time seems to be over. Otherwise empty.
  returned: always
  type: str
made:
  description: When the plan was made, by a monotonic clock. A run may make several plans; the newest counts.
  returned: always
  type: int
  version_added: 0.2.0
hosts_in:
  description: The hosts by group for the next plays, in the order of the changes.
  returned: always
  type: dict
batches:
  description: The hosts in C(gpu_swarm_window), batch by batch. Managers come last, one per batch, and the leader is the last one.
  returned: always
  type: list
  elements: list
  version_added: 0.2.0
only_paused:
  description: Healthy hosts that an earlier run left paused and that need no change.
  returned: always
  type: list
  elements: str
  version_added: 0.2.0
cleared:
  description: Hosts in service that still report a fault that this run did not find. This is recorded before another host returns to service.
  returned: always
  type: list
  elements: str
  version_added: 0.3.0
notes:
  description:
    - Whether a run without changes leaves a note in the swarm. It does with C(provision_note_run), or if the previous run noted failed hosts and none
      fails now.
  returned: always
  type: bool
  version_added: 0.2.0
to_change:
  description: The hosts that need a change. If there are none, the run needs no lease of the swarm.
  returned: always
  type: list
  elements: str
isolation:
  description:
    - The wanted C(level) of the nodes, and the C(change) to write to the swarm at the start, which is the option C(isolation) of
      M(fleet.gpu_swarm.swarm_lease). It is empty if there is none.
  returned: always
  type: dict
  version_added: 0.3.0
"""
