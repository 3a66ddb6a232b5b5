# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuses keys that protect a service but that swarm does not support (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError
from .fields import text_of, texts

# Security options that give a task more rights. Ignoring them is safe.
_LOOSENS = re.compile(
    r"(?:seccomp|apparmor|systempaths)[:=]unconfined|label[:=]disable|seccomp[:=](?:builtin|default)|apparmor[:=]docker-default"
    r"|no-new-privileges[:=]false|writable-cgroups(?:[:=](?:true|false))?|unmask[:=].*",
    re.IGNORECASE,
)
# Modes that a stack supports, or for which a stack has an equivalent.
_SUPPORTED_MODES = (None, "", "bridge", "default", "host")
# Values that isolate a task further. Other values of these keys give it more rights, or the default.
_ISOLATES = {
    "cgroup": (("private",), "nodes with cgroup v2 do that by default; on others set default-cgroupns-mode in daemon.json"),
    "cgroupns_mode": (("private",), "nodes with cgroup v2 do that by default; on others set default-cgroupns-mode in daemon.json"),
    "userns_mode": (("auto", "keep-id", "nomap", "private"), "set userns-remap in daemon.json of the nodes"),
}


def refuse(service: dict[str, Any], where: str) -> None:
    """Refuse keys that swarm would ignore although they protect something."""
    errors = Errors()
    errors.collect(_refuse_options, service.get("security_opt"), f"{where}.security_opt")
    errors.collect(_refuse_mode, service.get("network_mode"), f"{where}.network_mode")
    for key, (values, instead) in _ISOLATES.items():
        value = str(service.get(key) or "").partition(":")[0]
        if value in values:
            errors.add(f"{where}.{key}: {value} is not supported on Swarm, so the task would run without that protection. Remove it; {instead}.")
    errors.refuse()


def _refuse_options(options: Any, where: str) -> None:
    errors = Errors()
    for option in texts(options, where):
        if not _LOOSENS.fullmatch(option.replace(" ", "")):
            name = re.split(r"[:=]", option, maxsplit=1)[0]
            errors.add(
                f"{where}: {name} is not supported on Swarm, so the task would run without that protection. Set it for dockerd on the nodes "
                "(no-new-privileges and seccomp-profile in daemon.json), and remove it here."
            )
    errors.refuse()


def _refuse_mode(value: Any, where: str) -> None:
    mode = text_of(value, where)
    if mode == "none":
        raise GpuSwarmError(
            f"{where} is 'none', but on Swarm each task gets a network. Remove it. If a network without access to the outside is enough, use one "
            "with internal: true."
        )
    if mode not in _SUPPORTED_MODES:
        raise GpuSwarmError(
            f"{where} is {mode!r}, but on Swarm each task has its own network. Remove it and use networks: services in one network reach each "
            "other by name."
        )
