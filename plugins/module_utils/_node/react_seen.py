# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an assessment reads of gpu-swarm-react, the service that pauses nodes with faults: which code, which settings, whether it runs.

The plan compares it with what a manager is to have. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
from typing import Any

from .._program.unit import CURRENT, read

# Below the state directory: all that the service has on a manager.
HOME = "react"
SETTINGS = "settings.json"
UNIT = "gpu-swarm-react.service"
UNIT_PATH = "etc/systemd/system/" + UNIT
STATUS = "run/gpu-swarm-react/status.json"


def react_seen(state_dir: str, root: str = "/") -> dict[str, Any] | None:
    """{version, settings, running}; None where nothing of it is there."""
    home = os.path.join(state_dir, HOME)
    if not (os.path.isdir(home) or os.path.lexists(os.path.join(root, UNIT_PATH))):
        return None
    try:
        version = os.readlink(os.path.join(home, CURRENT))
    except OSError:
        version = ""
    status = read(os.path.join(root, STATUS)) or {}
    return {"version": version, "settings": read(os.path.join(home, SETTINGS)) or {}, "running": _runs(status.get("pid"))}


def _runs(pid: Any) -> bool:
    if not isinstance(pid, int):
        return False
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as stream:
            return os.path.join(HOME, CURRENT).encode("ascii") in stream.read()
    except OSError:
        return False
