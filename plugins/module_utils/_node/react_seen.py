# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an assessment reads of gpu-swarm-react, the service that pauses nodes with faults: which code, which settings, whether it runs.

The plan compares it with what a manager is to have. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
from typing import Any

from .._files import read_mapping
from .._program import seen

# Below the state directory: all that the service has on a manager.
HOME = "react"
UNIT = "gpu-swarm-react.service"
UNIT_PATH = "etc/systemd/system/" + UNIT
STATUS = "run/gpu-swarm-react/status.json"


def react_seen(state_dir: str, root: str = "/") -> dict[str, Any] | None:
    """{version, settings, running}; None where nothing of it is there."""
    home = os.path.join(state_dir, HOME)
    if not (os.path.isdir(home) or os.path.lexists(os.path.join(root, UNIT_PATH))):
        return None
    status = read_mapping(os.path.join(root, STATUS)) or {}
    settings = read_mapping(os.path.join(home, seen.SETTINGS)) or {}
    return {"version": seen.version(home), "settings": settings, "running": seen.runs(status.get("pid"), HOME)}
