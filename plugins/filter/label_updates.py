# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: label_updates
short_description: Returns the option nodes of swarm_nodes that labels hosts as decided (internal)
version_added: 0.1.0
description:
  - Takes hosts and their variables. Returns the option O(fleet.gpu_swarm.swarm_nodes#module:nodes) for the members of the swarm without a failure.
  - The labels are those of the plan, or those that were decided on the host if the plan has none.
positional: variables, ledger
options:
  _input:
    description: Names of hosts.
    type: list
    elements: str
    required: true
  ledger:
    description: What M(fleet.gpu_swarm.swarm_gpu_info) returned. With it, only hosts whose labels differ are returned.
    type: dict
  clashes:
    description: Whether to return hosts with a conflicting label of somebody else too, for the error message. Only used with O(ledger).
    type: bool
    default: false
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
  - fleet.gpu_swarm.internal.variables
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Label the nodes
  fleet.gpu_swarm.swarm_nodes:
    nodes: "{{ ansible_play_hosts | fleet.gpu_swarm.label_updates(hostvars) }}"
  delegate_to: "{{ groups['swarm_managers'][0] }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: One dictionary per member, as the option O(fleet.gpu_swarm.swarm_nodes#module:nodes) takes it.
  type: list
  elements: dict
"""

from ..plugin_utils._fleet.raw_variables import RawVariables


def _label_updates(names, hostvars, ledger=None, clashes=False, planned=True):
    from ..plugin_utils._rollout.manager_updates import label_updates
    from ..plugin_utils._rollout.member import ASSESSED, view  # imported here, see images_with_gpus

    variables = RawVariables(hostvars)
    # Before the plan, all other facts of a host come from an earlier playbook of this run.
    facts = variables if planned else {name: {ASSESSED: variables[name].get(ASSESSED)} for name in names}
    return label_updates(view(names, facts, ledger), clashes)


class FilterModule:
    def filters(self):
        return {"label_updates": _label_updates}
