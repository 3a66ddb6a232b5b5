# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an assessment sees of an installed program: which version of its code, which settings, and whether it runs.

Small, since each call on a node loads it. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
from typing import Any

# In the directory of a program: the link to the version of its code that runs, and its settings.
CURRENT, SETTINGS = "current", "settings.json"
# There from before a program is changed until it was restarted: what runs may still be the code of before.
CHANGING = "changing"


def version(home: str) -> str:
    """The name of the code that is current; empty if there is none, or if a run was killed before it restarted the program."""
    if is_changing(home):
        return ""
    try:
        return os.readlink(os.path.join(home, CURRENT))
    except OSError:
        return ""


def is_changing(home: str) -> bool:
    """Whether a run was killed between the first file of a change and the restart."""
    return os.path.lexists(os.path.join(home, CHANGING))


def runs(pid: Any, home: str) -> bool:
    """Whether this process is one of the program. ``home`` is the directory's own name: roots differ. systemd removes the status with the service."""
    if not isinstance(pid, int):
        return False
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as stream:
            return os.path.join(home, CURRENT).encode("utf-8") in stream.read()
    except OSError:
        return False
