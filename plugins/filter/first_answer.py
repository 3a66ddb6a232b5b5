# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: first_answer
short_description: Returns the answer of the first manager that answered (internal)
version_added: 0.3.0
description:
  - Takes what M(fleet.gpu_swarm.call_manager) registered in a loop over managers and returns the result of the one that answered.
  - Where none did, the result of the last one, in which C(answered) is false, C(manager) is empty, and C(msg) names each manager with the reason.
options:
  _input:
    description: What the task registered.
    type: dict
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: A manager has answered
  ansible.builtin.assert:
    that: _answer.answered
    fail_msg: "{{ _answer.msg | default('') }}"
  vars:
    _answer: "{{ called | fleet.gpu_swarm.first_answer }}"
"""

RETURN = r"""
_value:
  description: The result.
  type: dict
  sample: {answered: false, manager: "", msg: "No manager of the swarm answers: m1 cannot be reached: timed out; m2: no SDK."}
"""

from ..plugin_utils._controller.managers import first_answer


class FilterModule:
    def filters(self):
        return {"first_answer": first_answer}
