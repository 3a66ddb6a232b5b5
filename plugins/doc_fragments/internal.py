# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the documentation of each internal filter has in common."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
notes:
  - This plugin is internal. It is for the playbooks and roles of this collection, and no stability is promised. Its options and its result
    may change with any release.
"""

    # What is known of the hosts of a run.
    VARIABLES = r"""
options:
  variables:
    description: The variable C(hostvars).
    type: dict
    required: true
"""

    # What a manager reported of its swarm.
    LEDGER = r"""
options:
  ledger:
    description: What M(fleet.gpu_swarm.swarm_gpu_info) returned.
    type: dict
"""
