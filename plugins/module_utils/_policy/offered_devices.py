# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names under which services may have devices besides GPUs: their form, the variable that asks for them, and the label of nodes (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Any, Iterable, Mapping

from .._errors import GpuSwarmError
from .generic_resources import shorten

# A service asks for devices with this variable, whose value is names separated by commas.
VARIABLE = "GPU_SWARM_DEVICES"
# The key of a node's label is this text with the name behind it.
LABEL, LABEL_VALUE = "gpu-swarm.device.", "true"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
WANTED = "Use small letters, digits, '-' and '_', at most 32, and begin with a letter or digit"
MOST = 32  # the most names, and the most paths of a name
# An absolute path below /dev in printable ASCII, which may have *, ? and [].
_PATH = re.compile(r"/dev(/[!-.0-~]+)+")
_LONGEST = 255
# Paths that no service is given. NVIDIA's device nodes are GPUs, which swarm allocates. The others open the whole machine.
_NEVER = re.compile(r"/dev/(nvidia|(vfio(/|\Z))|((mem|kmem|port|kmsg|crash)\Z))")
_ASSIGNED_DEVICE = re.compile(r"node\.labels\.gpu-swarm\.device\.(\S+?)\s*==\s*true", re.IGNORECASE)


def check(offered: Any, where: str) -> None:
    """Check a mapping of names to paths. ``where`` is the setting or option. Raises GpuSwarmError for the first problem."""
    if not isinstance(offered, Mapping):
        raise GpuSwarmError("%s is %s, but must be a mapping. Write lists of paths by name: {fuse: [/dev/fuse]}." % (where, shorten(offered)))
    if len(offered) > MOST:
        raise GpuSwarmError("%s has %d names, and may have %d. Remove some." % (where, len(offered), MOST))
    for name, paths in offered.items():
        if not is_name(name):
            raise GpuSwarmError("%s: %s is not a valid name of devices. %s." % (where, shorten(name), WANTED))
        _check_paths(paths, "%s.%s" % (where, name), name)


def _check_paths(paths: Any, where: str, name: str) -> None:
    if not isinstance(paths, (list, tuple)) or not paths:
        example = paths if isinstance(paths, str) and _PATH.fullmatch(paths) else "/dev/fuse"
        raise GpuSwarmError("%s is %s, but must be a list of paths. Write %s: [%s], or remove it." % (where, shorten(paths), name, example))
    if len(paths) > MOST:
        raise GpuSwarmError("%s has %d paths, and may have %d. Use * for several devices, such as /dev/video*." % (where, len(paths), MOST))
    for number, path in enumerate(paths):
        place = "%s[%d]" % (where, number)
        if not is_path(path):
            raise GpuSwarmError(
                "%s is %s, but must be an absolute path below /dev, without spaces, '..' and '//'. Correct it, such as /dev/infiniband/uverbs*."
                % (place, shorten(path))
            )
        if is_never_given(path):
            raise GpuSwarmError("%s is %s, %s" % (place, path, why_never(path)))


def is_name(name: Any) -> bool:
    return isinstance(name, str) and bool(NAME.fullmatch(name))


def is_path(path: Any) -> bool:
    if not isinstance(path, str) or len(path) > _LONGEST or not _PATH.fullmatch(path):
        return False
    return not {".", ".."}.intersection(path.split("/"))


def is_never_given(path: str) -> bool:
    """Return whether no service is given this path, or what this pattern begins with. The guard checks each device again when a task starts."""
    return bool(_NEVER.match(path))


def why_never(path: str) -> str:
    """Return the end of a sentence about a path that no service is given: why, and the remedy."""
    if path.startswith("/dev/nvidia"):
        return "which is a GPU of NVIDIA. Swarm allocates GPUs: remove the path, and let services reserve a GPU."
    return "which no service is given, because it opens the whole machine. Remove the path."


def names_in(text: str) -> list[str]:
    """Return the names in a value of the variable, each once. Invalid names are returned too."""
    return list(dict.fromkeys(name for name in (part.strip() for part in text.split(",")) if name))


def constraint(name: str) -> str:
    return "node.labels.%s%s==%s" % (LABEL, name, LABEL_VALUE)


def constraints(text: str, existing: Iterable[str], where: str) -> list[str]:
    """Return the constraints that a service with this value of the variable needs besides its ``existing`` ones. Raises GpuSwarmError."""
    invalid = [name for name in names_in(text) if not is_name(name)]
    if invalid:
        values = (where, shorten(text), shorten(invalid[0]))
        raise GpuSwarmError("%s is %s, but %s is not a name of devices. Write names of gpu_swarm_devices, separated by commas." % values)
    present = {name for name in map(name_in_constraint, existing) if name}
    return [constraint(name) for name in names_in(text) if name not in present]


def name_in_constraint(text: str) -> str | None:
    """Return the name of the devices that a constraint requires, or None."""
    match = _ASSIGNED_DEVICE.fullmatch(text.strip())
    return match.group(1) if match else None


def labels(answer: Any, names: Iterable[Any]) -> dict[str, str]:
    """Return the labels of a node that has devices. The keys come from the setting, and only the values from the node's ``answer``."""
    found = answer if isinstance(answer, Mapping) else {}
    return {LABEL + name: LABEL_VALUE for name in map(str, names) if is_name(name) and found.get(name)}


def covers(pattern: str, path: str) -> bool:
    """Return whether the pattern matches this path, or paths below it. As in a shell, * does not match a slash."""
    wanted, parts = pattern.split("/"), path.split("/")
    return len(parts) <= len(wanted) and all(fnmatch.fnmatchcase(part, one) for part, one in zip(parts, wanted))
