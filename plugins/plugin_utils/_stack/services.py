# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One service of a Compose file as one of a stack (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any

from ...module_utils._errors import GpuSwarmError
from ...module_utils._ledger.node_match import is_constraint
from . import by_other_means, equivalents, gpus, keys, mounts, placement, ports, protection, shapes, templates
from .fields import Notes, Reader, kind_of, mapping, only, pairs, texts
from .folder import decoded
from .variables import Variables, read_variables

RUNTIME = (
    "runtime has no meaning on Swarm: a task gets the default runtime of its node, which provision sets to nvidia. Take it out, and reserve GPUs "
    "with deploy.resources.reservations.devices, driver nvidia, capabilities [gpu] and a count."
)
NONE_VISIBLE = ("", "void", "none")


class Context:
    """What all services of a file share."""

    def __init__(self, kind: str, variables: Variables, read: Reader, notes: Notes) -> None:
        self.kind, self.variables, self.read, self.notes = kind, variables, read, notes
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
    _refuse(service, where)
    service = equivalents.under_deploy(service, where)
    want = placement.wanted(service.get("x-gpu"), f"{where}.x-gpu")
    if want:
        context.wanted[name] = want
    if want and want.matrix:  # which is for a swarm what image is for a machine
        service = {**service, "image": want.matrix[0]["image"]}
    service = shapes.service(service, where)
    made = {key: value for key, value in service.items() if key in keys.SERVICE}
    for key, value in service.items():
        if key in keys.INSTEAD and value not in (False, "", [], {}):  # which request nothing
            context.notes.left_out(where, key, keys.INSTEAD[key])
    if not service.get("image"):
        built = "Build it, push it to a registry that the nodes reach, and write" if "build" in service else "Write"
        raise GpuSwarmError(f"{where} has no image. {built} its name there.")
    made.update(_changed(service, where, context))
    _find_unreserved(made, where, context.notes)
    templates.refuse_in_service(made, where)
    return {key: value for key, value in made.items() if value is not None}


def _refuse(service: dict[str, Any], where: str) -> None:
    if service.get("runtime"):
        raise GpuSwarmError(f"{where}.{RUNTIME}")
    for key in service:
        if key in keys.REFUSED:
            raise GpuSwarmError(f"{where}.{key} has no meaning on Swarm: {keys.REFUSED[key]}.")
    known = keys.SERVICE | keys.TRANSLATED | keys.INSTEAD.keys() | {"profiles", "runtime"}
    # What begins with x- is somebody's own, but for x-gpu.
    only([key for key in service if not key.startswith("x-")], known, where)
    protection.refuse(service, where)
    by_other_means.refuse(service, where)


def _changed(service: dict[str, Any], where: str, context: Context) -> dict[str, Any]:
    """What is other than it stands in the file."""
    notes = context.notes
    deploy, requested = _deploy(service, where, context)
    made: dict[str, Any] = {"deploy": deploy}
    if service.get("environment") is not None or service.get("env_file") is not None:
        made["environment"] = templates.environment(_environment(service, where, context), f"{where}.environment", notes)
    if requested.capabilities:  # as Docker's own driver for NVIDIA has it
        made["environment"] = {gpus.DRIVER_VARIABLE: ",".join(requested.capabilities), **made.get("environment", {})}
    if service.get("labels") is not None:
        made["labels"] = shapes.shared(service["labels"], f"{where}.labels")
    if service.get("volumes") is not None:
        made["volumes"] = mounts.volumes(service["volumes"], f"{where}.volumes", notes)
    if service.get("tmpfs"):
        made["volumes"] = [*made.get("volumes", []), *mounts.tmpfs(service["tmpfs"], f"{where}.tmpfs", notes)]
    shared = equivalents.shared_memory(service.get("shm_size"), mounts.targets(made.get("volumes", [])), where, notes)
    if shared:
        made["volumes"] = [*made.get("volumes", []), *shared]
    mounts.refuse_same_target(made.get("volumes", []), where)
    made.update(_connected(service, where, context))
    if service.get("healthcheck") is not None:
        made["healthcheck"] = _healthcheck(service["healthcheck"], f"{where}.healthcheck", notes)
    if service.get("depends_on"):
        made["depends_on"] = _depends_on(service["depends_on"], f"{where}.depends_on", notes)
    return made


def _deploy(service: dict[str, Any], where: str, context: Context) -> tuple[dict[str, Any] | None, gpus.Reserved]:
    deploy = mapping(service.get("deploy"), f"{where}.deploy")
    only(deploy, keys.DEPLOY, f"{where}.deploy")
    made, below = dict(deploy), f"{where}.deploy.resources"
    resources = mapping(deploy.get("resources"), below)
    only(resources, ("limits", "reservations"), below, "There are limits and reservations.")
    limits, wanted = (mapping(resources.get(key), f"{below}.{key}") for key in ("limits", "reservations"))
    only(limits, keys.LIMITS, f"{below}.limits", "GPUs are reserved: write it under reservations." if "devices" in limits else "Take it out.")
    only(wanted, keys.RESERVATIONS | {"devices"}, f"{below}.reservations", "Take it out; pids stands under limits.")
    requested = gpus.reserved({**service, "deploy": deploy}, context.kind, where, context.notes)
    reservations = {key: value for key, value in wanted.items() if key in keys.RESERVATIONS}
    reservations.pop("generic_resources", None)
    if requested.resources:
        reservations["generic_resources"] = requested.resources
    if limits.get("pids") in (None, -1, "-1"):  # no limit, as for Compose
        limits.pop("pids", None)
    else:
        limits["pids"] = shapes.whole()(limits["pids"], f"{below}.limits.pids")
    if resources or requested.resources:
        made["resources"] = {key: value for key, value in (("limits", limits), ("reservations", reservations)) if value}
    refuse_constraints(mapping(deploy.get("placement"), f"{where}.deploy.placement").get("constraints"), f"{where}.deploy.placement.constraints")
    return {key: value for key, value in made.items() if value not in (None, {})} or None, requested


def refuse_constraints(found: Any, where: str) -> None:
    if isinstance(found, str):
        raise GpuSwarmError(f"{where} is text, and has to be a list. Begin each constraint with '- '.")
    wrong = [one for one in texts(found, where) if not is_constraint(one)]
    if wrong:
        raise GpuSwarmError(f"{where} has {wrong[0]!r}, which swarm does not take: write it as node.labels.gpu.model==Tesla-T4, with == or !=.")


def _environment(service: dict[str, Any], where: str, context: Context) -> dict[str, str]:
    """What its files say, and above that what stands here. What is only named has the value that the variable has where you are."""
    found: dict[str, str | None] = {}
    files = service.get("env_file")
    for number, entry in enumerate(files if isinstance(files, list) else [files] if files else []):
        found.update(_env_file(entry, f"{where}.env_file[{number}]", context))
    found.update(pairs(service.get("environment"), f"{where}.environment"))
    known = context.variables.values
    return {key: known[key] if value is None else value for key, value in found.items() if value is not None or key in known}


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
    return read_variables(decoded(content, path), path, context.variables.values, raw=form == "raw")


def _connected(service: dict[str, Any], where: str, context: Context) -> dict[str, Any]:
    """Its networks and ports."""
    notes = context.notes
    made: dict[str, Any] = {}
    if service.get("ports") is not None:
        made["ports"] = ports.translated(service["ports"], f"{where}.ports", notes)
    if service.get("networks") is not None:
        made["networks"] = _networks(service["networks"], f"{where}.networks", notes)
    host = equivalents.network_of_host(service, context.networks, where)
    if host:
        context.networks.update({key: {"external": True, "name": "host"} for key in host})
        if made.get("ports"):
            notes.left_out(where, "ports", "nothing: with the network of its node a task uses the ports of the node itself, as without a swarm")
        made.update({"networks": host, "ports": None})
    elif service.get("network_mode"):
        notes.left_out(where, "network_mode", "nothing: the service is in the network default of its stack")
    return made


def _networks(found: Any, where: str, notes: Notes) -> Any:
    if isinstance(found, list):
        return texts(found, where)
    made = {}
    for name, options in mapping(found, where).items():
        entry = mapping(options, f"{where}.{name}")
        only(entry, keys.ON_NETWORK | keys.INSTEAD_ON_NETWORK.keys(), f"{where}.{name}")
        for key in entry:
            if key in keys.INSTEAD_ON_NETWORK:
                notes.left_out(f"{where}.{name}", key, keys.INSTEAD_ON_NETWORK[key])
        made[name] = {key: value for key, value in entry.items() if key in keys.ON_NETWORK} or None
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
        conditions = {str(mapping(options, f"{where}.{name}").get("condition") or "") for name, options in found.items()}
        if conditions - {"", "service_started"}:
            notes.add(f"{where}: swarm starts services in no order and waits for none; have the service itself wait until the others answer")
        return list(found)
    if isinstance(found, list):
        return texts(found, where)
    raise GpuSwarmError(f"{where} is {kind_of(found)}, and has to be a list of services. Begin each with '- '.")


def _find_unreserved(made: dict[str, Any], where: str, notes: Notes) -> None:
    reserves = ((made.get("deploy") or {}).get("resources") or {}).get("reservations", {}).get("generic_resources")
    visible = (made.get("environment") or {}).get("NVIDIA_VISIBLE_DEVICES")
    if visible not in (None, *NONE_VISIBLE) and not reserves:
        notes.add(f"{where} sets NVIDIA_VISIBLE_DEVICES and reserves no GPU: it would see those of others. Reserve what it needs")
