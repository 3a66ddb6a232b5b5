# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rollout_blocker
short_description: Says why no further host may be changed now (internal)
version_added: 0.2.0
description:
  - Takes the hosts of a run. Its roll stops when too many of them failed, when no manager answers, or when tasks wait for room
    that did not when the run began.
positional: variables, ledger, before, max_failed
options:
  _input:
    description: Names of hosts.
    type: list
    elements: str
    required: true
  before:
    description: >-
      How many tasks of each service had room when the run began and how many waited, as RV(fleet.gpu_swarm.provision_plan#module:rooms) tells.
      Null where that is not to be looked at.
    type: dict
    required: true
  max_failed:
    description: After so many failed hosts, no further one is changed.
    type: int
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
  - fleet.gpu_swarm.internal.variables
  - fleet.gpu_swarm.internal.ledger
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: May it go on
  ansible.builtin.debug:
    msg: "{{ plan.steps | fleet.gpu_swarm.rollout_blocker(hostvars, ledger, plan.rooms, 1) }}"
"""

RETURN = r"""
_value:
  description: The reason, or an empty string.
  type: str
"""

from ..plugin_utils._rollout.preconditions import rollout_blocker


class FilterModule:
    def filters(self):
        return {"rollout_blocker": rollout_blocker}
