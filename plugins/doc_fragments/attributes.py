# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the documentation of each module has in common."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  action_group:
    description: Takes its defaults from C(group/fleet.gpu_swarm.gpu_swarm) in C(module_defaults).
    support: full
    membership:
      - fleet.gpu_swarm.gpu_swarm
  check_mode:
    description: Returns in check mode what it would do, and does nothing.
  diff_mode:
    description: Shows in diff mode what changes, or would change in check mode.
  idempotent:
    description: Run again with the same arguments on a system that nobody touched in between, it changes nothing.
  platform:
    description: The systems that the module runs on. The node needs Python 3.8 or newer, and with ansible-core 2.20 or newer Python 3.9.
    platforms: linux
    support: full
"""

    # For modules that only read; goes with the standard fragment.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - Only reads, so it does the same with and without check mode.
  diff_mode:
    support: N/A
    details:
      - Only reads, so there is no difference to show.
  idempotent:
    support: full
    details:
      - Only reads.
"""

    # For modules that change no file, or none of the user's; goes with the standard fragment.
    NO_DIFF = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

    # For what Ansible does on the controller only, as an action; goes before the standard fragment, since the first one that names a platform counts.
    CONTROLLER = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
  platform:
    platforms: all
"""
