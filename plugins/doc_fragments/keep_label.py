# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  keep_label:
    description:
      - The label of services whose tasks must not be moved.
      - With V(true) or an empty value, tasks stay where they are. V(false) has no effect. An age such as V(12h) protects a task until the task is
        that old. The units are C(s), C(m), C(h) and C(d). Any other value has the same effect as V(true).
    type: str
    default: gpu-swarm.keep
    version_added: 0.3.0
"""
