# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: evict
short_description: Returns what a change of a node may evict (internal)
version_added: 0.2.0
description:
  - Translates C(provision_disrupt) of a host to the option O(fleet.gpu_swarm.swarm_nodes#module:nodes[].evict) for its node.
options:
  _input:
    description: The value of C(provision_disrupt).
    type: str
    choices: [never, services, all]
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Demote a node, unless that evicts tasks that swarm does not start again
  fleet.gpu_swarm.swarm_nodes:
    nodes:
      - id: i9pbrl1zyudukjfaj1z6lvqpf
        role: worker
        evict: "{{ 'services' | fleet.gpu_swarm.evict }}"
"""

RETURN = r"""
_value:
  description: V(none), V(movable) or V(any).
  type: str
"""

from ansible.errors import AnsibleFilterError

from ..plugin_utils._rollout.refused_evictions import EVICT


def _evict(disrupt):
    if disrupt not in EVICT:
        raise AnsibleFilterError(f"evict needs one of {', '.join(EVICT)}, not {disrupt!r}")
    return EVICT[disrupt]


class FilterModule:
    def filters(self):
        return {"evict": _evict}
