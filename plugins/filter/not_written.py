# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: not_written
short_description: Returns why a node was not changed (internal)
version_added: 0.2.0
description:
  - Takes the result of M(fleet.gpu_swarm.swarm_nodes). If the call failed, the change of the node failed. If the call refused the change because it
    would evict tasks, the node waits.
positional: node_id, what
options:
  _input:
    description: What M(fleet.gpu_swarm.swarm_nodes) returned, even if it failed.
    type: dict
    required: true
  node_id:
    description: The node's id.
    type: str
    required: true
  what:
    description: What went wrong if the call failed, such as V(it could not be drained).
    type: str
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Show why this node is not drained
  ansible.builtin.debug:
    msg: "{{ drained | fleet.gpu_swarm.not_written('i9pbrl1zyudukjfaj1z6lvqpf', 'it could not be drained').reason | default('it is') }}"
"""

RETURN = r"""
_value:
  description: C(state) (V(failed) or V(waiting)) and C(reason); empty if the node was written.
  type: dict
"""

from ..plugin_utils._rollout.refused_evictions import not_written


class FilterModule:
    def filters(self):
        return {"not_written": not_written}
