# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an assessment reads of gpu-swarm-manager, the service on a manager: its code, the settings of the part that pauses nodes, whether it runs.

The plan compares it with what a manager should have. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
from typing import Any

from .._files import read_mapping
from .._program import installed

# Below the state directory: all that the service has on a manager.
HOME = "manager"
UNIT = "gpu-swarm-manager.service"
UNIT_PATH = "etc/systemd/system/" + UNIT
STATUS = "run/gpu-swarm-manager/status.json"
# In its settings: the part that pauses nodes and writes metrics, and the one that removes finished jobs.
PAUSE, JOBS = "pause", "jobs"
# The setting of each part with the directory into which it writes.
DIRECTORIES = {PAUSE: "metrics_directory", JOBS: "log_directory"}


def manager_state(state_dir: str, root: str = "/") -> dict[str, Any] | None:
    """{version, settings, running}; None if nothing of that part is there. After a killed run, the part may still run without its settings."""
    home = os.path.join(state_dir, HOME)
    if not (os.path.isdir(home) or os.path.lexists(os.path.join(root, UNIT_PATH))):
        return None
    kept = read_mapping(os.path.join(home, installed.SETTINGS))
    if kept is not None and PAUSE not in kept and not installed.is_changing(home):
        return None
    status = read_mapping(os.path.join(root, STATUS)) or {}
    return {"version": installed.version(home), "settings": (kept or {}).get(PAUSE) or {}, "running": installed.runs(status.get("pid"), HOME)}
