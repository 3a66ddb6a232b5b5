# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of a job. The module and job files have the same options.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any

from .logs import DIRECTORY, LIMIT_MIB

JOB_OPTIONS: dict[str, dict[str, Any]] = {
    "name": {"type": "str"},
    "image": {"type": "str"},
    "command": {"type": "raw"},
    "entrypoint": {"type": "raw"},
    "env": {"type": "dict"},
    "array": {"type": "list", "elements": "dict"},
    "gpus": {"type": "int", "default": 1},
    "kind": {"type": "str", "default": "NVIDIA-GPU"},
    "capabilities": {"type": "list", "elements": "str"},
    "constraints": {"type": "list", "elements": "str"},
    "x_gpu": {"type": "dict"},
    "mounts": {"type": "list", "elements": "str"},
    "networks": {"type": "list", "elements": "str"},
    "user": {"type": "str"},
    "workdir": {"type": "str"},
    "owner": {"type": "str"},
    "queue": {"type": "str"},
    "priority": {"type": "int"},
    "nodes": {"type": "int", "default": 1},
    "same_model": {"type": "bool", "default": True},
    "start_timeout": {"type": "int"},
    "time_limit": {"type": "int", "default": 0},
    "retries": {"type": "int", "default": 0},
}
# Options that concern the run of the module, not the job.
RUN_OPTIONS: dict[str, dict[str, Any]] = {
    "file": {"type": "path"},
    "placement": {"type": "dict"},
    "again": {"type": "str", "choices": ["never", "failed", "always"], "default": "never"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "explain": {"type": "bool", "default": True},
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 3600},
    "log_directory": {"type": "path", "default": DIRECTORY},
    "log_limit_mib": {"type": "int", "default": LIMIT_MIB},
}
