# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads which version of a program is installed on a machine, and whether it runs.

Each call on a node loads this file, so it is small. Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
from typing import Any

# In the directory of a program: the link to the current version of its code, and its settings.
CURRENT, SETTINGS = "current", "settings.json"
# This file exists from the start of a change until the program has been restarted. As long as it exists, the former code may still run.
CHANGING = "changing"


def version(home: str) -> str:
    """Return the name of the current code; '' if no code is installed, or if a run was killed before it restarted the program."""
    if is_changing(home):
        return ""
    try:
        return os.readlink(os.path.join(home, CURRENT))
    except OSError:
        return ""


def is_changing(home: str) -> bool:
    """Return whether a run was killed between the first file of a change and the restart."""
    return os.path.lexists(os.path.join(home, CHANGING))


def runs(pid: Any, home: str) -> bool:
    """Return whether this process runs the program. ``home`` is the last part of the program's directory, because the roots of machines differ."""
    if not isinstance(pid, int):
        return False
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as stream:
            return os.path.join(home, CURRENT).encode("utf-8") in stream.read()
    except OSError:
        return False
