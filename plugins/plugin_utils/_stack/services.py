# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One service of a Compose file as one of a stack (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError, SeveralErrors, messages_of
from ...module_utils._placement.node_match import is_constraint
from . import by_other_means, equivalents, gpus, keys, mounts, placement, ports, protection, shapes, templates
from .fields import Notes, Reader, kind_of, mapping, only, pairs, texts
from .folder import decoded
from .variables import Variables, read_variables

RUNTIME = "runtime has no meaning on Swarm: a task gets the default runtime of its node, which provision sets to nvidia. Take it out"
RESERVE = ", and reserve GPUs with deploy.resources.reservations.devices, driver nvidia, capabilities [gpu] and a count"
NONE_VISIBLE = ("", "void", "none")


class Context:
    """What all services of a file share."""

    def __init__(self, kind: str, variables: Variables, read: Reader, notes: Notes) -> None:
        self.kind, self.variables, self.read, self.notes = kind, variables, read, notes
        self.written: dict[str, Any] = {}  # the services as they stand in the file
        self.wanted: dict[str, placement.Wanted] = {}  # by service what it wants under x-gpu
        self.chosen = {one.strip() for one in variables.values.get("COMPOSE_PROFILES", "").split(",")}
        self.profiles: list[str] = []  # of services that are left out
        self.networks: dict[str, Any] = {}  # as the file declares them, and that of the node where a service uses it


def translated(name: str, found: Any, file: str, context: Context) -> dict[str, Any] | None:
    """The service as a stack takes it; None for one that Compose does not start by default either."""
    where = f"{file}: services.{name}"
    service = mapping(found, where)
    profiles = texts(service.get("profiles"), f"{where}.profiles")
    if profiles and not context.chosen.intersection([*profiles, "*"]):
        context.profiles += profiles
        context.notes.add(f"{where} is left out: Compose starts it only with COMPOSE_PROFILES={profiles[0]}. Set that, or take profiles out")
        return None
    errors = Errors()
    errors.of(_refuse, service, where)
    service = errors.of(by_other_means.refuse, service, where)
    service = errors.of(equivalents.under_deploy, service, where, instead={key: value for key, value in service.items() if key != "deploy"})
    want = errors.of(placement.wanted, service.get("x-gpu"), f"{where}.x-gpu")
    if want:
        context.wanted[name] = want
    if want and want.matrix:  # which is for a swarm what image is for a machine
        service = {**service, "image": want.matrix[0]["image"]}
    errors.of(_refuse_no_image, service, where, context.written.get(name))
    service = errors.of(shapes.service, service, where)
    made = {key: value for key, value in service.items() if key in keys.SERVICE}
    for key, value in service.items():
        if key in keys.INSTEAD and value not in (False, "", [], {}):  # which request nothing
            enough = key == "ipc" and service.get("shm_size")
            context.notes.left_out(where, key, "nothing: shm_size is there" if enough else keys.INSTEAD[key])
    made.update(errors.of(_changed, service, where, context))
    _find_unreserved(made, where, context.notes)
    errors.of(templates.refuse_in_service, made, where)
    made = {key: value for key, value in made.items() if value is not None}
    errors.refuse(made)
    return made


def _refuse_no_image(service: dict[str, Any], where: str, written: Any) -> None:
    """Refuses a service without an image. One that is refused for another reason is written all the same, and so is a variable that is empty."""
    own = mapping(written, where)
    images = isinstance(own.get("x-gpu"), dict) and own["x-gpu"].get("images")
    if not service.get("image") and not images and not own.get("image"):
        built = "Build it, push it to a registry that the nodes reach, and write" if "build" in service else "Write"
        raise GpuSwarmError(f"{where} has no image. {built} its name there.")


def _refuse(service: dict[str, Any], where: str) -> None:
    errors = Errors()
    if service.get("runtime"):
        errors.add(f"{where}.{RUNTIME}{'' if _reserves(service) else RESERVE}.")
    for key in service:
        if key in keys.REFUSED:
            errors.add(f"{where}.{key} has no meaning on Swarm: {keys.REFUSED[key]}.")
    known = keys.SERVICE | keys.TRANSLATED | keys.INSTEAD.keys() | keys.REFUSED.keys() | {"profiles", "runtime"}
    # What begins with x- is somebody's own, but for x-gpu.
    errors.of(only, [key for key in service if not key.startswith("x-")], known, where)
    errors.of(protection.refuse, service, where)
    errors.refuse()


def _reserves(service: dict[str, Any]) -> bool:
    """Whether the service requests GPUs by number, rightly or not."""
    found: Any = service.get("deploy")
    for key in ("resources", "reservations"):
        found = found.get(key) if isinstance(found, dict) else None
    return bool(service.get("gpus") or (isinstance(found, dict) and (found.get("devices") or found.get("generic_resources"))))


def _changed(service: dict[str, Any], where: str, context: Context) -> dict[str, Any]:
    """What is other than it stands in the file."""
    notes, errors = context.notes, Errors()
    deploy, requested = errors.of(_deploy, service, where, context, instead=(None, gpus.Reserved([], [])))
    made: dict[str, Any] = {"deploy": deploy}
    if service.get("environment") is not None or service.get("env_file") is not None:
        made["environment"] = errors.of(_environment, service, where, context, instead={})
    if requested.capabilities:  # as Docker's own driver for NVIDIA has it
        made["environment"] = {gpus.DRIVER_VARIABLE: ",".join(requested.capabilities), **made.get("environment", {})}
    if service.get("labels") is not None:
        made["labels"] = errors.of(shapes.shared, service["labels"], f"{where}.labels")
    made["volumes"] = errors.of(_mounted, service, where, notes)
    made.update(errors.of(_connected, service, where, context))
    if service.get("healthcheck") is not None:
        made["healthcheck"] = errors.of(_healthcheck, service["healthcheck"], f"{where}.healthcheck", notes)
    if service.get("depends_on"):
        made["depends_on"] = errors.of(_depends_on, service["depends_on"], f"{where}.depends_on", notes)
    errors.refuse(made)
    return made


def _mounted(service: dict[str, Any], where: str, notes: Notes) -> list[Any] | None:
    """What it mounts; None for nothing."""
    errors = Errors()
    made = errors.of(mounts.volumes, service.get("volumes") or [], f"{where}.volumes", notes, instead=[])
    if service.get("tmpfs"):
        made = [*made, *errors.of(mounts.tmpfs, service["tmpfs"], f"{where}.tmpfs", notes, instead=[])]
    shared = errors.of(equivalents.shared_memory, service.get("shm_size"), mounts.targets(made), where, notes, instead=[])
    made = [*made, *shared]
    errors.of(mounts.refuse_same_target, made, where)
    errors.refuse(made)
    return made or service.get("volumes")


def _deploy(service: dict[str, Any], where: str, context: Context) -> tuple[dict[str, Any] | None, gpus.Reserved]:
    deploy, errors = mapping(service.get("deploy"), f"{where}.deploy"), Errors()
    errors.of(only, deploy, keys.DEPLOY, f"{where}.deploy")
    made, below = dict(deploy), f"{where}.deploy.resources"
    resources = errors.of(mapping, deploy.get("resources"), below, instead={})
    errors.of(only, resources, ("limits", "reservations"), below, "There are limits and reservations.")
    limits = errors.of(_limits, resources.get("limits"), f"{below}.limits", instead={})
    wanted = errors.of(_reservations, resources.get("reservations"), f"{below}.reservations", instead={})
    requested = errors.of(gpus.reserved, {**service, "deploy": {"resources": {"reservations": wanted}}}, context.kind, where, context.notes)
    reservations = {key: value for key, value in wanted.items() if key in keys.RESERVATIONS and key != "generic_resources"}
    if requested and requested.resources:
        reservations["generic_resources"] = requested.resources
    if resources or reservations:
        made["resources"] = {key: value for key, value in (("limits", limits), ("reservations", reservations)) if value}
    errors.of(_constraints, deploy.get("placement"), f"{where}.deploy.placement")
    result = {key: value for key, value in made.items() if value not in (None, {})} or None, requested or gpus.Reserved([], [])
    errors.refuse(result)
    return result


def _limits(found: Any, where: str) -> dict[str, Any]:
    limits, errors = dict(mapping(found, where)), Errors()
    errors.of(only, limits, keys.LIMITS, where, "GPUs are reserved: write it under reservations." if "devices" in limits else "Take it out.")
    if limits.get("pids") in (None, -1, "-1"):  # no limit, as for Compose
        limits.pop("pids", None)
    else:
        limits["pids"] = errors.of(shapes.whole(), limits["pids"], f"{where}.pids")
    errors.refuse(limits)
    return limits


def _reservations(found: Any, where: str) -> dict[str, Any]:
    wanted, errors = mapping(found, where), Errors()
    errors.of(only, wanted, keys.RESERVATIONS | {"devices"}, where, "Take it out; pids stands under limits.")
    errors.refuse(wanted)
    return wanted


def _constraints(found: Any, where: str) -> None:
    refuse_constraints(mapping(found, where).get("constraints"), f"{where}.constraints")


def refuse_constraints(found: Any, where: str) -> None:
    if isinstance(found, str):
        raise GpuSwarmError(f"{where} is text, but must be a list. Begin each constraint with '- '.")
    wrong, errors = [one for one in texts(found, where) if not is_constraint(one)], Errors()
    errors.add(*(f"{where} has {one!r}, which swarm does not take: write it as node.labels.gpu.model==Tesla-T4, with == or !=." for one in wrong))
    errors.refuse()


def _environment(service: dict[str, Any], where: str, context: Context) -> dict[str, str]:
    """What its files say, and above that what stands here. What is only named has the value that the variable has where you are."""
    found: dict[str, str | None] = {}
    files, errors = service.get("env_file"), Errors()
    for number, entry in enumerate(files if isinstance(files, list) else [files] if files else []):
        found.update(errors.of(_env_file, entry, f"{where}.env_file[{number}]", context, instead={}))
    found.update(errors.of(pairs, service.get("environment"), f"{where}.environment", instead={}))
    known = context.variables.values
    values = {key: known[key] if value is None else value for key, value in found.items() if value is not None or key in known}
    made: dict[str, str] = errors.of(templates.environment, values, f"{where}.environment", context.notes, instead={})
    errors.refuse(made)
    return made


def _env_file(entry: Any, where: str, context: Context) -> dict[str, str | None]:
    entry = {"path": entry} if isinstance(entry, str) else mapping(entry, where)
    only(entry, ("path", "required", "format"), where, "An entry has path, required and format.")
    path, form = entry.get("path"), entry.get("format")
    if not isinstance(path, str) or not path or form not in (None, "raw"):
        raise GpuSwarmError(f"{where} has to have a path, and raw or nothing as its format. Write the path of a file with NAME=value lines.")
    content = context.read(path)
    if content is None:
        if entry.get("required") is False:
            return {}
        raise GpuSwarmError(f"{where}: there is no file {path}. Make it, or write required: false beside its path.")
    try:
        return read_variables(decoded(content, path), path, context.variables.values, raw=form == "raw")
    except GpuSwarmError as problem:
        raise SeveralErrors([f"{where}: {one}" for one in messages_of(problem)]) from problem


def _connected(service: dict[str, Any], where: str, context: Context) -> dict[str, Any]:
    """Its networks and ports."""
    notes, errors = context.notes, Errors()
    made: dict[str, Any] = {}
    if service.get("ports") is not None:
        made["ports"] = errors.of(ports.translated, service["ports"], f"{where}.ports", notes)
    if service.get("networks") is not None:
        made["networks"] = errors.of(_networks, service["networks"], f"{where}.networks", notes)
    host = errors.of(equivalents.network_of_host, service, context.networks, where)
    if host:
        context.networks.update({key: {"external": True, "name": "host"} for key in host})
        if made.get("ports"):
            notes.left_out(where, "ports", "nothing: with the network of its node a task uses the ports of the node itself, as without a swarm")
        made.update({"networks": host, "ports": None})
    elif service.get("network_mode"):
        notes.left_out(where, "network_mode", "nothing: the service is in the network default of its stack")
    errors.refuse(made)
    return made


def _networks(found: Any, where: str, notes: Notes) -> Any:
    if isinstance(found, list):
        return texts(found, where)
    made, errors = {}, Errors()
    for name, options in mapping(found, where).items():
        entry = errors.of(mapping, options, f"{where}.{name}", instead={})
        errors.of(only, entry, keys.ON_NETWORK | keys.INSTEAD_ON_NETWORK.keys(), f"{where}.{name}")
        for key in entry:
            if key in keys.INSTEAD_ON_NETWORK:
                notes.left_out(f"{where}.{name}", key, keys.INSTEAD_ON_NETWORK[key])
        taken = {key: value for key, value in entry.items() if key in keys.ON_NETWORK and value is not None}
        made[name] = {key: errors.of(shapes.texts, value, f"{where}.{name}.{key}", instead=[]) for key, value in taken.items()} or None
    errors.refuse(made)
    return made


def _healthcheck(found: Any, where: str, notes: Notes) -> dict[str, Any]:
    options = mapping(found, where)
    if options.get("disable") is True:  # whatever else stands there, as for Compose
        return {"disable": True}
    for key in sorted(options.keys() - keys.HEALTHCHECK):
        notes.left_out(where, key, "start_period")
    return {key: value for key, value in options.items() if key in keys.HEALTHCHECK}


def _depends_on(found: Any, where: str, notes: Notes) -> list[str]:
    if isinstance(found, dict):
        errors = Errors()
        conditions = {str(errors.of(mapping, options, f"{where}.{name}", instead={}).get("condition") or "") for name, options in found.items()}
        errors.refuse(list(found))
        if conditions - {"", "service_started"}:
            notes.add(f"{where}: swarm starts services in no order and waits for none; have the service itself wait until the others answer")
        return list(found)
    if isinstance(found, list):
        return texts(found, where)
    raise GpuSwarmError(f"{where} is {kind_of(found)}, but must be a list of services. Begin each with '- '.")


def _find_unreserved(made: dict[str, Any], where: str, notes: Notes) -> None:
    reserves = ((made.get("deploy") or {}).get("resources") or {}).get("reservations", {}).get("generic_resources")
    visible = (made.get("environment") or {}).get("NVIDIA_VISIBLE_DEVICES")
    if visible not in (None, *NONE_VISIBLE) and not reserves:
        notes.add(f"{where} sets NVIDIA_VISIBLE_DEVICES and reserves no GPU: it would see those of others. Reserve what it needs")
