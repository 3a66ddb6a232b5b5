# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: blocking_workloads
short_description: Reports what runs on hosts and must not be stopped (internal)
version_added: 0.2.0
description:
  - Takes hosts that are about to be changed and reports what on them has to end first, by the C(provision_disrupt) of each.
  - With V(services), the default, that is what swarm does not start again, which are tasks with the restart condition C(none),
    tasks of jobs, and containers that no service owns. With V(never), it is all that runs. With V(all), it is nothing.
  - Hosts with which something went wrong in this run are left out.
positional: variables, ledger, containers
options:
  _input:
    description: Names of hosts.
    type: list
    elements: str
    required: true
  containers:
    description: The running containers, as M(fleet.gpu_swarm.gpu_node) returns them. By default those of its last assessment.
    type: list
    elements: dict
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
  - fleet.gpu_swarm.internal.ledger
  - fleet.gpu_swarm.internal.variables
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Wait for what must not be stopped
  fleet.gpu_swarm.swarm_gpu_info:
  delegate_to: "{{ groups['swarm_managers'][0] }}"
  register: ledger
  until: not ansible_play_batch | fleet.gpu_swarm.blocking_workloads(hostvars, ledger, containers=[])
  retries: 60
  delay: 5
"""

RETURN = r"""
_value:
  description: What has to end, in words.
  type: list
  elements: str
  sample: ["task sweep.4 of service sweep (for 3 h 5 min)"]
"""

from ..plugin_utils._controller.found import Found


def _blocking_workloads(names, hostvars, *args, **options):
    from ..plugin_utils._rollout.preconditions import blocking_workloads  # not on top, see images_with_gpus

    return blocking_workloads(names, Found(hostvars), *args, **options)


class FilterModule:
    def filters(self):
        return {"blocking_workloads": _blocking_workloads}
