# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: newly_pending
short_description: Tells which services found room before and do not now (internal)
version_added: 0.2.0
description:
  - Takes the ledger of now and tells of which services tasks wait for room that had some when a run began.
  - A service that did not exist then does not count, nor do replicas that were added since.
positional: before
options:
  _input:
    description: What M(fleet.gpu_swarm.swarm_gpu_info) returned.
    type: dict
    required: true
  before:
    description: >-
      How many tasks of each service had room when the run began and how many waited, as RV(fleet.gpu_swarm.provision_plan#module:rooms) tells.
      Null where that is not to be looked at.
    type: dict
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Give tasks the time to find a place again
  fleet.gpu_swarm.swarm_gpu_info:
  register: ledger
  until: not ledger | fleet.gpu_swarm.newly_pending(plan.rooms)
"""

RETURN = r"""
_value:
  description: The services with the number of tasks, in words.
  type: list
  elements: str
  sample: ["service train (2 more)"]
"""

from ..plugin_utils._rollout.preconditions import newly_pending


class FilterModule:
    def filters(self):
        return {"newly_pending": newly_pending}
