# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: mask
short_description: Hides the passwords in the URLs of a text (internal)
version_added: 0.2.0
description:
  - Masks the password in each URL, so that the text can be shown.
options:
  _input:
    description: The text.
    type: str
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Report an unreadable mirror
  ansible.builtin.fail:
    msg: "{{ mirror | fleet.gpu_swarm.mask }} cannot be read."
"""

RETURN = r"""
_value:
  description: The text without the passwords.
  type: str
  sample: "http://svc:***@mirror.example.org/debian cannot be read."
"""

from ..module_utils._mask import mask


class FilterModule:
    def filters(self):
        return {"mask": mask}
