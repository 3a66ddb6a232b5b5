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
  - Prints what that means for those who use the fleet before anything is done, or the table of the fleet when there is
    nothing to do.
  - Reads the settings of the playbooks, which C(docs/reference/settings.md) lists, and returns those that tasks need as what they are declared to be.
    Also the variables C(nvidia_container_toolkit_version), C(nvidia_container_toolkit_hold), C(swarm_member_move) and
    C(swarm_member_advertise_addr) of each host.
  - M(fleet.gpu_swarm.check_settings) has to check the settings before, since a wrong value counts as the default here.
  - Runs on the controller. Use it once in a play, with C(run_once).
options:
  hosts:
    description: The hosts to decide about.
    type: list
    elements: str
    required: true
  ledger:
    description: What M(fleet.gpu_swarm.swarm_gpu_info) returned. Not needed where it came with the assessment of the manager, or where no swarm is.
    type: dict
  reads:
    description: Whether to return, in place of a plan, what has still to be read of the swarm for it, where that is anything.
    type: bool
    default: false
  evicted:
    description: The tasks that M(fleet.gpu_swarm.swarm_nodes) would evict by setting the labels that were decided.
    type: list
    elements: dict
    default: []
  maintain:
    description: For what every member of the swarm gets a window, besides what it needs, in words. Without it, only those that need one.
    type: str
  state:
    description:
      - With V(present), the hosts become what was decided. With V(absent), they are deprovisioned.
      - For V(absent), the hosts have to be assessed with O(fleet.gpu_swarm.gpu_node#module:state=absent).
    type: str
    choices: [present, absent]
    default: present
  contents:
    description:
      - The names of what would be lost with the swarm's last manager, as lists by V(services), V(secrets) and V(configs).
      - Only for O(state=absent). Without it, the last manager does not leave.
    type: dict
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes.controller
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.internal
attributes:
  check_mode:
    support: full
    details: In check mode only hosts that cannot go on are placed into a group, the one in which a run fails them.
seealso:
  - module: fleet.gpu_swarm.gpu_node
  - module: fleet.gpu_swarm.swarm_gpu_info
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: What is to be done
  fleet.gpu_swarm.provision_plan:
    hosts: "{{ ansible_play_hosts_all }}"
    ledger: "{{ ledger }}"
  run_once: true
  register: plan
"""

RETURN = r"""
unread:
  description:
    - What has still to be read of the swarm. Where this is not empty, there is no plan, and of the values below only RV(manager), RV(managers) and
      RV(settings).
    - V(ledger) is what M(fleet.gpu_swarm.swarm_gpu_info) returns, V(evictions) what O(evicted) takes, V(contents) what O(contents) takes.
  returned: always
  type: list
  elements: str
  sample: [evictions]
  version_added: 0.3.0
ledger:
  description: The ledger that the plan was made by. Empty where there is none.
  returned: always
  type: dict
  version_added: 0.3.0
settings:
  description: The settings that count for the whole run, by their names.
  returned: always
  type: dict
  version_added: 0.2.0
steps:
  description:
    - By host, what it needs (C(needs)), the C(groups) it belongs to, the C(impact) in words, its C(error), and by their names its C(settings)
      that tasks need.
    - C(work) is what runs there and what the change does with that, such as what the host C(waits_for), whether it is C(left_alone) until that has
      ended, and for how many seconds the call that restarts dockerd waits for the drain (C(restart_waits)).
    - C(fault) is why it is unfit for what it advertises, and whether the run pauses it for that. C(membership) is the node that it is in the swarm.
      C(target) is what the change brings it to.
    - With O(state=absent) also the C(removal), such as why the host C(remains) in the swarm, and the C(entry) that an earlier run left in the
      manager's list.
  returned: always
  type: dict
manager:
  description: The host that runs the swarm and answered, or an empty string.
  returned: always
  type: str
managers:
  description: All hosts that run the swarm and answered.
  returned: always
  type: list
  elements: str
rooms:
  description:
    - By service, how many of its tasks had room when the plan was made (C(running), of those that swarm starts again), and how many
      waited for some (C(pending)).
    - Null with O(state=absent), where no room comes back that tasks could wait for.
  returned: always
  type: dict
left_lease:
  description: Who still has the swarm's lease, though that run has ended or its time seems to be over; empty if nobody.
  returned: always
  type: str
made:
  description: When the plan was made, by a clock that only goes forward. One run may make several, and what counts is the newest.
  returned: always
  type: int
  version_added: 0.2.0
hosts_in:
  description: The hosts by group, for the plays that follow, in the order of the changes.
  returned: always
  type: dict
batches:
  description: The hosts in C(gpu_swarm_window), batch by batch. The last batches are the managers, each alone, and the leader very last.
  returned: always
  type: list
  elements: list
  version_added: 0.2.0
only_paused:
  description: The hosts that an earlier run left paused, with which nothing is wrong, and for which nothing else is to be done first.
  returned: always
  type: list
  elements: str
  version_added: 0.2.0
cleared:
  description: The hosts in service that still report a fault that this run did not find. That is recorded before another host returns to service.
  returned: always
  type: list
  elements: str
  version_added: 0.3.0
notes:
  description:
    - Whether a run that finds nothing to change notes on the swarm that it was there. By C(provision_note_run), and where the run before noted that
      hosts failed, which is no longer so.
  returned: always
  type: bool
  version_added: 0.2.0
to_change:
  description: The hosts of these for which anything is to be done. Without one, the run needs no lease of the swarm.
  returned: always
  type: list
  elements: str
isolation:
  description:
    - The C(level) that the nodes are to have, and what is to be written to the swarm at the start (C(change), the option C(isolation) of
      M(fleet.gpu_swarm.swarm_lease), empty for nothing).
  returned: always
  type: dict
  version_added: 0.3.0
"""
