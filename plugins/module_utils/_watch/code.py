# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The door through which the watcher's code comes along with a module: Ansible sends what is imported, wherever that is.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any


def load() -> Any:
    """Imports it, as its service will: only for who installs it, since the other calls need none of it."""
    from . import commands

    return commands
