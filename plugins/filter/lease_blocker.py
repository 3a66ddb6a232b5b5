# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: lease_blocker
short_description: Says why a run that does not hold the swarm's lease may change nothing (internal)
version_added: 0.2.0
description:
  - Takes the answer of M(fleet.gpu_swarm.swarm_lease). Who else holds the lease, since when, when it ends, and how to take it if
    that run is dead.
positional: since
options:
  _input:
    description: What M(fleet.gpu_swarm.swarm_lease) returned, also where it failed.
    type: dict
    required: true
  since:
    description: >-
      RV(fleet.gpu_swarm.swarm_lease#module:since) of an earlier answer. Where it differs, another run has had the lease meanwhile, and
      may have changed what this one has prepared.
    type: str
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Nobody else changes this swarm
  ansible.builtin.assert:
    that: lease | fleet.gpu_swarm.lease_blocker | length == 0
    fail_msg: "{{ lease | fleet.gpu_swarm.lease_blocker }}"
"""

RETURN = r"""
_value:
  description: The reason, or an empty string.
  type: str
"""

from ..plugin_utils._rollout.lease import lease_blocker


class FilterModule:
    def filters(self):
        return {"lease_blocker": lease_blocker}
