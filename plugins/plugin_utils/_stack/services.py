# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Translates one service of a Compose file into a service of a stack (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError, SeveralErrors, messages_of
from ...module_utils._gpu import driver_capabilities
from ...module_utils._placement.node_match import is_constraint
from . import equivalents, gpus, keys, mounts, named_devices, placement, ports, protection, shapes, templates, unsupported_gpu_requests
from .fields import Notes, Reader, kind_of, mapping, pairs, refuse_unknown, texts
from .folder import decode
from .named_devices import Offered
from .variables import Variables, read_variables

RUNTIME = "runtime is not supported on Swarm: a task gets the default runtime of its node, which provision sets to nvidia. Remove it"
RESERVE = ", and reserve GPUs with deploy.resources.reservations.devices, driver nvidia, capabilities [gpu] and a count"
NONE_VISIBLE = ("", "void", "none")


class Context:
    """The settings and results that all services of a file share."""

    def __init__(self, kind: str, variables: Variables, read: Reader, notes: Notes, offered: Offered) -> None:
        self.kind, self.variables, self.read, self.notes, self.offered = kind, variables, read, notes, offered
        self.written: dict[str, Any] = {}  # the services before variables are replaced
        self.x_gpu: dict[str, placement.XGpu] = {}  # the x-gpu of services
        self.chosen = {profile.strip() for profile in variables.values.get("COMPOSE_PROFILES", "").split(",")}
        self.profiles: list[str] = []  # the profiles of services that are skipped
        self.networks: dict[str, Any] = {}  # the networks of the file, and the host network if a service uses it


def translate_service(name: str, definition: Any, file: str, context: Context) -> dict[str, Any] | None:
    """Return the service for the stack, or None if its profiles are not selected."""
    where = f"{file}: services.{name}"
    service = mapping(definition, where)
    profiles = texts(service.get("profiles"), f"{where}.profiles")
    if profiles and not context.chosen.intersection([*profiles, "*"]):
        context.profiles += profiles
        context.notes.add(f"{where} is skipped: Compose starts it only with COMPOSE_PROFILES={profiles[0]}. Set that, or remove profiles")
        return None
    errors = Errors()
    errors.collect(_refuse_unsupported, service, where)
    service = errors.collect(unsupported_gpu_requests.refuse, service, where)
    service = errors.collect(equivalents.move_to_deploy, service, where, instead={key: value for key, value in service.items() if key != "deploy"})
    x_gpu = errors.collect(placement.parse_x_gpu, service.get("x-gpu"), f"{where}.x-gpu")
    if x_gpu:
        context.x_gpu[name] = x_gpu
    if x_gpu and x_gpu.matrix:  # x-gpu.images replaces image
        service = {**service, "image": x_gpu.matrix[0]["image"]}
    errors.collect(_refuse_no_image, service, where, context.written.get(name))
    service = errors.collect(shapes.service, service, where)
    result = {key: value for key, value in service.items() if key in keys.SERVICE}
    for key, value in service.items():
        if key in keys.INSTEAD and value not in (False, "", [], {}):  # such values request nothing
            context.notes.ignored(where, key, keys.INSTEAD[key])
    result.update(errors.collect(_translate_keys, service, where, context))
    _note_unreserved_gpus(result, where, context.notes)
    asked, devices = errors.collect(named_devices.names_of, result, where, instead=[]), service.get("devices")
    names = errors.collect(named_devices.translate, devices, asked, context.offered, f"{where}.devices", context.notes, instead=[])
    if not errors.messages:
        result = errors.collect(named_devices.with_names, result, names, where, instead=result)
    errors.collect(templates.refuse_in_service, result, where)
    result = {key: value for key, value in result.items() if value is not None}
    errors.refuse(result)
    return result


def _refuse_no_image(service: dict[str, Any], where: str, written: Any) -> None:
    """Refuse a service without an image. Other errors report an invalid image and an empty variable."""
    own_keys = mapping(written, where)
    images = isinstance(own_keys.get("x-gpu"), dict) and own_keys["x-gpu"].get("images")
    if not service.get("image") and not images and not own_keys.get("image"):
        advice = "Build it, push it to a registry that the nodes reach, and write" if "build" in service else "Write"
        raise GpuSwarmError(f"{where} has no image. {advice} its name under image.")


def _refuse_unsupported(service: dict[str, Any], where: str) -> None:
    errors = Errors()
    if service.get("runtime"):
        errors.add(f"{where}.{RUNTIME}{'' if _reserves(service) else RESERVE}.")
    for key in service:
        if key in keys.REFUSED:
            errors.add(f"{where}.{key} is not supported on Swarm: {keys.REFUSED[key]}.")
    known_keys = keys.SERVICE | keys.TRANSLATED | keys.INSTEAD.keys() | keys.REFUSED.keys() | {"profiles", "runtime"}
    # Keys that begin with x- are extensions of users, except x-gpu.
    errors.collect(refuse_unknown, [key for key in service if not key.startswith("x-")], known_keys, where)
    errors.collect(protection.refuse, service, where)
    errors.refuse()


def _reserves(service: dict[str, Any]) -> bool:
    """Return whether the service requests GPUs by number, even if the request has errors."""
    section: Any = service.get("deploy")
    for key in ("resources", "reservations"):
        section = section.get(key) if isinstance(section, dict) else None
    return bool(service.get("gpus") or (isinstance(section, dict) and (section.get("devices") or section.get("generic_resources"))))


def _translate_keys(service: dict[str, Any], where: str, context: Context) -> dict[str, Any]:
    """Return the keys whose values differ from the values in the file."""
    notes, errors = context.notes, Errors()
    deploy, requested = errors.collect(_deploy, service, where, context, instead=(None, gpus.Reserved([], "")))
    result: dict[str, Any] = {"deploy": deploy}
    if service.get("environment") is not None or service.get("env_file") is not None:
        result["environment"] = errors.collect(_environment, service, where, context, instead={})
    if requested.capabilities:  # the service's own value wins
        result["environment"] = {driver_capabilities.VARIABLE: requested.capabilities, **result.get("environment", {})}
    if service.get("labels") is not None:
        result["labels"] = errors.collect(shapes.name_values, service["labels"], f"{where}.labels")
    result["volumes"] = errors.collect(_all_mounts, service, where, notes)
    result.update(errors.collect(_networks_and_ports, service, where, context))
    if service.get("healthcheck") is not None:
        result["healthcheck"] = errors.collect(_healthcheck, service["healthcheck"], f"{where}.healthcheck", notes)
    if service.get("depends_on"):
        result["depends_on"] = errors.collect(_depends_on, service["depends_on"], f"{where}.depends_on", notes)
    errors.refuse(result)
    return result


def _all_mounts(service: dict[str, Any], where: str, notes: Notes) -> list[Any] | None:
    """Return all mounts of the service; None without mounts."""
    errors = Errors()
    result = errors.collect(mounts.translate_volumes, service.get("volumes") or [], f"{where}.volumes", notes, instead=[])
    if service.get("tmpfs"):
        result = [*result, *errors.collect(mounts.translate_tmpfs, service["tmpfs"], f"{where}.tmpfs", notes, instead=[])]
    shared = errors.collect(equivalents.shared_memory, service, mounts.targets_of(result), where, notes, instead=[])
    result = [*result, *shared]
    errors.collect(mounts.refuse_same_target, result, where)
    errors.refuse(result)
    return result or service.get("volumes")


def _deploy(service: dict[str, Any], where: str, context: Context) -> tuple[dict[str, Any] | None, gpus.Reserved]:
    deploy, errors = mapping(service.get("deploy"), f"{where}.deploy"), Errors()
    errors.collect(refuse_unknown, deploy, keys.DEPLOY, f"{where}.deploy")
    result_keys, below = dict(deploy), f"{where}.deploy.resources"
    resources = errors.collect(mapping, deploy.get("resources"), below, instead={})
    errors.collect(refuse_unknown, resources, ("limits", "reservations"), below, "Use limits and reservations.")
    limits = errors.collect(_limits, resources.get("limits"), f"{below}.limits", instead={})
    requested_resources = errors.collect(_reservations, resources.get("reservations"), f"{below}.reservations", instead={})
    requested = errors.collect(
        gpus.reserved, {**service, "deploy": {"resources": {"reservations": requested_resources}}}, context.kind, where, context.notes
    )
    reservations = {key: value for key, value in requested_resources.items() if key in keys.RESERVATIONS and key != "generic_resources"}
    if requested and requested.resources:
        reservations["generic_resources"] = requested.resources
    if resources or reservations:
        result_keys["resources"] = {key: value for key, value in (("limits", limits), ("reservations", reservations)) if value}
    errors.collect(_constraints, deploy.get("placement"), f"{where}.deploy.placement")
    result = {key: value for key, value in result_keys.items() if value not in (None, {})} or None, requested or gpus.Reserved([], "")
    errors.refuse(result)
    return result


def _limits(value: Any, where: str) -> dict[str, Any]:
    limits, errors = dict(mapping(value, where)), Errors()
    errors.collect(refuse_unknown, limits, keys.LIMITS, where, "Write it under reservations." if "devices" in limits else "Remove it.")
    if limits.get("pids") in (None, -1, "-1"):  # no limit, as in Compose
        limits.pop("pids", None)
    else:
        limits["pids"] = errors.collect(shapes.whole(), limits["pids"], f"{where}.pids")
    errors.refuse(limits)
    return limits


def _reservations(value: Any, where: str) -> dict[str, Any]:
    reservations, errors = mapping(value, where), Errors()
    errors.collect(refuse_unknown, reservations, keys.RESERVATIONS | {"devices"}, where, "Remove it; pids belongs under limits.")
    errors.refuse(reservations)
    return reservations


def _constraints(value: Any, where: str) -> None:
    refuse_constraints(mapping(value, where).get("constraints"), f"{where}.constraints")


def refuse_constraints(constraints: Any, where: str) -> None:
    if isinstance(constraints, str):
        raise GpuSwarmError(f"{where} is text, but must be a list. Begin each constraint with '- '.")
    invalid, errors = [constraint for constraint in texts(constraints, where) if not is_constraint(constraint)], Errors()
    errors.add(
        *(
            f"{where} has {constraint!r}, which swarm does not accept. Write it as node.labels.gpu.model==Tesla-T4, with == or !=."
            for constraint in invalid
        )
    )
    errors.refuse()


def _environment(service: dict[str, Any], where: str, context: Context) -> dict[str, str]:
    """Return the variables of env_file and of environment, which takes precedence. If a name has no value, its value comes from .env or the user's
    environment.
    """
    variables: dict[str, str | None] = {}
    files, errors = service.get("env_file"), Errors()
    for number, entry in enumerate(files if isinstance(files, list) else [files] if files else []):
        variables.update(errors.collect(_env_file, entry, f"{where}.env_file[{number}]", context, instead={}))
    variables.update(errors.collect(pairs, service.get("environment"), f"{where}.environment", instead={}))
    known_values = context.variables.values
    values = {key: known_values[key] if value is None else value for key, value in variables.items() if value is not None or key in known_values}
    escaped: dict[str, str] = errors.collect(templates.escape_environment, values, f"{where}.environment", context.notes, instead={})
    errors.refuse(escaped)
    return escaped


def _env_file(entry: Any, where: str, context: Context) -> dict[str, str | None]:
    entry = {"path": entry} if isinstance(entry, str) else mapping(entry, where)
    refuse_unknown(entry, ("path", "required", "format"), where, "An entry has path, required and format.")
    path, form = entry.get("path"), entry.get("format")
    if not isinstance(path, str) or not path or form not in (None, "raw"):
        raise GpuSwarmError(f"{where} must have a path, and its format may only be raw. Write the path of a file with NAME=value lines.")
    content = context.read(path)
    if content is None:
        if entry.get("required") is False:
            return {}
        raise GpuSwarmError(f"{where}: the file {path} does not exist. Create it, or write required: false beside its path.")
    try:
        return read_variables(decode(content, path), path, context.variables.values, raw=form == "raw")
    except GpuSwarmError as problem:
        raise SeveralErrors([f"{where}: {message}" for message in messages_of(problem)]) from problem


def _networks_and_ports(service: dict[str, Any], where: str, context: Context) -> dict[str, Any]:
    """Return the networks and ports of the service."""
    notes, errors = context.notes, Errors()
    result: dict[str, Any] = {}
    if service.get("ports") is not None:
        result["ports"] = errors.collect(ports.translate_ports, service["ports"], f"{where}.ports", notes)
    if service.get("networks") is not None:
        result["networks"] = errors.collect(_networks, service["networks"], f"{where}.networks", notes)
    host = errors.collect(equivalents.network_of_host, service, context.networks, where)
    if host:
        context.networks.update({key: {"external": True, "name": "host"} for key in host})
        if result.get("ports"):
            notes.ignored(where, "ports", "nothing: in the host network a task uses the ports of its node directly")
        result.update({"networks": host, "ports": None})
    elif service.get("network_mode"):
        notes.ignored(where, "network_mode", "nothing: the service is in the network default of its stack")
    errors.refuse(result)
    return result


def _networks(networks: Any, where: str, notes: Notes) -> Any:
    if isinstance(networks, list):
        return texts(networks, where)
    result, errors = {}, Errors()
    for name, options in mapping(networks, where).items():
        entry = errors.collect(mapping, options, f"{where}.{name}", instead={})
        errors.collect(refuse_unknown, entry, keys.ON_NETWORK | keys.INSTEAD_ON_NETWORK.keys(), f"{where}.{name}")
        for key in entry:
            if key in keys.INSTEAD_ON_NETWORK:
                notes.ignored(f"{where}.{name}", key, keys.INSTEAD_ON_NETWORK[key])
        supported = {key: value for key, value in entry.items() if key in keys.ON_NETWORK and value is not None}
        result[name] = {key: errors.collect(shapes.texts, value, f"{where}.{name}.{key}", instead=[]) for key, value in supported.items()} or None
    errors.refuse(result)
    return result


def _healthcheck(value: Any, where: str, notes: Notes) -> dict[str, Any]:
    options = mapping(value, where)
    if options.get("disable") is True:  # in this case other keys do not matter, as in Compose
        return {"disable": True}
    for key in sorted(options.keys() - keys.HEALTHCHECK):
        notes.ignored(where, key, "start_period")
    return {key: value for key, value in options.items() if key in keys.HEALTHCHECK}


def _depends_on(value: Any, where: str, notes: Notes) -> list[str]:
    if isinstance(value, dict):
        errors = Errors()
        conditions = {str(errors.collect(mapping, options, f"{where}.{name}", instead={}).get("condition") or "") for name, options in value.items()}
        errors.refuse(list(value))
        if conditions - {"", "service_started"}:
            notes.add(f"{where}: swarm does not start services in order; let the service itself wait until the others answer")
        return list(value)
    if isinstance(value, list):
        return texts(value, where)
    raise GpuSwarmError(f"{where} is {kind_of(value)}, but must be a list of services. Begin each with '- '.")


def _note_unreserved_gpus(service: dict[str, Any], where: str, notes: Notes) -> None:
    reserves = ((service.get("deploy") or {}).get("resources") or {}).get("reservations", {}).get("generic_resources")
    visible = (service.get("environment") or {}).get("NVIDIA_VISIBLE_DEVICES")
    if visible not in (None, *NONE_VISIBLE) and not reserves:
        notes.add(f"{where} sets NVIDIA_VISIBLE_DEVICES but reserves no GPU, so it would see GPUs of others. Reserve the GPUs that it needs")
