# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: find_swarm
short_description: Finds the hosts that run the swarm, or the one to initialise it on (internal)
version_added: 0.1.0
description:
  - Looks through what hosts said about their swarm membership.
  - A swarm is to be initialised only if every manager of the inventory answered and none of them is in a swarm.
  - A manager whose Docker daemon is stopped has not answered. One whose NVML failed has.
positional: managers, in_play
options:
  _input:
    description: What M(fleet.gpu_swarm.gpu_node) returned in check mode, by host, also where it failed.
    type: dict
    required: true
  managers:
    description: The hosts that are to be managers, in order.
    type: list
    elements: str
    required: true
  in_play:
    description: The hosts that may be changed in this run.
    type: list
    elements: str
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Where does the swarm live
  ansible.builtin.debug:
    msg: "{{ answers | fleet.gpu_swarm.find_swarm(groups['swarm_managers'], ansible_play_hosts) }}"
"""

RETURN = r"""
_value:
  description:
    - A dictionary with C(live) (the hosts that run the swarm, the best to query first), C(init_on) (the host to initialise
      the swarm on, or null) and C(error) (why there is neither, or null).
  type: dict
"""

from ansible.errors import AnsibleFilterError

from ..plugin_utils._fleet.membership import find_swarm


def _find_swarm(answers, managers, in_play):
    if not isinstance(answers, dict):
        raise AnsibleFilterError("find_swarm needs a dictionary of answers by host")
    return find_swarm(answers, managers, in_play)


class FilterModule:
    def filters(self):
        return {"find_swarm": _find_swarm}
