# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Translates keys that a stack does not have into those that mean the same there (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError
from .fields import Notes, mapping, text_of
from .shapes import size

# By the key its place under deploy.
_PLACES = {
    "cpus": ("resources", "limits", "cpus"),
    "mem_limit": ("resources", "limits", "memory"),
    "mem_reservation": ("resources", "reservations", "memory"),
    "pids_limit": ("resources", "limits", "pids"),
    "scale": ("replicas",),
}
_SIZES = ("mem_limit", "mem_reservation")
_RESTART = re.compile(r"no|always|unless-stopped|on-failure(?::(?P<most>[0-9]+))?")
# Microseconds, as the kernel has it.
_PERIOD = 100_000
SHM = "/dev/shm"


def under_deploy(service: dict[str, Any], where: str) -> dict[str, Any]:
    """The service, with keys moved to those of deploy that mean the same. As in Compose, both keys must not have different values."""
    deploy, errors = mapping(service.get("deploy"), f"{where}.deploy"), Errors()
    for key, value in errors.of(_values, service, where).items():
        deploy = errors.of(_with, deploy, _PLACES[key], value, f"{where}.{key}", "deploy", instead=deploy)
    policy = errors.of(_restart_policy, service.get("restart"), where)
    if policy and deploy.get("restart_policy") is None:
        deploy = {**deploy, "restart_policy": policy}
    made = {**service, "deploy": deploy} if deploy else service
    errors.refuse(made)
    return made


def _values(service: dict[str, Any], where: str) -> dict[str, Any]:
    """Zero, where Docker takes it for no limit, is left out."""
    found, errors = {key: service[key] for key in _PLACES if service.get(key) is not None}, Errors()
    if "cpus" not in found and service.get("cpu_quota") is not None:
        found["cpus"] = errors.of(_share, service, where, instead=0)
    found.update({key: errors.of(size, found[key], f"{where}.{key}", instead=0) for key in _SIZES if key in found})
    made = {key: value for key, value in found.items() if key == "scale" or str(value) not in ("0", "0.0", "-1")}
    errors.refuse(made)
    return made


def _share(service: dict[str, Any], where: str) -> str | int:
    """How many CPUs a quota of each period is; 0 for no limit."""
    numbers = {"cpu_quota": service["cpu_quota"], "cpu_period": service.get("cpu_period") or _PERIOD}
    for key, value in numbers.items():
        if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]+", str(value)):
            raise GpuSwarmError(f"{where}.{key} is {value!r}, but must be a whole number of microseconds. Write cpus instead.")
    quota, period = (int(value) for value in numbers.values())
    return f"{round(Decimal(quota) / period, 3):f}" if quota > 0 and period > 0 else 0


def _with(deploy: dict[str, Any], path: tuple[str, ...], value: Any, where: str, below: str) -> dict[str, Any]:
    key, *rest = path
    here = f"{below}.{key}"
    if rest:
        inner = mapping(deploy.get(key), f"{where.rpartition('.')[0]}.{here}")
        return {**deploy, key: _with(inner, tuple(rest), value, where, here)}
    former = deploy.get(key)
    if former is not None and not _is_same(former, value, key):
        raise GpuSwarmError(f"{where} and {here} have two values. Take one of them out.")
    return {**deploy, key: value if former is None else former}


def _is_same(one: Any, other: Any, key: str) -> bool:
    try:
        return size(one, key) == size(other, key) if key == "memory" else Decimal(str(one)) == Decimal(str(other))
    except InvalidOperation:
        return False


def _restart_policy(found: Any, where: str) -> dict[str, Any]:
    """The restart policy; empty if swarm does the same without one."""
    if found in (None, ""):
        return {}
    match = _RESTART.fullmatch(found) if isinstance(found, str) else None
    if match is None:
        shown = text_of(found, f"{where}.restart")
        raise GpuSwarmError(f"{where}.restart is {shown!r}, but must be no, always, on-failure or unless-stopped. Write one of them, in quotes.")
    if found == "no":
        return {"condition": "none"}
    if found.startswith("on-failure"):
        most = int(match.group("most") or 0)
        return {"condition": "on-failure", **({"max_attempts": most} if most else {})}
    return {}


def shared_memory(found: Any, targets: list[str], where: str, notes: Notes) -> list[dict[str, Any]]:
    """``shm_size`` as a mount. As in Docker, it means nothing where something else is mounted there."""
    wanted = 0 if found is None else size(found, f"{where}.shm_size")
    if wanted and SHM in targets:
        notes.left_out(where, "shm_size", f"nothing: the service mounts something at {SHM}")
    return [{"type": "tmpfs", "target": SHM, "tmpfs": {"size": wanted}}] if wanted and SHM not in targets else []


def network_of_host(service: dict[str, Any], declared: dict[str, Any], where: str) -> list[str]:
    """The networks of a service with ``network_mode: host``: that of its node, under a name that the file leaves. None for another service."""
    mode = text_of(service.get("network_mode"), f"{where}.network_mode")
    if mode and service.get("networks"):
        raise GpuSwarmError(f"{where} has both network_mode and networks. Take one of them out.")
    entry = declared.get("host", {"external": True})
    is_host = isinstance(entry, dict) and entry.get("external") and entry.get("name", "host") == "host"
    return [] if mode != "host" else ["host"] if is_host else ["network_of_the_node"]
