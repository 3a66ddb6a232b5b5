# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Translates Compose keys that a stack does not support into equivalent keys (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError
from .fields import Notes, mapping, text_of
from .shapes import size

# The place of each key under deploy.
_PLACES = {
    "cpus": ("resources", "limits", "cpus"),
    "mem_limit": ("resources", "limits", "memory"),
    "mem_reservation": ("resources", "reservations", "memory"),
    "pids_limit": ("resources", "limits", "pids"),
    "scale": ("replicas",),
}
_SIZES = ("mem_limit", "mem_reservation")
_RESTART = re.compile(r"no|always|unless-stopped|on-failure(?::(?P<most>[0-9]+))?")
# The kernel's default, in microseconds.
_PERIOD = 100_000
SHM = "/dev/shm"
GIB = 1024**3
# The shared memory of a service with ``ipc: host`` and without a limit of memory. Frameworks for GPUs ask for 8 GiB or more. A tmpfs takes memory
# only for what is written to it.
SHM_OF_HOST = 8 * GIB
NOT_SHARED = "Memory of the node and of other containers is not shared; MPS needs a bind mount of /dev/shm"


def move_to_deploy(service: dict[str, Any], where: str) -> dict[str, Any]:
    """Move keys of the service to their equivalents under deploy. As in Compose, two different values for the same thing are an error."""
    deploy, errors = mapping(service.get("deploy"), f"{where}.deploy"), Errors()
    for key, value in errors.collect(_values, service, where).items():
        deploy = errors.collect(_set, deploy, _PLACES[key], value, f"{where}.{key}", "deploy", instead=deploy)
    policy = errors.collect(_restart_policy, service.get("restart"), where)
    if policy and deploy.get("restart_policy") is None:
        deploy = {**deploy, "restart_policy": policy}
    result = {**service, "deploy": deploy} if deploy else service
    errors.refuse(result)
    return result


def _values(service: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the values of these keys. Drop a zero if it means no limit for Docker."""
    values, errors = {key: service[key] for key in _PLACES if service.get(key) is not None}, Errors()
    if "cpus" not in values and service.get("cpu_quota") is not None:
        values["cpus"] = errors.collect(_cpus_of_quota, service, where, instead=0)
    values.update({key: errors.collect(size, values[key], f"{where}.{key}", instead=0) for key in _SIZES if key in values})
    result = {key: value for key, value in values.items() if key == "scale" or str(value) not in ("0", "0.0", "-1")}
    errors.refuse(result)
    return result


def _cpus_of_quota(service: dict[str, Any], where: str) -> str | int:
    """Return the number of CPUs that the quota allows; 0 for no limit."""
    numbers = {"cpu_quota": service["cpu_quota"], "cpu_period": service.get("cpu_period") or _PERIOD}
    for key, value in numbers.items():
        if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]+", str(value)):
            raise GpuSwarmError(f"{where}.{key} is {value!r}, but must be a whole number of microseconds. Use cpus instead.")
    quota, period = (int(value) for value in numbers.values())
    return f"{round(Decimal(quota) / period, 3):f}" if quota > 0 and period > 0 else 0


def _set(deploy: dict[str, Any], path: tuple[str, ...], value: Any, where: str, parent: str) -> dict[str, Any]:
    key, *rest = path
    place = f"{parent}.{key}"
    if rest:
        inner = mapping(deploy.get(key), f"{where.rpartition('.')[0]}.{place}")
        return {**deploy, key: _set(inner, tuple(rest), value, where, place)}
    former = deploy.get(key)
    if former is not None and not _is_same(former, value, key):
        raise GpuSwarmError(f"{where} and {place} have different values. Remove one of them.")
    return {**deploy, key: value if former is None else former}


def _is_same(left: Any, right: Any, key: str) -> bool:
    try:
        return size(left, key) == size(right, key) if key == "memory" else Decimal(str(left)) == Decimal(str(right))
    except InvalidOperation:
        return False


def _restart_policy(restart: Any, where: str) -> dict[str, Any]:
    """Return the restart policy, or {} if it is swarm's default."""
    if restart in (None, ""):
        return {}
    match = _RESTART.fullmatch(restart) if isinstance(restart, str) else None
    if match is None:
        shown = text_of(restart, f"{where}.restart")
        raise GpuSwarmError(f"{where}.restart is {shown!r}, but must be no, always, on-failure or unless-stopped. Write one of them, in quotes.")
    if restart == "no":
        return {"condition": "none"}
    if restart.startswith("on-failure"):
        max_attempts = int(match.group("most") or 0)
        return {"condition": "on-failure", **({"max_attempts": max_attempts} if max_attempts else {})}
    return {}


def shared_memory(service: dict[str, Any], targets: list[str], where: str, notes: Notes) -> list[dict[str, Any]]:
    """Return a mount for ``shm_size``, or else for ``ipc: host``. As in Docker, it has no effect if the service mounts something else at its path."""
    shm_size, ipc = service.get("shm_size"), text_of(service.get("ipc"), f"{where}.ipc")
    size_in_bytes = 0 if shm_size is None else size(shm_size, f"{where}.shm_size")
    if ipc and (size_in_bytes or SHM in targets):
        notes.ignored(where, "ipc", f"nothing: {'shm_size is set' if size_in_bytes else f'the service mounts something at {SHM}'}")
    elif ipc and ipc != "host":
        notes.ignored(where, "ipc", "for more shared memory use shm_size")
    elif ipc:
        size_in_bytes = _shared_memory_of_host(service, where, notes)
    if size_in_bytes and SHM in targets:
        notes.ignored(where, "shm_size", f"nothing: the service mounts something at {SHM}")
    return [{"type": "tmpfs", "target": SHM, "tmpfs": {"size": size_in_bytes}}] if size_in_bytes and SHM not in targets else []


def _shared_memory_of_host(service: dict[str, Any], where: str, notes: Notes) -> int:
    """Return the size of /dev/shm in bytes for ``ipc: host``. A node's own /dev/shm has half of its memory; so a service gets half of its limit."""
    limits = ((service.get("deploy") or {}).get("resources") or {}).get("limits") or {}
    limit = size(limits["memory"], f"{where}.deploy.resources.limits.memory") if limits.get("memory") is not None else 0
    size_in_bytes = limit // 2 or SHM_OF_HOST
    shown = f"{size_in_bytes / GIB:.3g} GiB" if size_in_bytes >= GIB else f"{size_in_bytes / 1024**2:.4g} MiB"
    reason = "half of its limit of memory, against which used pages count" if limit else "the size for a service without a limit of memory"
    notes.add(f"{where}.ipc: host becomes a tmpfs of {shown} at {SHM}, {reason}. {NOT_SHARED}. To choose the size, write shm_size instead of ipc")
    return size_in_bytes


def network_of_host(service: dict[str, Any], declared: dict[str, Any], where: str) -> list[str]:
    """Return the networks of a service with ``network_mode: host``, which is only the host network, under a key that is free in the file. [] for
    other modes.
    """
    mode = text_of(service.get("network_mode"), f"{where}.network_mode")
    if mode and service.get("networks"):
        raise GpuSwarmError(f"{where} has both network_mode and networks. Remove one of them.")
    entry = declared.get("host", {"external": True})
    is_host = isinstance(entry, dict) and entry.get("external") and entry.get("name", "host") == "host"
    return [] if mode != "host" else ["host"] if is_host else ["network_of_the_node"]
