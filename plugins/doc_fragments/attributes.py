# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Common documentation of all modules."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  action_group:
    description: Options that are not set have the values of C(group/fleet.gpu_swarm.gpu_swarm) in C(module_defaults).
    support: full
    membership:
      - fleet.gpu_swarm.gpu_swarm
  check_mode:
    description: In check mode, the module returns what it would do, and changes nothing.
  diff_mode:
    description: In diff mode, the module shows what changes, or would change in check mode.
  idempotent:
    description: A second run with the same arguments changes nothing.
  platform:
    description: The systems that the module runs on. The node needs Python 3.8 or newer, and with ansible-core 2.20 or newer Python 3.9.
    platforms: linux
    support: full
"""

    # For modules that only read. Use it with the standard fragment.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - The module only reads, so it does the same with and without check mode.
  diff_mode:
    support: N/A
    details:
      - The module only reads, so it has no difference to show.
  idempotent:
    support: full
    details:
      - The module only reads.
"""

    # For modules that change no files of the user. Use it with the standard fragment.
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

    # For actions on the controller. Put it before the standard fragment, because the first fragment that names a platform wins.
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
