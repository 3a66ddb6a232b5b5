# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: not_converged
short_description: Names the hosts of which the manager does not show what was decided (internal)
version_added: 0.1.0
description:
  - Compares what this run decided for hosts with the manager's ledger. Hosts that failed or wait do not count.
positional: variables, ledger
options:
  _input:
    description: Names of hosts.
    type: list
    elements: str
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
  - fleet.gpu_swarm.internal.variables
  - fleet.gpu_swarm.internal.ledger
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Wait until the manager shows what was decided
  fleet.gpu_swarm.swarm_gpu_info:
  register: ledger
  until: not ansible_play_hosts | fleet.gpu_swarm.not_converged(hostvars, ledger)
  run_once: true
"""

RETURN = r"""
_value:
  description: The hosts that are not shown as decided.
  type: list
  elements: str
"""

from ..plugin_utils._rollout.updates import not_converged


class FilterModule:
    def filters(self):
        return {"not_converged": not_converged}
