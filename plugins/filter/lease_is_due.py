# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: lease_is_due
short_description: Says whether the swarm's lease is to be renewed (internal)
version_added: 0.2.0
description:
  - Takes the answer of M(fleet.gpu_swarm.swarm_lease). True where this run has the lease and half of it is over, or had it, and O(ledger)
    shows that another run has it by now.
positional: ledger
options:
  _input:
    description: What M(fleet.gpu_swarm.swarm_lease) returned, also where it failed or was skipped.
    type: dict
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
  - fleet.gpu_swarm.internal.ledger
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Renew the lease
  fleet.gpu_swarm.swarm_lease:
  when: lease | fleet.gpu_swarm.lease_is_due
  register: lease
"""

RETURN = r"""
_value:
  description: Whether it is.
  type: bool
"""

from ..plugin_utils._rollout.run_lease import is_due


class FilterModule:
    def filters(self):
        return {"lease_is_due": is_due}
