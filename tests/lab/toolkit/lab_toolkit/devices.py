# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which GPUs a container gets, from its environment, its mounts and the settings. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .versions import does

DEVICE_MOUNTS = "/var/run/nvidia-container-devices"
UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


class Refused(Exception):
    """The container cannot be created. The message is that of the real toolkit."""


@dataclass(frozen=True)
class Gpu:
    index: int
    uuid: str
    minor: int
    mig: tuple[str, ...] = field(default=())  # the UUIDs of its MIG devices: all devices, or only the devices of the container
    error: str = ""  # NVML's error text, if the GPU cannot be used


@dataclass(frozen=True)
class Settings:
    version: str
    mode: str = "auto"
    swarm_resource: str = ""
    accept_unprivileged: bool = True
    requires_nothing: bool = False
    mounts: bool = False  # whether mounts request devices
    cgroups: bool = True  # whether the legacy mode lets a container open its devices

    @property
    def legacy(self) -> bool:
        return self.mode == "legacy" or (self.mode == "auto" and not does(self.version, "auto-is-jit-cdi"))

    @property
    def preferred(self) -> list[str]:
        """Return the variables that take precedence over NVIDIA_VISIBLE_DEVICES."""
        if not self.legacy and does(self.version, "only-legacy-reads-swarm-resource"):
            return []
        return [name.strip() for name in self.swarm_resource.split(",") if name.strip()]


def requested(
    env: dict[str, str], settings: Settings, privileged: bool = False, mounts: Iterable[Mapping[str, Any]] = ()
) -> list[str] | None:
    """Return the requested identifiers: ["all"], [] for `none`, and None if no GPU is requested."""
    by_mounts = _by_mounts(mounts) if settings.mounts else []
    if by_mounts:  # mounts take precedence over every variable
        return ["all"] if "all" in by_mounts else by_mounts
    names = [name for name in settings.preferred if name in env] or ["NVIDIA_VISIBLE_DEVICES"]
    text = [item.strip() for name in names for item in env.get(name, "").split(",") if item.strip()]
    if not text and not any(name in env for name in names) and _is_old_cuda_image(env):
        text = ["all"]
    if not text or "void" in text or not (privileged or settings.accept_unprivileged):
        return None
    for word in text:
        if word in ("all", "none"):
            return ["all"] if word == "all" else []
    return list(dict.fromkeys(text))


def _by_mounts(mounts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return identifiers from paths in NVIDIA's directory where /dev/null is mounted (requestsFromMounts in NVIDIA's cuda_image.go). The part of the
    path after the directory is a device name. `cdi/` and `imex/` begin names of other kinds.
    """
    found = []
    for mount in mounts:
        destination = _cleaned(mount["destination"])
        if _cleaned(mount.get("source", "")) != "/dev/null" or not destination.startswith(DEVICE_MOUNTS):
            continue
        device = destination.removeprefix(DEVICE_MOUNTS).strip("/")
        if device and not device.startswith(("cdi/", "imex/")):
            found.append(device)
    return list(dict.fromkeys(found))


def _cleaned(path: str) -> str:
    """Return the path, cleaned like Go's filepath.Clean."""
    found = posixpath.normpath(path)
    return found[1:] if found.startswith("//") else found


def _is_old_cuda_image(env: dict[str, str]) -> bool:
    return bool(env.get("CUDA_VERSION")) and not env.get("NVIDIA_REQUIRE_CUDA")


def resolve(wanted: list[str], gpus: list[Gpu], settings: Settings) -> list[Gpu]:
    if wanted == ["all"]:
        chosen = gpus
    else:
        find = _by_legacy_rules if settings.legacy else _by_cdi_rules
        chosen = [find(identifier, gpus) for identifier in wanted]
    for gpu in chosen:
        if gpu.error:
            raise Refused(f"failed to get device handle: {gpu.error}")
    return _merged(chosen)


def _merged(chosen: list[Gpu]) -> list[Gpu]:
    """Return each GPU once, with all of its chosen MIG devices."""
    merged: dict[int, Gpu] = {}
    for gpu in chosen:
        before = merged.get(gpu.index, gpu)
        merged[gpu.index] = replace(gpu, mig=tuple(dict.fromkeys((*before.mig, *gpu.mig))))
    return [merged[index] for index in sorted(merged)]


def _by_cdi_rules(identifier: str, gpus: list[Gpu]) -> Gpu:
    """Find full UUIDs, indices and GPU:MIG indices, but no shortened UUIDs or indices. Mode cdi uses these names from the node's CDI specification.
    """
    if re.fullmatch(f"(GPU|MIG)-{UUID}", identifier):
        for gpu in gpus:
            if identifier == gpu.uuid:
                return gpu
            if identifier in gpu.mig:
                return replace(gpu, mig=(identifier,))
        raise Refused("failed to get device handle from UUID: Not Found")
    place = re.fullmatch(r"([0-9]+)(?::([0-9]+))?", identifier)
    if not place:
        raise Refused(f'identifier is not a valid UUID or index: "{identifier}"')
    index, mig = int(place[1]), place[2]
    if index >= len(gpus) or (mig is not None and int(mig) >= len(gpus[index].mig)):
        raise Refused("failed to get device handle from index: Invalid Argument")
    return gpus[index] if mig is None else replace(gpus[index], mig=(gpus[index].mig[int(mig)],))


def _by_legacy_rules(identifier: str, gpus: list[Gpu]) -> Gpu:
    """Find the first GPU whose UUID starts with the identifier, or the GPU with this index, as nvidia-container-cli does."""
    if re.match(r"(GPU|MIG)-.", identifier, re.IGNORECASE):
        for gpu in gpus:
            if gpu.uuid.lower().startswith(identifier.lower()):
                return gpu
            mig = [uuid for uuid in gpu.mig if uuid.lower().startswith(identifier.lower())]
            if mig:
                return replace(gpu, mig=(mig[0],))
    elif identifier.isdigit() and int(identifier) < len(gpus):
        return gpus[int(identifier)]
    raise Refused(f"nvidia-container-cli: device error: {identifier}: unknown device")
