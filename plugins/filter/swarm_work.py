# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: swarm_work
short_description: Returns the work that a host loses when it leaves its swarm (internal)
version_added: 0.2.0
description:
  - Takes the running containers of a host. Tasks of services end. Containers that were started by hand lose the swarm's networks, so containers on
    such networks are returned too.
positional: _input
options:
  _input:
    description: The running containers, as M(fleet.gpu_swarm.gpu_node) returns them.
    type: list
    elements: dict
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Check that nothing of the swarm runs here
  ansible.builtin.assert:
    that: inspected.containers | fleet.gpu_swarm.swarm_work | length == 0
"""

RETURN = r"""
_value:
  description: A description of each container.
  type: list
  elements: str
  sample: ["task web.1.oyl2ui5639bmnf3qq6mn5afae of service web (for 3 h 5 min)"]
"""

from ..plugin_utils._fleet.workload import describe_swarm_work


class FilterModule:
    def filters(self):
        return {"swarm_work": describe_swarm_work}
