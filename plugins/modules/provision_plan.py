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
  - Decides which changes each host needs. It reads the assessment of every host and the ledger of the swarm.
  - The assessment of a host is its variable C(gpu_node_assessed), the registered result of M(fleet.gpu_swarm.gpu_node) in check mode. The
    assessment of a manager may contain the ledger.
  - Prints the impact on users before any change. If there is nothing to do, it prints the table of the fleet.
  - Reads the settings of the playbooks (C(docs/reference/settings.md)), and returns the settings that tasks need, with their declared types.
  - Also reads the variables C(nvidia_container_toolkit_version), C(nvidia_container_toolkit_hold), C(swarm_member_move) and
    C(swarm_member_advertise_addr) of each host.
  - M(fleet.gpu_swarm.check_settings) must check the settings first, because this module uses the default instead of an invalid value.
  - Runs on the controller. Use it once in a play, with C(run_once).
options:
  hosts:
    description: The hosts to decide about.
    type: list
    elements: str
    required: true
  ledger:
    description: The result of M(fleet.gpu_swarm.swarm_gpu_info). Not needed if the assessment of the manager contains it, or if there is no swarm.
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
      - Only for O(state=absent). Without this option, the last manager does not leave the swarm.
    type: dict
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes.controller
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.internal
attributes:
  check_mode:
    support: full
    details: In check mode, the plan returns only the groups of hosts that fail, and of hosts whose package manager searches for the packages.
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
    - The data about the swarm that must be read first. If this list is not empty, there is no plan. The module then returns only RV(manager),
      RV(managers) and RV(settings) besides.
    - V(ledger) is the result of M(fleet.gpu_swarm.swarm_gpu_info), V(evictions) is for O(evicted), V(contents) is for O(contents).
  returned: always
  type: list
  elements: str
  sample: [evictions]
  version_added: 0.3.0
ledger:
  description: The ledger that the plan is based on. Empty if there is no ledger.
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
    - The plan for each host. C(needs) lists the changes, C(groups) the groups of the host, and C(impact) the impact on users as text. C(error) is the
      reason why the host is not changed, or not completely. C(settings) are the settings that tasks need, by name.
    - C(work) describes the running work, and how the change affects this work. C(waits_for) lists the work that must end first. If C(left_alone) is
      true, the host is not changed until then. C(restart_waits) is how many seconds the restart of dockerd waits for the drain.
    - C(fault) tells why the host is unfit for its advertised GPUs, and whether the run pauses the host for this reason. C(membership) describes the
      node of the host in the swarm. C(target) is the desired state of the host.
    - With O(state=absent), each plan also has C(removal). Its C(remains) tells why the host remains in the swarm. Its C(entry) is the node ID that an
      earlier run left in the manager's list.
  returned: always
  type: dict
manager:
  description: The manager that answered. Empty if no manager answered.
  returned: always
  type: str
managers:
  description: All managers that answered.
  returned: always
  type: list
  elements: str
rooms:
  description:
    - The numbers of tasks of each service when the plan was made. C(running) counts running tasks that swarm restarts, C(pending) counts pending
      tasks.
    - Null with O(state=absent), because a deprovision removes resources for good.
  returned: always
  type: dict
left_lease:
  description: The holder of the swarm's lease, if the holder's run has ended or the lease seems to have expired. Otherwise empty.
  returned: always
  type: str
made:
  description: When the plan was made, by a monotonic clock. A run may make several plans, and uses only the newest.
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
  description: Hosts in service that still report a fault that this run did not find. The run records this before another host returns to service.
  returned: always
  type: list
  elements: str
  version_added: 0.3.0
notes:
  description:
    - Whether a run without changes writes a note to the swarm. This is true with C(provision_note_run), or if the previous run noted failed hosts.
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
    - C(level) is the wanted level of the nodes.
    - C(change) is the change to write to the swarm at the start, as the option C(isolation) of M(fleet.gpu_swarm.swarm_lease). Empty if there is no
      change.
  returned: always
  type: dict
  version_added: 0.3.0
queues:
  description:
    - C(wanted) are the queues that the swarm should have. Null if this run does not change them.
    - C(change) has the option C(queues) for M(fleet.gpu_swarm.swarm_lease), with which the run changes the queues at its start. Empty if there is no
      change.
  returned: always
  type: dict
  version_added: 0.4.0
swarm_labels:
  description: The labels of a swarm that this run creates.
  returned: always
  type: dict
  version_added: 0.4.0
"""
