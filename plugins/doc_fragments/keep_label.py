# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  keep_label:
    description:
      - The label of services whose owners do not want their tasks to be moved.
      - V(true) or nothing as its value keeps a task where it is, V(false) does not, and an age such as V(12h) (or C(s), C(m), C(d)) keeps it
        until it has been in its state for so long. Any other value counts as V(true).
    type: str
    default: gpu-swarm.keep
    version_added: 0.3.0
"""
