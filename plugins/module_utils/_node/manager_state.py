# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the state of the service gpu-swarm-manager on a manager: its code, whether it runs, and the settings of the part that pauses nodes.

The plan compares this state with the wanted state. Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
from typing import Any

from .._files import read_mapping
from .._program import installed

# The service's directory, below the state directory.
HOME = "manager"
UNIT = "gpu-swarm-manager.service"
UNIT_PATH = "etc/systemd/system/" + UNIT
STATUS = "run/gpu-swarm-manager/status.json"
# Keys in the service's settings: the part that pauses nodes and writes metrics, and the part that removes finished jobs.
PAUSE, JOBS = "pause", "jobs"
# For each part, the setting that contains its output directory.
DIRECTORIES = {PAUSE: "metrics_directory", JOBS: "log_directory"}


def manager_state(state_dir: str, root: str = "/") -> dict[str, Any] | None:
    """Return {version, settings, running} of the part that pauses nodes; None if this part is not installed.

    After a killed run, the part may still run without its settings.
    """
    home = os.path.join(state_dir, HOME)
    if not (os.path.isdir(home) or os.path.lexists(os.path.join(root, UNIT_PATH))):
        return None
    settings = read_mapping(os.path.join(home, installed.SETTINGS))
    if settings is not None and PAUSE not in settings and not installed.is_changing(home):
        return None
    status = read_mapping(os.path.join(root, STATUS)) or {}
    return {"version": installed.version(home), "settings": (settings or {}).get(PAUSE) or {}, "running": installed.runs(status.get("pid"), HOME)}
