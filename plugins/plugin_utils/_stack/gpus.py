# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Translates the GPUs that a service of a Compose file reserves into generic resources of a swarm (pure).

https://docs.docker.com/compose/how-tos/gpu-support/ has the forms that are translated.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...module_utils._errors import Errors, GpuSwarmError
from ...module_utils._gpu import driver_capabilities
from .fields import Notes

# Names of NVIDIA's driver: three of Docker (daemon/devices_nvidia_linux.go of moby/moby), and the CDI kind that Podman and others use.
NVIDIA_DRIVERS = ("nvidia", "nvidia.cdi", "nvidia.runtime-hook", "nvidia.com/gpu")
CDI = "cdi"  # Docker's driver for devices of any vendor, found only by their CDI names (daemon/cdi.go)
_WRITE_COUNT = "Swarm allocates GPUs by number: write how many each task needs, such as count: 1."


class _Device(NamedTuple):
    number: int
    capabilities: list[str]


class Reserved(NamedTuple):
    """``resources`` are the generic resources of a service. ``capabilities`` is the value of NVIDIA_DRIVER_CAPABILITIES; '' if it requests none."""

    resources: list[dict[str, Any]]
    capabilities: str


def reserved(service: dict[str, Any], kind: str, where: str, notes: Notes) -> Reserved:
    """Return the GPUs of a service, in any form of Compose. ``where`` names the service in messages."""
    reservations = ((service.get("deploy") or {}).get("resources") or {}).get("reservations") or {}
    below, errors = f"{where}.deploy.resources.reservations", Errors()
    generic = errors.collect(_parse_each, _generic, errors.collect(_list, reservations, "generic_resources", below), f"{below}.generic_resources")
    devices = errors.collect(_devices, errors.collect(_list, reservations, "devices", below), f"{below}.devices", notes)
    gpus = errors.collect(_gpus, service.get("gpus"), f"{where}.gpus", notes)
    errors.refuse()
    if devices and gpus:
        raise GpuSwarmError(f"{where} requests GPUs in both gpus and deploy.resources.reservations.devices. Remove one of the two.")
    kinds = [name for name, _value in generic]
    duplicates = [name for name in dict.fromkeys(kinds) if kinds.count(name) > 1]
    if devices + gpus and kind in kinds:
        raise GpuSwarmError(f"{where} requests {kind} in generic_resources, and again as devices or gpus, which become {kind}. Remove one.")
    if duplicates:
        raise GpuSwarmError(f"{below}.generic_resources has {', '.join(duplicates)} twice. Write it once, with the sum.")
    wanted = generic + ([(kind, sum(device.number for device in devices + gpus))] if devices + gpus else [])
    capabilities = driver_capabilities.value_of(name for device in devices + gpus for name in device.capabilities)
    return Reserved([{"discrete_resource_spec": {"kind": name, "value": value}} for name, value in wanted], capabilities)


def _list(reservations: dict[str, Any], key: str, where: str) -> list[Any]:
    entries = reservations.get(key)
    if entries is not None and not isinstance(entries, list):
        raise GpuSwarmError(f"{where}.{key} is {_shown(entries)}, but must be a list. Begin each entry with '- '.")
    return entries or []


def _parse_each(parse: Callable[[Any, str], Any], items: list[Any] | None, where: str) -> list[Any]:
    errors = Errors()
    result = [errors.collect(parse, item, f"{where}[{number}]") for number, item in enumerate(items or [])]
    errors.refuse()
    return result


def _devices(items: list[Any] | None, where: str, notes: Notes) -> list[_Device]:
    errors, entries, places = Errors(), list[Any](), list[str]()
    for number, item in enumerate(items or []):
        previous = entries[-1] if entries else None
        if isinstance(item, dict) and isinstance(previous, dict) and item and previous and not previous.keys() & item.keys():
            key = next(iter(item))
            errors.add(f"{where}[{number}]: {key} belongs to the device before it. Remove the hyphen before {key}.")
            entries[-1] = {**previous, **item}  # so that other errors of the device, such as its count, are reported too
        else:
            entries.append(item)
            places.append(f"{where}[{number}]")
    result = [errors.collect(_device, item, place, None, notes) for item, place in zip(entries, places, strict=True)]
    errors.refuse()
    return result


def _generic(item: Any, where: str) -> tuple[str, int]:
    """Return (kind, value) of a generic resource."""
    if isinstance(item, dict) and "discrete_resource_spec" in item and {"kind", "value"} & item.keys():
        raise GpuSwarmError(
            f"{where}: kind and value are beside discrete_resource_spec, but must be under it. Indent both by two more blanks."
        )
    spec = item.get("discrete_resource_spec") if isinstance(item, dict) and len(item) == 1 else None
    if not isinstance(spec, dict) or spec.keys() - {"kind", "value"}:
        raise GpuSwarmError(f"{where} must be discrete_resource_spec with only kind and value under it. Rewrite it like that.")
    kind, value = spec.get("kind"), spec.get("value")
    if not isinstance(kind, str) or not kind:
        raise GpuSwarmError(f"{where}: its kind is {_shown(kind)}. Write the name of a resource kind, such as NVIDIA-GPU.")
    if str(value).strip() == "0":
        raise GpuSwarmError(
            f"{where}: the value of {kind} is 0. If the kind has names, as GPUs do, a task would get every free {kind} of its node, otherwise none. "
            "Write how many each task needs, such as value: 1. If the service needs none, remove the reservation."
        )
    return kind, _positive(value, f"{where}: the value of {kind}")


def _gpus(gpus: Any, where: str, notes: Notes) -> list[_Device]:
    if gpus is None:
        return []
    if gpus == "all":
        raise GpuSwarmError(f"{where} is all. {_WRITE_COUNT}")
    if not isinstance(gpus, list):
        raise GpuSwarmError(f"{where} is {_shown(gpus)}, but must be a list. Write gpus: [{{count: 1}}].")
    return _parse_each(lambda item, place: _device(item, place, ["gpu"], notes), gpus, where)


def _device(item: Any, where: str, capabilities: list[str] | None, notes: Notes) -> _Device:
    """Read an entry that requests GPUs. ``capabilities`` is the default."""
    if not isinstance(item, dict):
        raise GpuSwarmError(f"{where} is {_shown(item)}, but must be a mapping. Write {{driver: nvidia, count: 1, capabilities: [gpu]}}.")
    errors = Errors()
    unknown = sorted(item.keys() - {"driver", "count", "device_ids", "capabilities", "options"})
    if unknown:
        errors.add(f"{where} has {', '.join(unknown)}, which a device does not have. Use driver, count and capabilities.")
    errors.collect(_refuse_driver, item, where)
    if item.get("driver") == CDI:
        errors.refuse()  # the entry must be rewritten, so further errors do not help
    capability_names = errors.collect(_capabilities, item.get("capabilities") or capabilities, where)
    if item.get("device_ids"):
        errors.add(
            f"{where} sets device_ids, but swarm chooses the cards. {_WRITE_COUNT} To choose nodes, use a constraint such as node.labels.gpu.model."
        )
    else:
        count = errors.collect(_count, item.get("count"), where)
    if item.get("options"):
        notes.ignored(where, "options", "nothing: Docker's driver for NVIDIA reads no options")
    errors.refuse()
    return _Device(count, capability_names)


def _refuse_driver(item: dict[str, Any], where: str) -> None:
    driver, device_ids = item.get("driver"), item.get("device_ids")
    names: list[Any] = device_ids if isinstance(device_ids, list) else []
    others = [name for name in names if not str(name).startswith("nvidia.com/")]
    if driver == CDI and not others:
        number = len(names) if names and not any(str(name).endswith("=all") for name in names) else 1
        by = f"by names such as {names[0]}" if names else "only by their names"
        raise GpuSwarmError(
            f"{where}: its driver is cdi, which finds devices {by}. Swarm allocates GPUs by number and chooses the cards itself. Write "
            f"{{driver: nvidia, count: {number}, capabilities: [gpu]}} instead, with the number that each task needs."
        )
    if driver not in (None, "", *NVIDIA_DRIVERS):
        named = f" for {others[0]}" if driver == CDI else ""
        if not named and "nvidia" in str(driver).lower():
            raise GpuSwarmError(f"{where}: its driver is {_shown(driver)}, but Docker has no such driver. Write driver: nvidia.")
        raise GpuSwarmError(f"{where}: its driver is {_shown(driver)}{named}. Only NVIDIA GPUs can be allocated. Write driver: nvidia.")


def _count(count: Any, where: str) -> int:
    if count == "all":
        raise GpuSwarmError(f"{where}: its count is all. {_WRITE_COUNT}")
    if count is None:
        raise GpuSwarmError(f"{where} has no count, which would mean all GPUs of the machine. {_WRITE_COUNT}")
    return _positive(count, f"{where}: its count")


def _capabilities(names: Any, where: str) -> list[str]:
    if not isinstance(names, list) or not names:
        raise GpuSwarmError(f"{where}: its capabilities are {_shown(names)}. Write capabilities: [gpu].")
    unsupported = [name for name in names if name not in (*driver_capabilities.GENERAL, *driver_capabilities.CAPABILITIES)]
    if unsupported:
        raise GpuSwarmError(
            f"{where}: its capabilities have {', '.join(map(_shown, unsupported))}, which NVIDIA's driver does not support. Write capabilities: "
            f"[gpu], and add only {', '.join(driver_capabilities.CAPABILITIES)}."
        )
    return names


def _positive(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise GpuSwarmError(f"{what} is {_shown(value)}, but must be a whole number of 1 or more. Write one.")
    return value


def _shown(value: Any) -> str:
    return "empty" if value in (None, "", [], {}) else repr(value) if len(repr(value)) < 60 else "something else"
