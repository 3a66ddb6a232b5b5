# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a service of a Compose file mounts (pure), as a stack takes it.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError
from . import keys
from .fields import Notes, kind_of, only, texts
from .shapes import no_mount, size

_RELATIVE = re.compile(r"\.{1,2}(?:/|\Z)|~|[^/]+/")
_OWN_FOLDER = re.compile(r"\$\{?(?:PWD|HOME)\b[^:]*")
IN_BYTES = "write it in bytes, such as size=64m; without a size it may take half of the node's memory"
# Of those of tmpfs: what Docker mounts each with, and what a stack cannot allow (WithMounts in daemon/oci_linux.go of moby).
_BY_DEFAULT = ("rw", "noexec", "nosuid", "nodev")
_ALLOWS = {"exec": "run programs", "suid": "run programs as their owners", "dev": "open devices"}
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]")


def volumes(found: Any, where: str, notes: Notes) -> list[Any]:
    if not isinstance(found, list):
        raise GpuSwarmError(f"{where} is {kind_of(found)}, but must be a list. Begin each volume with '- '.")
    errors = Errors()
    made = [errors.of(_volume, item, place, notes, instead=no_mount(place)) for item, place in _each(found, where)]
    errors.refuse(made)  # each of them is there, so that those that follow have the same numbers
    return made


def _each(found: list[Any], where: str) -> list[tuple[Any, str]]:
    """Each of them, and where it stands."""
    return [(item, f"{where}[{number}]") for number, item in enumerate(found)]


def tmpfs(found: Any, where: str, notes: Notes) -> list[dict[str, Any]]:
    """As mounts, of which a stack has the size alone: of ``tmpfs`` itself 'docker stack deploy' makes nothing."""
    errors = Errors()
    made = [errors.of(_tmpfs, text, place, notes) for text, place in _each(texts(found, where), where)]
    errors.refuse([one for one in made if one])
    return made


def _tmpfs(text: str, where: str, notes: Notes) -> dict[str, Any]:
    target, _colon, options = text.partition(":")
    if not target.startswith("/"):
        raise GpuSwarmError(f"{where}: {target or 'nothing'} is no full path. Write one, such as /run:size=64m.")
    mount: dict[str, Any] = {"type": "tmpfs", "target": target}
    for option in filter(None, options.split(",")):
        name, _sign, value = option.partition("=")
        if name == "size" and value.endswith("%"):
            notes.left_out(where, option, IN_BYTES)
        elif name == "size":
            mount["tmpfs"] = {"size": size(value, f"{where}.size")}
        elif option == "ro":
            mount["read_only"] = True
        elif option in _ALLOWS:
            notes.left_out(where, option, f"a task cannot {_ALLOWS[option]} from its tmpfs: mount a volume there")
        elif option not in _BY_DEFAULT:
            notes.left_out(where, option, "have the command prepare the directory")
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
    errors.of(only, item, keys.MOUNT, where, "A mount has type, source, target, read_only, and bind, volume or tmpfs.")
    if item.get("type") == "bind":
        errors.of(_refuse_relative, str(item.get("source") or "."), where)
    made = dict(item)
    for kind, known in keys.MOUNT_OPTIONS.items():
        if isinstance(item.get(kind), dict):
            made[kind] = errors.of(_options, item[kind], known, f"{where}.{kind}", notes, instead={})
    errors.of(_refuse_mixed, made, where)
    if isinstance(made.get("tmpfs"), dict) and "size" in made["tmpfs"]:
        made["tmpfs"]["size"] = errors.of(size, made["tmpfs"]["size"], f"{where}.tmpfs.size")
    errors.refuse()
    return {key: value for key, value in made.items() if value != {}}


def _refuse_mixed(item: dict[str, Any], where: str) -> None:
    """What no type of mount has, of which Docker would say so once other parts of the stack are made."""
    kind = item.get("type")
    if kind not in keys.MOUNT_TYPES:
        raise GpuSwarmError(f"{where}: its type is {'empty' if not kind else repr(kind)}. Write volume, bind, tmpfs, npipe or cluster.")
    strange = [key for key in keys.MOUNT_OPTIONS if item.get(key) not in (None, {}) and key != kind]
    errors = Errors()
    errors.add(*(f"{where} has {key}, which is for the type {key}. Take it out." for key in strange))
    if kind == "tmpfs" and item.get("source"):
        errors.add(f"{where}: a tmpfs has no source. Take it out, or write another type.")
    errors.refuse()


def is_path(source: str) -> bool:
    """Whether Docker takes it for a path of the node, and not for the name of a volume."""
    return source.startswith((".", "/", "~")) or bool(_WINDOWS.match(source))


def targets(found: list[Any]) -> list[str]:
    return [target.rstrip("/") for one in found if (target := target_of(one))]


def refuse_same_target(found: list[Any], where: str) -> None:
    """Refuses what swarm would refuse once other parts of the stack are made (validateMounts in swarmkit's manager/controlapi)."""
    there, errors = targets(found), Errors()
    for number, target in enumerate(there):
        if target in there[:number]:
            errors.add(f"{where} mounts two things at {target or '/'}, under volumes or tmpfs. Take one of them out.")
    errors.refuse()


def target_of(mount: Any) -> str:
    if isinstance(mount, dict):
        return str(mount.get("target") or "")
    if _WINDOWS.match(mount):
        return ""
    first, colon, rest = mount.partition(":")
    return rest.partition(":")[0] if colon else first


def _options(options: dict[str, Any], known: frozenset[str], where: str, notes: Notes) -> dict[str, Any]:
    if "subpath" in options:
        raise GpuSwarmError(f"{where}.subpath: swarm mounts whole volumes. Mount it whole, and have the service use the directory in it.")
    if options.get("recursive") in ("disabled", "readonly"):
        raise GpuSwarmError(
            f"{where}.recursive: swarm also mounts what is mounted below it, writable. Remove the key, and mount a directory without mounts below it."
        )
    for key in sorted(options.keys() - known):
        notes.left_out(where, key, "prepare the directory on the nodes, or in the image")
    return {key: value for key, value in options.items() if key in known}


def _refuse_relative(source: str, where: str, form: re.Pattern[str] = _RELATIVE) -> None:
    found = form.match(source)
    if found:
        path = found.group() if form is _OWN_FOLDER else source
        raise GpuSwarmError(
            f"{where}: the path {path} is on your machine, and a task may run on any node. Write a full path that all nodes have, such as that of "
            "a shared file system, or a named volume; what is only a file goes into configs."
        )


def refuse_own_folders(found: dict[str, Any], deployed: Collection[str], name: str) -> None:
    """Refuses paths that begin with a folder of yours, in a file whose variables are not replaced yet: afterwards they look like any other.
    ``deployed`` are the services that no profile leaves out."""
    errors = Errors()
    for key in deployed:
        service = found["services"][key]
        volumes = service.get("volumes") if isinstance(service, dict) else None
        for item, place in _each(volumes if isinstance(volumes, list) else [], f"{name}: services.{key}.volumes"):
            errors.of(_refuse_relative, str(item.get("source") if isinstance(item, dict) else item), place, _OWN_FOLDER)
    for key, volume in (found["volumes"].items() if isinstance(found.get("volumes"), dict) else ()):
        options = volume.get("driver_opts") if isinstance(volume, dict) else None
        device = str(options.get("device") if isinstance(options, dict) else "")
        errors.of(_refuse_relative, device, f"{name}: volumes.{key}.driver_opts.device", _OWN_FOLDER)
    errors.refuse()


def refuse_relative_device(volume: dict[str, Any], where: str) -> None:
    """Refuses a volume that is a folder of your machine."""
    options = volume.get("driver_opts")
    if isinstance(options, dict) and "bind" in str(options.get("o") or "").split(","):
        _refuse_relative(str(options.get("device") or ""), f"{where}.driver_opts.device")
