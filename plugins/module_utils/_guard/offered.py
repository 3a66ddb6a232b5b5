# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the devices that a node offers by name, and writes them into a container's config.json.

The guard imports this file only for a container with the variable bundle.OFFERED. A run uses it to see which devices a node has.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import glob
import os
import stat
from collections import namedtuple

from . import refusal
from .bundle import OFFERED, BundleError, name_of, split_words

TYPE_CHECKING = False  # typing is not imported: that would take a fifth of the guard's run time
if TYPE_CHECKING:
    from typing import Any, Iterator, Mapping, Sequence

MOST_DEVICES = 256  # of one name
# Paths that are never given. Users may create files in the last two folders.
_NEVER = ("/dev/nvidia", "/dev/vfio/", "/dev/shm/", "/dev/mqueue/")
_MEMORY = ("/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/crash")  # crash is the kernel's memory too, on Red Hat's systems
# Numbers of the kernel (Documentation/admin-guide/devices.txt). A device may have another name, so its number decides too.
_MEMORY_MAJOR, _MEMORY_MINORS = 1, (1, 2, 4, 11, 12)  # mem, kmem, port, kmsg, oldmem
_NVIDIA_MAJOR, _DRM_MAJOR = 195, 226
_VFIO = (10, 196)
_DRIVERS = ("nvidia", "vfio")  # the beginnings of names in /proc/devices
_NVIDIA_VENDOR = "0x10de"
_A_GPU = "it is a GPU, and only a reservation gives GPUs"

_NOT_ALLOWED = "it asks for the device %s (%s), which this node does not allow. %s. Change the variable, or set gpu_swarm_devices and run provision."
_REMAPPED = (
    "it asks for the device %s, and dockerd has userns-remap here, so root of a container is another user, who may not create devices. Run it on a "
    "node without userns-remap."
)
_CONSTRAINT = "Add the constraint node.labels.gpu-swarm.device.%s==true, so that swarm chooses a node that has one."

# The devices that a service gets. code: why it is refused, one of refusal.CODES; '' if it is not. reason: the sentence.
Answer = namedtuple("Answer", ["code", "reason", "devices"], defaults=[()])
NOTHING = Answer("", "")
# One character device of the host. mode: its permissions.
Device = namedtuple("Device", ["path", "major", "minor", "mode", "uid", "gid"])
# The devices that the globs of a name match now. refused: {path: reason} of devices that match but are never given.
Found = namedtuple("Found", ["devices", "refused"])


def check(value: Any) -> dict[str, list[str]]:
    """Return ``{name: globs}`` unchanged. Raises ValueError if it is malformed. gpu_node has checked the names and the limits."""
    if not isinstance(value, dict) or not all(isinstance(globs, list) and all(map(_is_below_dev, globs)) for globs in value.values()):
        raise ValueError("the devices that this node offers are malformed")
    return value


def _is_below_dev(path: Any) -> bool:
    return isinstance(path, str) and path.startswith("/dev/") and ".." not in path.split("/") and "\0" not in path


def requested(entries: Sequence[str]) -> list[str]:
    """Return the names that these variables ask for."""
    return list(dict.fromkeys(word for entry in entries if name_of(entry) == OFFERED for word in split_words(entry.partition("=")[2])))


def resolve(names: Sequence[str], offered: Any, document: Mapping[str, Any], root: str = "/") -> Answer:
    """Return the devices of these names. Raises ValueError if the settings are malformed, BundleError and OSError.

    ``offered`` is {name: globs} from the guard's settings, ``document`` the container's config.json.
    """
    if not names:
        return NOTHING
    globs, devices = check(offered), []
    unknown = next((name for name in names if name not in globs), None)
    if unknown is not None:
        allowed = "It allows %s" % ", ".join(sorted(globs)) if globs else "It allows none"
        return Answer(refusal.NOT_ALLOWED, _NOT_ALLOWED % (_quoted(unknown), OFFERED, allowed))
    if _is_remapped(document):
        return Answer(refusal.REMAPPED, _REMAPPED % ", ".join(names))
    for name in names:
        found = expand(globs[name], root)
        if not found.devices:
            return Answer(refusal.NO_DEVICE, "it asks for the device %s, and %s. %s" % (name, _why_none(globs[name], found), _CONSTRAINT % name))
        devices += found.devices
    return Answer("", "", tuple(devices))


def unreadable(problem: str) -> Answer:
    """Return the refusal of a container whose task cannot be read. Only this record says what the service asks for: an image may set the variable."""
    return Answer(refusal.BROKEN, "what its service asks for (%s) cannot be read: %s." % (OFFERED, problem))


def _why_none(globs: Sequence[str], found: Found) -> str:
    if found.refused:
        return "%s is never given: %s" % next(iter(found.refused.items()))
    return "no device of this node matches %s now" % ", ".join([*globs[:3], *(["…"] if len(globs) > 3 else [])])


def expand(globs: Sequence[str], root: str = "/") -> Found:
    """Return the character devices that match now. Raises ValueError if there are too many, and OSError.

    ``root`` is the root of the machine's files. Links are skipped, also links among the folders, because they may lead out of /dev.
    """
    devices: dict[str, Device] = {}
    refused: dict[str, str] = {}
    drivers = None
    for path in _matches(globs, root):
        device = None if path in devices else _device(path, root)
        if not device:
            continue
        if drivers is None:
            drivers = _drivers(root)
        reason = _refused_path(path) or _refused_number(device, drivers, root)
        if reason:
            refused[path] = reason
        else:
            devices[path] = device
        if len(devices) > MOST_DEVICES:
            raise ValueError("%s match more than %d devices" % (", ".join(globs), MOST_DEVICES))
    return Found(tuple(devices[path] for path in sorted(devices)), refused)


def _matches(globs: Sequence[str], root: str) -> Iterator[str]:
    base = root.rstrip("/")
    for pattern in globs:
        for path in glob.iglob(glob.escape(base) + pattern):
            yield path[len(base) :]


def _refused_path(path: str) -> str:
    if path.startswith(_NEVER[0]):
        return _A_GPU
    if path in _MEMORY:
        return "it is memory or the log of the kernel"
    return "it is below %s" % path.rpartition("/")[0] if path.startswith(_NEVER[1:]) else ""


def _device(path: str, root: str) -> Device | None:
    """Return the device at this path; None if there is none, or if a link leads to it. A device may disappear at any time."""
    base = os.path.realpath(root).rstrip("/")
    if os.path.realpath(base + path) != base + path:
        return None
    try:
        status = os.lstat(base + path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISCHR(status.st_mode):
        return None
    return Device(path, os.major(status.st_rdev), os.minor(status.st_rdev), status.st_mode & 0o777, status.st_uid, status.st_gid)


def _drivers(root: str) -> dict[int, str]:
    """Return the driver of each major number of character devices."""
    with open(os.path.join(root, "proc/devices"), encoding="ascii", errors="replace") as stream:
        lines = stream.read().partition("Block devices:")[0].splitlines()
    fields = [line.split() for line in lines]
    return {int(words[0]): words[1] for words in fields if len(words) == 2 and words[0].isdigit()}


def _refused_number(device: Device, drivers: Mapping[int, str], root: str) -> str:
    """Return why this device is never given; '' if it may be given."""
    if device.major == _NVIDIA_MAJOR:
        return _A_GPU
    if device.major == _MEMORY_MAJOR and device.minor in _MEMORY_MINORS:
        return "it is memory or the log of the kernel"
    driver = "vfio" if (device.major, device.minor) == _VFIO else drivers.get(device.major, "")
    if driver.startswith(_DRIVERS):
        return "it belongs to the driver %s" % driver
    if device.major == _DRM_MAJOR or driver == "drm":
        vendor = _vendor(device, root)
        return _A_GPU if vendor == _NVIDIA_VENDOR else "" if vendor else "it is a graphics device whose PCI vendor cannot be read"
    return ""


def _vendor(device: Device, root: str) -> str:
    """Return the PCI vendor of a graphics device, such as 0x1a03; '' if the kernel does not say."""
    try:
        path = os.path.join(root, "sys/dev/char/%d:%d/device/vendor" % (device.major, device.minor))
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read().strip().lower()
    except OSError:
        return ""


def with_devices(document: dict[str, Any], devices: Sequence[Device]) -> dict[str, Any]:
    """Return the document with these devices, and with the permission to read and write them. Raises BundleError.

    Only ``rw`` is allowed, not ``m``: the runtime creates the devices itself.
    """
    linux = _mapping(document.get("linux"))
    resources = _mapping(linux.get("resources"))
    entries, rules = _list(linux.get("devices")), _list(resources.get("devices"))
    present = {entry["path"]: entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("path"), str)}
    for device in {device.path: device for device in devices}.values():  # two names may have the same device
        entry = {"path": device.path, "type": "c", "major": device.major, "minor": device.minor}
        rule = {"allow": True, "type": "c", "major": device.major, "minor": device.minor, "access": "rw"}
        if device.path not in present:
            entries.append({**entry, "fileMode": device.mode, "uid": device.uid, "gid": device.gid})
        elif any(present[device.path].get(key) != value for key, value in entry.items()):
            raise BundleError("the container already has another device at %s" % device.path)
        if rule not in rules:
            rules.append(rule)
    return {**document, "linux": {**linux, "devices": entries, "resources": {**resources, "devices": rules}}}


def _is_remapped(document: Mapping[str, Any]) -> bool:
    """Return whether the container has a user namespace of its own (``userns-remap``)."""
    linux = _mapping(document.get("linux"))
    namespaces = _list(linux.get("namespaces"))
    return bool(linux.get("uidMappings")) or any(isinstance(one, dict) and one.get("type") == "user" for one in namespaces)


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) or value is None:
        return value or {}
    raise BundleError("its part about Linux is malformed")


def _list(value: Any) -> list[Any]:
    """Return a copy of the list."""
    if isinstance(value, list) or value is None:
        return list(value or ())
    raise BundleError("its part about Linux is malformed")


def _quoted(value: Any) -> str:
    """Return a text that is safe in a message, whatever somebody has written."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:60] + "…"
