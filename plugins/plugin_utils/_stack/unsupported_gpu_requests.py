# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuses services that request GPUs by device nodes, CDI names or mounts instead of a number (pure). Swarm passes none of these to containers.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...module_utils._errors import SeveralErrors

# NVIDIA's device nodes, also those of Jetson and WSL; its CDI names; and the directory whose mounts NVIDIA's toolkit reads as requests.
_DEVICE = re.compile(r"/+dev/+(?:nvidia|nvhost-|nvmap|nvgpu|dxg)")
_CDI = re.compile(r"(?:[\w.-]+\.)?nvidia\.com/[\w.-]+(?:=|\Z)")
_REQUEST = re.compile(r"/*(?:var/+)?run/+nvidia-container-devices")
_RULE = re.compile(r"[ca]\s+195:")  # the major number of NVIDIA's device nodes
REMEDY = (
    "Swarm allocates GPUs by number: remove this, and write {driver: nvidia, count: 1, capabilities: [gpu]} under deploy.resources.reservations."
    "devices."
)


def refuse(service: dict[str, Any], where: str) -> dict[str, Any]:
    """Refuse a service that would run without the GPUs that it requests, or with GPUs that swarm did not allocate to it."""
    requests = list(_requests(service))
    if requests:
        place, what = requests[0]
        others = ", ".join(f"{other} by {by}" for other, by in requests[1:])
        same_for_others = f" The same holds for {others}." if others else ""
        message = f"{where}.{place} requests GPUs by {what}, which swarm does not pass on.{same_for_others} {REMEDY}"
        # Refused volumes are replaced, not removed, so that other volumes keep their numbers.
        places = {place for place, _by in requests}
        volumes = enumerate(_as_list(service.get("volumes")))
        mounts = [f"/volumes[{number}]" if f"volumes[{number}]" in places else mount for number, mount in volumes]
        raise SeveralErrors([message], {**service, "volumes": mounts} if mounts else service)
    return service


def is_request(device: Any) -> bool:
    """Return whether this entry of ``devices`` requests GPUs of NVIDIA."""
    source = _text_of(device)
    return bool(_DEVICE.match(source) or _CDI.match(source))


def _text_of(device: Any) -> str:
    return str(device.get("source") if isinstance(device, dict) else device).strip()


def _requests(service: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for number, entry in enumerate(_as_list(service.get("devices"))):
        if is_request(entry):
            yield f"devices[{number}]", _source_of(_text_of(entry))
    for number, entry in enumerate(_as_list(service.get("volumes"))):
        parts = [str(entry.get("source")), str(entry.get("target"))] if isinstance(entry, dict) else str(entry).split(":")
        matching = [part for part in parts if _DEVICE.match(part) or _REQUEST.match(part)]
        if _DEVICE.match(parts[0]) or any(_REQUEST.match(part) for part in parts):
            yield f"volumes[{number}]", matching[0]
    for number, rule in enumerate(_as_list(service.get("device_cgroup_rules"))):
        if _RULE.match(str(rule).strip()):
            yield f"device_cgroup_rules[{number}]", "the rule for major number 195"
    annotations = service.get("annotations")
    for text in [str(annotation) for annotation in (annotations.values() if isinstance(annotations, dict) else _as_list(annotations))]:
        if "nvidia.com/" in text:
            yield "annotations", "a CDI name"


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _source_of(text: str) -> str:
    return text.partition(":")[0]
