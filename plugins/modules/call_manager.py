#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: call_manager
short_description: Runs a module on the first of several managers that answers (internal)
version_added: 0.3.0
description:
  - Runs another module of this collection on the manager to which the task is delegated. Use it in a loop over the managers.
  - If the manager does not answer, the task does not fail. Then RV(answered) is false, and the loop continues with the next manager.
  - Use the last result that was not skipped. It has the answer. If no manager answered, it names each manager with the reason.
options:
  module:
    description: The module, by its name in this collection.
    type: str
    choices: [swarm_batch, swarm_explain, swarm_gpu_info, swarm_job, swarm_job_prune, swarm_record, swarm_stack, swarm_stack_on_manager]
    required: true
  arguments:
    description:
      - The options of that module. The connection options come from the variables C(swarm_manager_docker_host), C(swarm_manager_docker_tls) and
        C(gpu_node_docker_socket) of the manager, as with P(fleet.gpu_swarm.manager_api#filter).
    type: dict
    required: true
  reasons:
    description: Why earlier managers in the loop did not answer. This is RV(reasons) of the previous result.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - fleet.gpu_swarm.docker_client
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.internal
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: partial
    details: It is as idempotent as the other module.
  platform:
    platforms: posix
seealso:
  - plugin: fleet.gpu_swarm.manager_api
    plugin_type: filter
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Read the swarm
  fleet.gpu_swarm.call_manager:
    module: swarm_gpu_info
    arguments: {keep_label: gpu-swarm.keep}
    reasons: "{{ called.reasons | default([]) if nth > 0 else [] }}"
  delegate_to: "{{ item }}"
  loop: "{{ groups['swarm_managers'] }}"
  loop_control: {index_var: nth}
  when: nth == 0 or not called.answered | default(called is skipped)
  run_once: true
  register: called
"""

RETURN = r"""
answered:
  description: Whether the loop can end, because this manager answered, or because all managers would return the same answer.
  returned: always
  type: bool
manager:
  description: The host of the inventory that answered. Empty if no manager answered.
  returned: always
  type: str
msg:
  description: Why the other module failed, or why each manager did not answer. The result also has all values of the other module.
  returned: if the module failed, or no manager answered
  type: str
reasons:
  description: Why this manager and the earlier managers in the loop did not answer.
  returned: if no manager has answered
  type: list
  elements: str
"""
