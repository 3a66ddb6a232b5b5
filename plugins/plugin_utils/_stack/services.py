# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Translates one service of a Compose file into a service of a stack (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError, SeveralErrors, messages_of
from ...module_utils._placement.node_match import is_constraint
from . import by_other_means, equivalents, gpus, keys, mounts, placement, ports, protection, shapes, templates
from .fields import Notes, Reader, kind_of, mapping, pairs, refuse_unknown, texts
from .folder import decoded
from .variables import Variables, read_variables

RUNTIME = "runtime is not supported on Swarm: a task gets the default runtime of its node, which provision sets to nvidia. Remove it"
RESERVE = ", and reserve GPUs with deploy.resources.reservations.devices, driver nvidia, capabilities [gpu] and a count"
NONE_VISIBLE = ("", "void", "none")


class Context:
    """What all services of a file share."""

    def __init__(self, kind: str, variables: Variables, read: Reader, notes: Notes) -> None:
        self.kind, self.variables, self.read, self.notes = kind, variables, read, notes
        self.written: dict[str, Any] = {}  # the services before variables are replaced
        self.wanted: dict[str, placement.Wanted] = {}  # the x-gpu of services
        self.chosen = {one.strip() for one in variables.values.get("COMPOSE_PROFILES", "").split(",")}
        self.profiles: list[str] = []  # of services that are skipped
        self.networks: dict[str, Any] = {}  # those of the file, and the host network if a service uses it


def translate_service(name: str, found: Any, file: str, context: Context) -> dict[str, Any] | None:
    """Return the service for the stack, or None if its profiles are not selected."""
    where = f"{file}: services.{name}"
    service = mapping(found, where)
    profiles = texts(service.get("profiles"), f"{where}.profiles")
    if profiles and not context.chosen.intersection([*profiles, "*"]):
        context.profiles += profiles
        context.notes.add(f"{where} is skipped: Compose starts it only with COMPOSE_PROFILES={profiles[0]}. Set that, or remove profiles")
        return None
    errors = Errors()
    errors.collect(_refuse, service, where)
    service = errors.collect(by_other_means.refuse, service, where)
    service = errors.collect(equivalents.move_to_deploy, service, where, instead={key: value for key, value in service.items() if key != "deploy"})
    want = errors.collect(placement.parse_x_gpu, service.get("x-gpu"), f"{where}.x-gpu")
    if want:
        context.wanted[name] = want
    if want and want.matrix:  # x-gpu.images replaces image
        service = {**service, "image": want.matrix[0]["image"]}
    errors.collect(_refuse_no_image, service, where, context.written.get(name))
    service = errors.collect(shapes.service, service, where)
    made = {key: value for key, value in service.items() if key in keys.SERVICE}
    for key, value in service.items():
        if key in keys.INSTEAD and value not in (False, "", [], {}):  # such values request nothing
            enough = key == "ipc" and service.get("shm_size")
            context.notes.ignored(where, key, "nothing: shm_size is set" if enough else keys.INSTEAD[key])
    made.update(errors.collect(_translated_keys, service, where, context))
    _find_unreserved(made, where, context.notes)
    errors.collect(templates.refuse_in_service, made, where)
    made = {key: value for key, value in made.items() if value is not None}
    errors.refuse(made)
    return made


def _refuse_no_image(service: dict[str, Any], where: str, written: Any) -> None:
    """Refuse a service without an image. An image that is invalid, or a variable that is empty, is another error."""
    own = mapping(written, where)
    images = isinstance(own.get("x-gpu"), dict) and own["x-gpu"].get("images")
    if not service.get("image") and not images and not own.get("image"):
        built = "Build it, push it to a registry that the nodes reach, and write" if "build" in service else "Write"
        raise GpuSwarmError(f"{where} has no image. {built} its name under image.")


def _refuse(service: dict[str, Any], where: str) -> None:
    errors = Errors()
    if service.get("runtime"):
        errors.add(f"{where}.{RUNTIME}{'' if _reserves(service) else RESERVE}.")
    for key in service:
        if key in keys.REFUSED:
            errors.add(f"{where}.{key} is not supported on Swarm: {keys.REFUSED[key]}.")
    known = keys.SERVICE | keys.TRANSLATED | keys.INSTEAD.keys() | keys.REFUSED.keys() | {"profiles", "runtime"}
    # Keys that begin with x- are extensions of users, except x-gpu.
    errors.collect(refuse_unknown, [key for key in service if not key.startswith("x-")], known, where)
    errors.collect(protection.refuse, service, where)
    errors.refuse()


def _reserves(service: dict[str, Any]) -> bool:
    """Whether the service requests GPUs by number, correctly or not."""
    found: Any = service.get("deploy")
    for key in ("resources", "reservations"):
        found = found.get(key) if isinstance(found, dict) else None
    return bool(service.get("gpus") or (isinstance(found, dict) and (found.get("devices") or found.get("generic_resources"))))


def _translated_keys(service: dict[str, Any], where: str, context: Context) -> dict[str, Any]:
    """The keys whose values differ from those in the file."""
    notes, errors = context.notes, Errors()
    deploy, requested = errors.collect(_deploy, service, where, context, instead=(None, gpus.Reserved([], [])))
    made: dict[str, Any] = {"deploy": deploy}
    if service.get("environment") is not None or service.get("env_file") is not None:
        made["environment"] = errors.collect(_environment, service, where, context, instead={})
    if requested.capabilities:  # as Docker's own NVIDIA driver does
        made["environment"] = {gpus.DRIVER_VARIABLE: ",".join(requested.capabilities), **made.get("environment", {})}
    if service.get("labels") is not None:
        made["labels"] = errors.collect(shapes.name_values, service["labels"], f"{where}.labels")
    made["volumes"] = errors.collect(_mounted, service, where, notes)
    made.update(errors.collect(_connected, service, where, context))
    if service.get("healthcheck") is not None:
        made["healthcheck"] = errors.collect(_healthcheck, service["healthcheck"], f"{where}.healthcheck", notes)
    if service.get("depends_on"):
        made["depends_on"] = errors.collect(_depends_on, service["depends_on"], f"{where}.depends_on", notes)
    errors.refuse(made)
    return made


def _mounted(service: dict[str, Any], where: str, notes: Notes) -> list[Any] | None:
    """All mounts of the service, or None."""
    errors = Errors()
    made = errors.collect(mounts.translate_volumes, service.get("volumes") or [], f"{where}.volumes", notes, instead=[])
    if service.get("tmpfs"):
        made = [*made, *errors.collect(mounts.translate_tmpfs, service["tmpfs"], f"{where}.tmpfs", notes, instead=[])]
    shared = errors.collect(equivalents.shared_memory, service.get("shm_size"), mounts.targets_of(made), where, notes, instead=[])
    made = [*made, *shared]
    errors.collect(mounts.refuse_same_target, made, where)
    errors.refuse(made)
    return made or service.get("volumes")


def _deploy(service: dict[str, Any], where: str, context: Context) -> tuple[dict[str, Any] | None, gpus.Reserved]:
    deploy, errors = mapping(service.get("deploy"), f"{where}.deploy"), Errors()
    errors.collect(refuse_unknown, deploy, keys.DEPLOY, f"{where}.deploy")
    made, below = dict(deploy), f"{where}.deploy.resources"
    resources = errors.collect(mapping, deploy.get("resources"), below, instead={})
    errors.collect(refuse_unknown, resources, ("limits", "reservations"), below, "Use limits and reservations.")
    limits = errors.collect(_limits, resources.get("limits"), f"{below}.limits", instead={})
    wanted = errors.collect(_reservations, resources.get("reservations"), f"{below}.reservations", instead={})
    requested = errors.collect(gpus.reserved, {**service, "deploy": {"resources": {"reservations": wanted}}}, context.kind, where, context.notes)
    reservations = {key: value for key, value in wanted.items() if key in keys.RESERVATIONS and key != "generic_resources"}
    if requested and requested.resources:
        reservations["generic_resources"] = requested.resources
    if resources or reservations:
        made["resources"] = {key: value for key, value in (("limits", limits), ("reservations", reservations)) if value}
    errors.collect(_constraints, deploy.get("placement"), f"{where}.deploy.placement")
    result = {key: value for key, value in made.items() if value not in (None, {})} or None, requested or gpus.Reserved([], [])
    errors.refuse(result)
    return result


def _limits(found: Any, where: str) -> dict[str, Any]:
    limits, errors = dict(mapping(found, where)), Errors()
    errors.collect(refuse_unknown, limits, keys.LIMITS, where, "Write it under reservations." if "devices" in limits else "Remove it.")
    if limits.get("pids") in (None, -1, "-1"):  # no limit, as in Compose
        limits.pop("pids", None)
    else:
        limits["pids"] = errors.collect(shapes.whole(), limits["pids"], f"{where}.pids")
    errors.refuse(limits)
    return limits


def _reservations(found: Any, where: str) -> dict[str, Any]:
    wanted, errors = mapping(found, where), Errors()
    errors.collect(refuse_unknown, wanted, keys.RESERVATIONS | {"devices"}, where, "Remove it; pids belongs under limits.")
    errors.refuse(wanted)
    return wanted


def _constraints(found: Any, where: str) -> None:
    refuse_constraints(mapping(found, where).get("constraints"), f"{where}.constraints")


def refuse_constraints(found: Any, where: str) -> None:
    if isinstance(found, str):
        raise GpuSwarmError(f"{where} is text, but must be a list. Begin each constraint with '- '.")
    wrong, errors = [one for one in texts(found, where) if not is_constraint(one)], Errors()
    errors.add(*(f"{where} has {one!r}, which swarm does not accept. Write it as node.labels.gpu.model==Tesla-T4, with == or !=." for one in wrong))
    errors.refuse()


def _environment(service: dict[str, Any], where: str, context: Context) -> dict[str, str]:
    """The variables of env_file, overridden by environment. A name without a value gets its value from .env or the user's environment."""
    found: dict[str, str | None] = {}
    files, errors = service.get("env_file"), Errors()
    for number, entry in enumerate(files if isinstance(files, list) else [files] if files else []):
        found.update(errors.collect(_env_file, entry, f"{where}.env_file[{number}]", context, instead={}))
    found.update(errors.collect(pairs, service.get("environment"), f"{where}.environment", instead={}))
    known = context.variables.values
    values = {key: known[key] if value is None else value for key, value in found.items() if value is not None or key in known}
    made: dict[str, str] = errors.collect(templates.escape_environment, values, f"{where}.environment", context.notes, instead={})
    errors.refuse(made)
    return made


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
        return read_variables(decoded(content, path), path, context.variables.values, raw=form == "raw")
    except GpuSwarmError as problem:
        raise SeveralErrors([f"{where}: {one}" for one in messages_of(problem)]) from problem


def _connected(service: dict[str, Any], where: str, context: Context) -> dict[str, Any]:
    """The networks and ports of the service."""
    notes, errors = context.notes, Errors()
    made: dict[str, Any] = {}
    if service.get("ports") is not None:
        made["ports"] = errors.collect(ports.translate_ports, service["ports"], f"{where}.ports", notes)
    if service.get("networks") is not None:
        made["networks"] = errors.collect(_networks, service["networks"], f"{where}.networks", notes)
    host = errors.collect(equivalents.network_of_host, service, context.networks, where)
    if host:
        context.networks.update({key: {"external": True, "name": "host"} for key in host})
        if made.get("ports"):
            notes.ignored(where, "ports", "nothing: in the host network a task uses the ports of its node directly")
        made.update({"networks": host, "ports": None})
    elif service.get("network_mode"):
        notes.ignored(where, "network_mode", "nothing: the service is in the network default of its stack")
    errors.refuse(made)
    return made


def _networks(found: Any, where: str, notes: Notes) -> Any:
    if isinstance(found, list):
        return texts(found, where)
    made, errors = {}, Errors()
    for name, options in mapping(found, where).items():
        entry = errors.collect(mapping, options, f"{where}.{name}", instead={})
        errors.collect(refuse_unknown, entry, keys.ON_NETWORK | keys.INSTEAD_ON_NETWORK.keys(), f"{where}.{name}")
        for key in entry:
            if key in keys.INSTEAD_ON_NETWORK:
                notes.ignored(f"{where}.{name}", key, keys.INSTEAD_ON_NETWORK[key])
        taken = {key: value for key, value in entry.items() if key in keys.ON_NETWORK and value is not None}
        made[name] = {key: errors.collect(shapes.texts, value, f"{where}.{name}.{key}", instead=[]) for key, value in taken.items()} or None
    errors.refuse(made)
    return made


def _healthcheck(found: Any, where: str, notes: Notes) -> dict[str, Any]:
    options = mapping(found, where)
    if options.get("disable") is True:  # other keys do not matter then, as in Compose
        return {"disable": True}
    for key in sorted(options.keys() - keys.HEALTHCHECK):
        notes.ignored(where, key, "start_period")
    return {key: value for key, value in options.items() if key in keys.HEALTHCHECK}


def _depends_on(found: Any, where: str, notes: Notes) -> list[str]:
    if isinstance(found, dict):
        errors = Errors()
        conditions = {str(errors.collect(mapping, options, f"{where}.{name}", instead={}).get("condition") or "") for name, options in found.items()}
        errors.refuse(list(found))
        if conditions - {"", "service_started"}:
            notes.add(f"{where}: swarm does not start services in order; let the service itself wait until the others answer")
        return list(found)
    if isinstance(found, list):
        return texts(found, where)
    raise GpuSwarmError(f"{where} is {kind_of(found)}, but must be a list of services. Begin each with '- '.")


def _find_unreserved(made: dict[str, Any], where: str, notes: Notes) -> None:
    reserves = ((made.get("deploy") or {}).get("resources") or {}).get("reservations", {}).get("generic_resources")
    visible = (made.get("environment") or {}).get("NVIDIA_VISIBLE_DEVICES")
    if visible not in (None, *NONE_VISIBLE) and not reserves:
        notes.add(f"{where} sets NVIDIA_VISIBLE_DEVICES but reserves no GPU, so it would see GPUs of others. Reserve the GPUs that it needs")
