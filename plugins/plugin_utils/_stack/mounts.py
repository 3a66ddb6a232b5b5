# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Translates the mounts of a Compose service for a stack (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError
from . import keys
from .fields import Notes, kind_of, refuse_unknown, texts
from .shapes import no_mount, size

_RELATIVE = re.compile(r"\.{1,2}(?:/|\Z)|~|[^/]+/")
_OWN_FOLDER = re.compile(r"\$\{?(?:PWD|HOME)\b[^:]*")
IN_BYTES = "write a size such as size=64m; without one it may use half of the node's memory"
# Options of tmpfs: Docker's defaults, and options that a stack cannot set (WithMounts in daemon/oci_linux.go of moby).
_TMPFS_DEFAULTS = ("rw", "noexec", "nosuid", "nodev")
_TMPFS_REFUSED = {"exec": "run programs", "suid": "run programs as their owners", "dev": "open devices"}
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]")


def translate_volumes(volumes: Any, where: str, notes: Notes) -> list[Any]:
    if not isinstance(volumes, list):
        raise GpuSwarmError(f"{where} is {kind_of(volumes)}, but must be a list. Begin each volume with '- '.")
    errors = Errors()
    result = [errors.collect(_volume, item, place, notes, instead=no_mount(place)) for item, place in _with_places(volumes, where)]
    errors.refuse(result)  # refused volumes are replaced, not removed, so that other volumes keep their numbers
    return result


def _with_places(items: list[Any], where: str) -> list[tuple[Any, str]]:
    """Return each item together with its place for messages."""
    return [(item, f"{where}[{number}]") for number, item in enumerate(items)]


def translate_tmpfs(tmpfs: Any, where: str, notes: Notes) -> list[dict[str, Any]]:
    """Translate ``tmpfs`` into mounts, because 'docker stack deploy' ignores the key. A stack supports only the size."""
    errors = Errors()
    result = [errors.collect(_tmpfs, text, place, notes) for text, place in _with_places(texts(tmpfs, where), where)]
    errors.refuse([mount for mount in result if mount])
    return result


def _tmpfs(text: str, where: str, notes: Notes) -> dict[str, Any]:
    target, _colon, options = text.partition(":")
    if not target.startswith("/"):
        raise GpuSwarmError(f"{where}: {target or 'nothing'} is not an absolute path. Write one, such as /run:size=64m.")
    mount: dict[str, Any] = {"type": "tmpfs", "target": target}
    for option in filter(None, options.split(",")):
        name, _sign, value = option.partition("=")
        if name == "size" and value.endswith("%"):
            notes.ignored(where, option, IN_BYTES)
        elif name == "size":
            mount["tmpfs"] = {"size": size(value, f"{where}.size")}
        elif option == "ro":
            mount["read_only"] = True
        elif option in _TMPFS_REFUSED:
            notes.ignored(where, option, f"a task cannot {_TMPFS_REFUSED[option]} from its tmpfs: mount a volume there")
        elif option not in _TMPFS_DEFAULTS:
            notes.ignored(where, option, "have the command prepare the directory")
    return mount


def _volume(item: Any, where: str, notes: Notes) -> Any:
    if isinstance(item, str):
        source, colon, _rest = item.partition(":")
        if colon and not _WINDOWS.match(item):
            _refuse_relative(source, where)
        return item
    if not isinstance(item, dict):
        raise GpuSwarmError(f"{where} is {kind_of(item)}. Write it as source:target, or as a mapping.")
    errors = Errors()
    errors.collect(refuse_unknown, item, keys.MOUNT, where, "A mount supports type, source, target, read_only, and bind, volume or tmpfs.")
    if item.get("type") == "bind":
        errors.collect(_refuse_relative, str(item.get("source") or "."), where)
    result = dict(item)
    for kind, supported in keys.MOUNT_OPTIONS.items():
        if isinstance(item.get(kind), dict):
            result[kind] = errors.collect(_options, item[kind], supported, f"{where}.{kind}", notes, instead={})
    errors.collect(_refuse_mixed, result, where)
    if isinstance(result.get("tmpfs"), dict) and "size" in result["tmpfs"]:
        result["tmpfs"]["size"] = errors.collect(size, result["tmpfs"]["size"], f"{where}.tmpfs.size")
    errors.refuse()
    return {key: value for key, value in result.items() if value != {}}


def _refuse_mixed(item: dict[str, Any], where: str) -> None:
    """Refuse keys that do not fit the type of the mount. Docker would refuse these keys only after it has created other parts of the stack."""
    kind = item.get("type")
    if kind not in keys.MOUNT_TYPES:
        raise GpuSwarmError(f"{where}: its type is {'empty' if not kind else repr(kind)}. Write volume, bind, tmpfs, npipe or cluster.")
    unfit_keys = [key for key in keys.MOUNT_OPTIONS if item.get(key) not in (None, {}) and key != kind]
    errors = Errors()
    errors.add(*(f"{where} has {key}, which needs the type {key}. Remove it." for key in unfit_keys))
    if kind == "tmpfs" and item.get("source"):
        errors.add(f"{where}: a tmpfs has no source. Remove it, or use another type.")
    errors.refuse()


def is_path(source: str) -> bool:
    """Return whether Docker reads this as a path of the node, not as the name of a volume."""
    return source.startswith((".", "/", "~")) or bool(_WINDOWS.match(source))


def targets_of(mounts: list[Any]) -> list[str]:
    return [target.rstrip("/") for mount in mounts if (target := target_of(mount))]


def refuse_same_target(mounts: list[Any], where: str) -> None:
    """Refuse two mounts with one target. Swarm would refuse them only after other parts of the stack exist (validateMounts in swarmkit's
    manager/controlapi).
    """
    all_targets, errors = targets_of(mounts), Errors()
    for number, target in enumerate(all_targets):
        if target in all_targets[:number]:
            errors.add(f"{where} mounts two things at {target or '/'}, under volumes or tmpfs. Remove one of them.")
    errors.refuse()


def target_of(mount: Any) -> str:
    if isinstance(mount, dict):
        return str(mount.get("target") or "")
    if _WINDOWS.match(mount):
        return ""
    first, colon, rest = mount.partition(":")
    return rest.partition(":")[0] if colon else first


def _options(options: dict[str, Any], supported: frozenset[str], where: str, notes: Notes) -> dict[str, Any]:
    if "subpath" in options:
        raise GpuSwarmError(f"{where}.subpath: swarm mounts only whole volumes. Mount the whole volume, and let the service use the directory in it.")
    if options.get("recursive") in ("disabled", "readonly"):
        raise GpuSwarmError(
            f"{where}.recursive: swarm also mounts everything below it, and the task can write there. Remove the key, and mount a "
            "directory without mounts below it."
        )
    for key in sorted(options.keys() - supported):
        notes.ignored(where, key, "prepare the directory on the nodes, or in the image")
    return {key: value for key, value in options.items() if key in supported}


def _refuse_relative(source: str, where: str, pattern: re.Pattern[str] = _RELATIVE) -> None:
    match = pattern.match(source)
    if match:
        path = match.group() if pattern is _OWN_FOLDER else source
        raise GpuSwarmError(
            f"{where}: the path {path} is on your machine, but a task may run on any node. Use an absolute path that exists on all nodes, such as a "
            "shared file system, or a named volume. Put single files into configs."
        )


def refuse_own_folders(document: dict[str, Any], deployed: Collection[str], name: str) -> None:
    """Refuse paths that begin with $HOME or $PWD. Call this function before variables are replaced, because afterwards such paths look like any other
    path. ``deployed`` has the services that the profiles select.
    """
    errors = Errors()
    for key in deployed:
        service = document["services"][key]
        volumes = service.get("volumes") if isinstance(service, dict) else None
        for item, place in _with_places(volumes if isinstance(volumes, list) else [], f"{name}: services.{key}.volumes"):
            errors.collect(_refuse_relative, str(item.get("source") if isinstance(item, dict) else item), place, _OWN_FOLDER)
    for key, volume in (document["volumes"].items() if isinstance(document.get("volumes"), dict) else ()):
        options = volume.get("driver_opts") if isinstance(volume, dict) else None
        device = str(options.get("device") if isinstance(options, dict) else "")
        errors.collect(_refuse_relative, device, f"{name}: volumes.{key}.driver_opts.device", _OWN_FOLDER)
    errors.refuse()


def refuse_relative_device(volume: dict[str, Any], where: str) -> None:
    """Refuse a volume that is a folder of the user's machine."""
    options = volume.get("driver_opts")
    if isinstance(options, dict) and "bind" in str(options.get("o") or "").split(","):
        _refuse_relative(str(options.get("device") or ""), f"{where}.driver_opts.device")
