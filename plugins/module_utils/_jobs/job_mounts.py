# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Converts a mount from the form of 'docker service create --mount' to the form of the API (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any

from .._errors import GpuSwarmError
from .._swarm.go_templates import WRITE, only_fields

TYPES = ("bind", "volume", "tmpfs")
_KEYS = {"type": "Type", "source": "Source", "src": "Source", "target": "Target", "dst": "Target", "destination": "Target"}
_READ_ONLY = {"%s%s" % (key, value): value != "=false" for key in ("readonly", "ro") for value in ("", "=true", "=1", "=false")}


def mount(name: str, text: str) -> dict[str, Any]:
    """Return a mount in the form of the API. ``text`` is a mount such as ``type=bind,source=/data,target=/data,readonly``."""
    result: dict[str, Any] = {"Type": "volume"}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if part in _READ_ONLY:
            result["ReadOnly"] = _READ_ONLY[part]
        elif equals and value and key in _KEYS:
            result[_KEYS[key]] = value
        else:
            raise _invalid_mount(name, text, "%r is not understood" % part)
    if not only_fields(text):
        raise GpuSwarmError("A mount of the job %s has '{{', which swarm would expand as a template. %s. Nothing was submitted." % (name, WRITE))
    if result["Type"] not in TYPES:
        raise _invalid_mount(name, text, "its type is not one of %s" % ", ".join(TYPES))
    if not result.get("Target", "").startswith("/"):
        raise _invalid_mount(name, text, "its target is not an absolute path")
    if result["Type"] == "bind" and not result.get("Source", "").startswith("/"):
        raise _invalid_mount(name, text, "its source is not an absolute path of the nodes")
    if result["Type"] == "tmpfs" and "Source" in result:
        raise _invalid_mount(name, text, "a tmpfs has no source")
    return result


def _invalid_mount(name: str, text: str, problem: str) -> GpuSwarmError:
    return GpuSwarmError(
        "The mount %r of the job %s: %s. Write it as type=bind,source=/data,target=/data,readonly. Nothing was submitted." % (text, name, problem)
    )
