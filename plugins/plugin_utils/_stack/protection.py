# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuses keys of a service that protect something and that swarm does not have (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError
from .fields import text_of, texts

# Options of security that give a task more than it has without them.
_LOOSENS = re.compile(
    r"(?:seccomp|apparmor|systempaths)[:=]unconfined|label[:=]disable|seccomp[:=](?:builtin|default)|apparmor[:=]docker-default"
    r"|no-new-privileges[:=]false|writable-cgroups(?:[:=](?:true|false))?|unmask[:=].*",
    re.IGNORECASE,
)
# In which a task has a network of its own, as on a swarm.
_OWN_NETWORK = (None, "", "bridge", "default", "host")
# Other values of these keys give a task more, or what it has by default.
_ISOLATES = {
    "cgroup": (("private",), "nodes with cgroup v2 do that by default; on others set default-cgroupns-mode in daemon.json"),
    "cgroupns_mode": (("private",), "nodes with cgroup v2 do that by default; on others set default-cgroupns-mode in daemon.json"),
    "userns_mode": (("auto", "keep-id", "nomap", "private"), "set userns-remap in daemon.json of the nodes"),
}


def refuse(service: dict[str, Any], where: str) -> None:
    """Refuse keys without which a task would be less protected."""
    errors = Errors()
    errors.of(_refuse_options, service.get("security_opt"), f"{where}.security_opt")
    errors.of(_refuse_mode, service.get("network_mode"), f"{where}.network_mode")
    for key, (values, instead) in _ISOLATES.items():
        value = str(service.get(key) or "").partition(":")[0]
        if value in values:
            errors.add(f"{where}.{key}: {value} cannot be passed on to swarm, and the task would run without it. Take it out; {instead}.")
    errors.refuse()


def _refuse_options(found: Any, where: str) -> None:
    errors = Errors()
    for option in texts(found, where):
        if not _LOOSENS.fullmatch(option.replace(" ", "")):
            name = re.split(r"[:=]", option, maxsplit=1)[0]
            errors.add(
                f"{where}: {name} cannot be passed on to swarm, and the task would run without that protection. Set it for dockerd on the nodes "
                "(no-new-privileges and seccomp-profile in daemon.json), and take it out."
            )
    errors.refuse()


def _refuse_mode(found: Any, where: str) -> None:
    mode = text_of(found, where)
    if mode == "none":
        raise GpuSwarmError(
            f"{where} is none, and swarm gives each task a network, so the task would have one after all. Remove it. If a network "
            "without a way out is enough, use one with internal: true."
        )
    if mode not in _OWN_NETWORK:
        raise GpuSwarmError(
            f"{where} is {mode!r}, and swarm gives each task a network of its own, not the one that you want. Remove "
            "it, and write networks; services of one network reach each other by name."
        )
