# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the module gpu_node, as its argument specification.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any

from .._compat.checks import ACCEPTABLE
from .._health import xid_defaults
from .._health.label import AFTER_LOSS, PAUSE
from .._isolation_levels import LEVELS
from .._libraries import LIBRARIES
from .._policy.forms import DEFAULT_RULES, FORMS, Option
from .watcher_state import ALL, FAULTS


def argument_spec() -> dict[str, Any]:
    """Return the argument specification for Ansible."""
    return {
        "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
        "restart": {"type": "str", "choices": ["never", "if_needed"], "default": "if_needed"},
        "when_busy": {"type": "str", "choices": ["refuse", "restart"], "default": "refuse"},
        "advertise": _advertise(),
        "extra_resources": {"type": "list", "elements": "str", "default": []},
        "expect": {"type": "int"},
        "allow_shrink": {"type": "bool", "default": False},
        "accept_risks": {"type": "list", "elements": "str", "choices": list(ACCEPTABLE), "default": []},
        "label_prefix": {"type": "str", "default": "gpu."},
        "label_cpu_prefix": {"type": "str", "default": "cpu."},
        "label_memory": {"type": "list", "elements": "int", "default": [16, 24, 40, 80]},
        "label_compute_capability": {"type": "list", "elements": "str", "default": ["7.0", "8.0", "9.0"]},
        "label_cuda": {"type": "list", "elements": "str", "default": ["12.0", "12.4", "13.0"]},
        "dedicated": {"type": "bool", "default": False},
        "data_interface": {"type": "str"},
        "default_shm_size": {"type": "str"},
        "daemon_config": {"type": "path", "default": "/etc/docker/daemon.json"},
        "runtime_config": {"type": "path", "default": "/etc/nvidia-container-runtime/config.toml"},
        "nvml_path": {"type": "path"},
        "nvml_timeout": {"type": "int", "default": 60},
        "library_path": {"type": "path"},
        "libraries": LIBRARIES,
        "docker_socket": {"type": "path", "default": "/var/run/docker.sock"},
        "docker_unit": {"type": "str", "default": "docker.service"},
        "state_dir": {"type": "path", "default": "/var/lib/gpu-swarm"},
        "drain_timeout": {"type": "int", "default": 0},
        "health": {"type": "bool", "default": True},
        "health_report": {"type": "str", "choices": [ALL, FAULTS]},
        "health_now": {"type": "bool", "default": False},
        "health_faults": {"type": "list", "elements": "int", "default": list(xid_defaults.FAULTS)},
        "health_ignored": {"type": "list", "elements": "int", "default": list(xid_defaults.IGNORED)},
        "idle_after": {"type": "int", "default": 14400},
        "textfile": {"type": "path"},
        "on_loss": {"type": "str", "choices": list(AFTER_LOSS), "default": PAUSE},
        "isolation": {"type": "str", "choices": list(LEVELS)},
        "isolation_allow": {"type": "list", "elements": "str", "default": []},
        "devices": {"type": "dict", "default": {}},
        "cuda_overhead_mib": {"type": "int", "default": 300},
        **{name: {"type": "bool", "default": False} for name in ("look_for_images", "try_cuda")},
        "timeout": {"type": "int", "default": 120},
    }


def _argument(option: Option) -> dict[str, Any]:
    return {"type": option.type, **({"choices": list(option.choices)} if option.choices else {})}


def _advertise() -> dict[str, Any]:
    """Return the option ``advertise``: a list of rules. A rule has the options that all forms share, and the options of each form."""
    return {
        "type": "list",
        "elements": "dict",
        "default": [dict(rule) for rule in DEFAULT_RULES],
        "options": {
            "as": {"type": "str", "choices": list(FORMS), "required": True},
            **{name: _argument(option) for form in FORMS.values() for name, option in form.options.items()},
            "select": {
                "type": "dict",
                "options": {
                    "uuid": {"type": "list", "elements": "str"},
                    "pci_bus_id": {"type": "list", "elements": "str"},
                    "index": {"type": "list", "elements": "int"},
                    "model": {"type": "list", "elements": "str"},
                    "min_memory_mib": {"type": "int"},
                },
            },
        },
    }
