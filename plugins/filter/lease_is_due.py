# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: lease_is_due
short_description: Returns whether the swarm's lease must be renewed (internal)
version_added: 0.2.0
description:
  - Takes the answer of M(fleet.gpu_swarm.swarm_lease). Returns true if this run has the lease and half of its time is over. Also returns true if
    O(ledger) shows that another run has taken over the lease.
positional: ledger
options:
  _input:
    description: What M(fleet.gpu_swarm.swarm_lease) returned, even if it failed or was skipped.
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
  description: Whether the lease must be renewed.
  type: bool
"""

from ..plugin_utils._rollout.run_lease import is_due


class FilterModule:
    def filters(self):
        return {"lease_is_due": is_due}
