# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the state of the service gpu-swarm-manager on a manager: its code, whether it runs, and the settings of its parts.

The plan compares this state with the wanted state. Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from .._files import read_mapping
from .._program import installed

# The service's directory, below the state directory.
HOME = "manager"
UNIT = "gpu-swarm-manager.service"
UNIT_PATH = "etc/systemd/system/" + UNIT
STATUS = "run/gpu-swarm-manager/status.json"
# Keys in the service's settings, one for each part: pauses nodes and writes metrics, removes finished jobs, records what it reads, keeps a page.
PAUSE, JOBS, RECORD, PAGE = "pause", "jobs", "record", "page"
# Parts that a run installs and removes. The playbook prune_jobs does this for the part that removes jobs.
PARTS_OF_RUNS = (PAUSE, RECORD, PAGE)
# The setting of a part that names the directory where the part writes.
DIRECTORIES = {PAUSE: "metrics_directory", JOBS: "log_directory"}
# The directory where a part writes, below the state directory. Its name is no setting.
SHARED = {RECORD: "record", PAGE: "page"}
# The status of the fleet, in the directory of the record. The template of the page, in the service's directory.
SNAPSHOT, TEMPLATE = "snapshot.json", "page-template.html"
# The command for people on a manager, and the directory of its code. Everybody may read the code.
COMMAND, COMMAND_HOME = "usr/local/bin/gpu-swarm", "usr/local/lib/gpu-swarm"
COMMAND_MODE = 0o755  # everybody may run the command. The permissions of the record and of Docker's socket decide what it shows


def manager_state(state_dir: str, root: str = "/") -> dict[str, Any] | None:
    """Return {version, version of the command, settings of each part, running}; None if no part of PARTS_OF_RUNS is installed.

    After a killed run, a part may still run without its settings.
    """
    home = os.path.join(state_dir, HOME)
    if not (os.path.isdir(home) or os.path.lexists(os.path.join(root, UNIT_PATH))):
        return None
    settings = read_mapping(os.path.join(home, installed.SETTINGS))
    parts = {part: settings[part] for part in PARTS_OF_RUNS if part in settings} if settings else {}
    if settings is not None and not parts and not installed.is_changing(home):
        return None
    status = read_mapping(os.path.join(root, STATUS)) or {}
    code = os.path.join(root, COMMAND_HOME)
    is_usable = os.path.isfile(os.path.join(root, COMMAND)) and is_open(os.path.join(code, installed.CURRENT))
    command = installed.version(code) if is_usable else ""
    running = installed.runs(status.get("pid"), HOME)
    return {"version": installed.version(home), "command": command, "settings": parts, "running": running}


def is_open(directory: str) -> bool:
    """Return whether everybody may read the code in this directory. A run may have been killed before it opened the directory."""
    try:
        return stat.S_IMODE(os.stat(directory).st_mode) == COMMAND_MODE
    except OSError:
        return False
