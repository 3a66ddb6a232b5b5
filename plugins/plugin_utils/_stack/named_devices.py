# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Translates the devices of a service into names of gpu_swarm_devices, and the names into constraints (pure).

Swarm passes no devices. The guard of a node gives a task the devices whose names are in a variable of the service.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError
from ...module_utils._policy import offered_devices
from ...module_utils._policy.generic_resources import shorten
from ...module_utils._policy.offered_devices import VARIABLE
from . import placement
from .fields import Notes, kind_of
from .unsupported_gpu_requests import is_request

SETTING = "gpu_swarm_devices"
# Returns the paths of each name, of all hosts. Called only if a service has devices. None: leave the devices out.
Offered = Callable[[], Mapping[str, Sequence[str]]] | None
_MODE = re.compile(r"[rwm]{1,3}")


def translate(devices: Any, asked: Sequence[str], offered: Offered, where: str, notes: Notes) -> list[str]:
    """Return the names that have the paths of these ``devices``, without the names that the service asks for already (``asked``)."""
    if offered is None or devices in (None, []):
        return []
    if not isinstance(devices, list):
        raise GpuSwarmError(f"{where} is {kind_of(devices)}, but must be a list. Begin each device with '- '.")
    errors, names, unnamed = Errors(), list[str](), list[str]()
    for number, entry in enumerate(devices):
        if is_request(entry):  # unsupported_gpu_requests has refused it
            continue
        path = errors.collect(_path, entry, f"{where}[{number}]", notes)
        if path is None:
            continue
        having = [name for name, paths in offered().items() if any(offered_devices.covers(pattern, path) for pattern in paths)]
        if not having:
            unnamed.append(path)
        elif not {*asked, *names}.intersection(having):
            errors.collect(_refuse_several, having, path, f"{where}[{number}]")
            names.append(having[0])
    errors.collect(_refuse_unnamed, list(dict.fromkeys(unnamed)), where)
    errors.refuse([])
    return names


def with_names(service: dict[str, Any], names: Sequence[str], where: str) -> dict[str, Any]:
    """Return the service with these names in the variable, and with the constraints of all names in it."""
    environment, placed = service.get("environment") or {}, (service.get("deploy") or {}).get("placement") or {}
    text = str(environment.get(VARIABLE) or "")
    if names:
        text = ",".join([*offered_devices.names_in(text), *names])
        service = {**service, "environment": {**environment, VARIABLE: text}}
    constraints = offered_devices.constraints(text, placed.get("constraints") or [], f"{where}: {VARIABLE}")
    return placement.with_constraints(service, constraints, {}) if constraints else service


def names_of(service: Mapping[str, Any], where: str) -> list[str]:
    """Return the names that the service asks for with the variable."""
    text = str((service.get("environment") or {}).get(VARIABLE) or "")
    offered_devices.constraints(text, (), f"{where}: {VARIABLE}")  # refuses invalid names
    return offered_devices.names_in(text)


def _path(entry: Any, where: str, notes: Notes) -> str:
    """Return the path of a device, which must be the same on the node and in the container."""
    source, target, mode = _parts(entry, where)
    if not source.startswith("/"):
        what = "a CDI name, which swarm does not pass on" if "=" in source else "no absolute path"
        raise GpuSwarmError(
            f"{where} is {shorten(source)}, {what}. Remove it, give the path of the device a name in {SETTING}, and write {VARIABLE}: NAME under "
            "environment."
        )
    path, inside = (posixpath.normpath("/" + written.lstrip("/")) for written in (source, target))
    if not offered_devices.is_path(path):
        raise GpuSwarmError(f"{where} is {shorten(source)}, but must be a path below /dev. Correct it or remove it.")
    if offered_devices.is_never_given(path):
        raise GpuSwarmError(f"{where} is {path}, {offered_devices.why_never(path)}")
    if path != inside:
        raise GpuSwarmError(
            f"{where} puts {path} at {shorten(target)}, but a task gets a device only at its own path. Write {path}, and use that path in the "
            "container."
        )
    if not _MODE.fullmatch(mode):
        raise GpuSwarmError(f"{where} has the mode {shorten(mode)}, but a mode has the letters r, w and m. Correct it or remove it.")
    if "w" not in mode or "r" not in mode:
        notes.add(f"{where} has the mode {mode}, but tasks may read and write their devices")
    return path


def _parts(entry: Any, where: str) -> tuple[str, str, str]:
    """Return the path on the node, the path in the container, and the mode."""
    if isinstance(entry, dict):
        parts = [entry.get(key) for key in ("source", "target", "permissions")]
        if set(entry) - {"source", "target", "permissions"} or not all(part is None or isinstance(part, str) for part in parts):
            raise GpuSwarmError(f"{where} must have only source, target and permissions, each as text. Write it as {{source: /dev/fuse}}.")
    elif isinstance(entry, str):
        parts = [*entry.strip().split(":"), None, None]
        if len(parts) > 5:
            raise GpuSwarmError(f"{where} is {shorten(entry)}, but must be HOST, HOST:CONTAINER or HOST:CONTAINER:MODE. Correct it.")
        if parts[1] and not parts[2] and _MODE.fullmatch(parts[1]):  # as in 'docker run --device'
            parts = [parts[0], None, parts[1]]
    else:
        raise GpuSwarmError(f"{where} is {kind_of(entry)}, but must be text. Write the path of a device, such as /dev/fuse.")
    source, target, mode = parts[:3]
    return source or "", target or source or "", mode or "rwm"


def _refuse_several(having: Sequence[str], path: str, where: str) -> None:
    if len(having) > 1:
        raise GpuSwarmError(
            f"{where} is {path}, which several names of {SETTING} have: {', '.join(having)}. Remove it, and write those that the service needs under "
            f"environment, such as {VARIABLE}: {having[0]}."
        )


def _refuse_unnamed(paths: Sequence[str], where: str) -> None:
    if paths:
        raise GpuSwarmError(
            f"{where} has {', '.join(paths)}, which no name of {SETTING} has, and swarm itself passes no devices. Give the devices a name in your "
            f"inventory, such as {SETTING}: {{{_example_name(paths[0])}: [{', '.join(map(_example_path, paths))}]}}, run provision, and deploy "
            "again. If the service runs without them, remove them."
        )


# Directories of devices that Compose files often name.
_DIRECTORIES = ("/dev/dri", "/dev/infiniband", "/dev/snd", "/dev/input", "/dev/dma_heap")


def _example_path(path: str) -> str:
    return f"{path}/*" if path in _DIRECTORIES else path


def _example_name(path: str) -> str:
    """Return a name for the example of a message: the directory of the device, or the device without its number."""
    parts = path.split("/")[2:]
    word = re.sub(r"[^a-z0-9]+", "-", (parts[0] if len(parts) > 1 else parts[0].rstrip("0123456789")).lower()).strip("-")[:32]
    return word if offered_devices.is_name(word) else "device"
