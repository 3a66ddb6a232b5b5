# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One table of all errors in a stack file that Docker reports only during the deployment (pure). This code checks each row before the deployment.

'docker stack deploy' reads the file, then creates networks, secrets and configs, and only then converts and creates the services one by one. So most
of these errors would leave a stack half deployed. Checks that need data of the swarm, such as the ports of other services, are in
module_utils/_deployment/clashes.py. The table also has the rows of these checks, so that it is complete.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ...module_utils._deployment import clashes
from ...module_utils._deployment import stack as on_swarm
from ...module_utils._errors import Errors
from ...module_utils._swarm.image_name import is_image_name
from . import mounts, ports, references, services, shapes
from .fields import refuse_unknown

# The places in Docker's source that make these checks.
SCHEMA, LOADER = "docker/cli cli/compose/schema", "docker/cli cli/compose/loader"
CONVERT, SECRETS = "docker/cli cli/compose/convert", "docker/cli cli/command/service/parse.go"
STACK, VOLUMES = "docker/cli cli/command/stack", "docker/cli cli/compose/convert/volume.go"
MOBY, NETWORK = "moby daemon/cluster/convert", "moby daemon/network.go"
ALLOCATOR = "swarmkit manager/allocator"
SERVICE, COMMON = "swarmkit manager/controlapi/service.go", "swarmkit manager/controlapi/common.go"
NETWORKS = "swarmkit manager/controlapi/network.go"
CONFIGS, SECRET = "swarmkit manager/controlapi/config.go", "swarmkit manager/controlapi/secret.go"
PAYLOAD = "swarmkit api/validation/secrets.go"
TASK = "moby daemon/cluster/executor, for each task"


class Stack(NamedTuple):
    """A stack file, translated from the Compose file ``file``. ``files`` has the content of its configs and secrets. ``written`` has the services
    before variables were replaced, ``unset`` the variables without a value. ``choices`` has the images of x-gpu, by service."""

    document: Mapping[str, Any]
    files: Mapping[str, bytes]
    file: str
    written: Mapping[str, Any]
    unset: list[str]
    choices: Mapping[str, list[str]]


class Check(NamedTuple):
    """One row. ``since`` is the first release of Docker that refuses this error; empty means 20.10. ``by`` is the function of this collection that
    refuses it.
    """

    id: str
    what: str
    docker: str
    since: str
    by: Callable[..., Any]


def refuse(stack: Stack) -> None:
    """Refuse a stack file with all errors of the table. Values that were refused earlier may be missing in its services."""
    errors = Errors()
    for check in dict.fromkeys(check.by for check in CHECKS if check.by in _FILE_CHECKS):
        errors.add(*errors.collect(_run_check, check, stack, instead=[]))
    errors.refuse()


def _run_check(check: Callable[[Stack], Iterator[str]], stack: Stack) -> list[str]:
    return list(check(stack))


# -- services ------------------------------------------------------------------------------------------------------------------


def _services(stack: Stack) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each service, with its place for messages."""
    yield from ((f"{stack.file}: services.{name}", service) for name, service in stack.document["services"].items())


_VARIABLE = re.compile(r"(?<!\$)\$\{?([A-Za-z_][A-Za-z0-9_]*)")


def _image(stack: Stack) -> Iterator[str]:
    for name, service in stack.document["services"].items():
        written = stack.written.get(name) or {}
        choices = [(f"x-gpu.images[{number}].image", image) for number, image in enumerate(stack.choices.get(name, []))]
        for key, image in choices or [("image", service["image"])] if "image" in service else []:
            if not is_image_name(image) and (image or choices or written.get("image")):  # another check reports a missing image
                yield (
                    f"{stack.file}: services.{name}.{key} is {image!r}, which is not a valid image name."
                    f"{_describe_unset(stack, written.get('x-gpu') if choices else written.get('image'))} Write it as name:tag, in lower case, such "
                    "as nvidia/cuda:13.0.0-base-ubuntu24.04."
                )


def _describe_unset(stack: Stack, written: Any) -> str:
    """Return a sentence about variables in ``written`` that are not set; '' without such variables."""
    names = [name for name in dict.fromkeys(_VARIABLE.findall(str(written))) if name in stack.unset]
    return f" The variable {', '.join(names)} is not set: set it in .env, or in the environment." if names else ""


def _jobs(stack: Stack) -> Iterator[str]:
    for where, service in _services(stack):
        deploy = service.get("deploy") or {}
        if str(deploy.get("mode")).endswith("-job") and deploy.get("update_config"):
            yield f"{where}.deploy has update_config with mode: {deploy['mode']}, but a job has no updates. Remove update_config."


def _replicas_of_global(stack: Stack) -> Iterator[str]:
    for where, service in _services(stack):
        deploy = service.get("deploy") or {}
        if str(deploy.get("mode")).startswith("global") and deploy.get("replicas") is not None:
            yield f"{where}: deploy has replicas with mode: {deploy['mode']}, which runs one task on each node. Remove replicas."


def _credentials(stack: Stack) -> Iterator[str]:
    for where, service in _services(stack):
        spec = service.get("credential_spec") or {}
        refuse_unknown(spec, ("config", "file", "registry"), f"{where}.credential_spec")
        sources = [key for key in ("config", "file", "registry") if spec.get(key)]
        if len(sources) > 1:
            yield f"{where}.credential_spec has {' and '.join(sources)}. Keep only one of them."


def _volume_texts(stack: Stack) -> Iterator[str]:
    for name, service in stack.document["services"].items():
        for number, mount in enumerate(service.get("volumes") or []):
            if isinstance(mount, str) and "\\" not in mount:
                parts = mount.split(":")
                if not all(parts) or len(parts) > 3:
                    hint = _describe_unset(stack, stack.written[name]["volumes"][number])
                    yield f"{stack.file}: services.{name}.volumes[{number}] is {mount!r}.{hint} Write it as source:target or source:target:ro."


def _mount_targets(stack: Stack) -> Iterator[str]:
    for where, service in _services(stack):
        for number, mount in enumerate(service.get("volumes") or []):
            target = mounts.target_of(mount)
            windows = "\\" in str(mount) or (isinstance(mount, dict) and mount.get("type") == "npipe")
            if isinstance(mount, str) and re.match("[A-Za-z]:/", mount):
                yield (
                    f"{where}.volumes[{number}] is {mount!r}, which Docker reads as a Windows path. Give the volume a name of two letters or "
                    "more, or write it as {type: volume, source: …, target: …}."
                )
            elif not windows and not target.startswith("/"):
                yield f"{where}.volumes[{number}] is mounted at {target or 'nothing'}, which is not an absolute path. Write one, such as /data."


def _mount_sources(stack: Stack) -> Iterator[str]:
    for where, service in _services(stack):
        for number, mount in enumerate(service.get("volumes") or []):
            if isinstance(mount, dict) and mount.get("type") in ("bind", "npipe", "cluster") and not mount.get("source"):
                yield f"{where}.volumes[{number}] is of type {mount['type']} and has no source. Write one."


def _same_targets(section: str, root: str) -> Callable[[Stack], Iterator[str]]:
    def check(stack: Stack) -> Iterator[str]:
        for where, service in _services(stack):
            source_at: dict[str, str] = {}
            for item in service.get(section) or []:
                entry = item if isinstance(item, dict) else {"source": item}
                if not entry.get("source"):
                    continue  # another check reports this
                target = entry.get("target") or entry["source"]
                path = target if target.startswith("/") else root + target
                if path in source_at:
                    yield f"{where}.{section} has both {source_at[path]} and {entry['source']} at {path}. Write another target for one of them."
                source_at[path] = entry["source"]

    return check


def _dnsrr(stack: Stack) -> Iterator[str]:
    for where, service in _services(stack):
        shared = [port for port in ports.expanded(service) if port.mode != ports.HOST]
        if shared and (service.get("deploy") or {}).get("endpoint_mode") == "dnsrr":
            target = shared[0].target
            yield f"{where}: port {target} is published for the whole swarm with endpoint_mode: dnsrr. Publish it in mode: host."


def _port_twice(stack: Stack) -> Iterator[str]:
    for where, service in _services(stack):
        taken: set[tuple[int, str]] = set()
        for port in ports.expanded(service):
            if port.published and (port.published, port.protocol) in taken:
                yield f"{where}.ports publishes {port.label} twice. Write another number for one of them."
            taken.add((port.published, port.protocol))


def _port_in_stack(stack: Stack) -> Iterator[str]:
    """Yield an error for each port that two services publish. Two services may publish the same port in host mode, because swarm then runs them on
    different nodes.
    """
    taken: dict[tuple[int, str], tuple[str, str]] = {}
    for name, service in stack.document["services"].items():
        for port in ports.expanded(service):
            other, mode = taken.setdefault((port.published, port.protocol), (name, port.mode))
            if port.published and other != name and ports.INGRESS in (mode, port.mode):
                where = f"{stack.file}: services.{name}.ports"
                yield f"{where} publishes {port.label}, as services.{other} does. Write another number for one of them."


# -- the other sections --------------------------------------------------------------------------------------------------------


def _section_names(stack: Stack) -> Iterator[str]:
    for section in ("services", "networks", "volumes", "configs", "secrets"):
        for name in stack.document.get(section) or {}:
            if not references.is_key(name):
                yield f"{stack.file}: {section} has the name {name!r}. Use only letters, digits and . _ -."


def _external(stack: Stack) -> Iterator[str]:
    for section in ("networks", "volumes", "configs", "secrets"):
        for name, entry in (stack.document.get(section) or {}).items():
            where, external = f"{stack.file}: {section}.{name}", (entry or {}).get("external")
            if isinstance(external, dict) and external.get("name") and entry.get("name"):
                yield f"{where} has two names, one of them under external. Remove the name under external."
            extra_keys = [key for key in ("driver", "driver_opts", "labels") if external and section == "volumes" and entry.get(key)]
            if extra_keys:
                yield f"{where} is external, but also has {', '.join(extra_keys)}. Remove that: the volume exists already."


def _networks(stack: Stack) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the place for messages, the name, and the definition of each network that is not external."""
    for key, entry in (stack.document.get("networks") or {}).items():
        if not (entry or {}).get("external"):
            yield f"{stack.file}: networks.{key}", str((entry or {}).get("name") or ""), entry or {}


def _network_names(stack: Stack) -> Iterator[str]:
    for where, name, _entry in _networks(stack):
        if name in references.LOCAL_NETWORKS:
            yield f"{where} has the name {name}, but every machine has such a network. Use another name, or external: true to use that network."


def _predefined(stack: Stack) -> Iterator[str]:
    for key, entry in (stack.document.get("networks") or {}).items():
        external = (entry or {}).get("external")
        name = str((external.get("name") if isinstance(external, dict) else None) or (entry or {}).get("name") or key)
        if external and name in ("none", "default"):
            where = f"{stack.file}: networks.{key}"
            yield f"{where} is the network {name} of each machine, which services of a swarm cannot use. Use host, bridge or a network of the file."


def _network_drivers(stack: Stack) -> Iterator[str]:
    for where, _name, entry in _networks(stack):
        if entry.get("driver") in ("host", "ipvlan", "macvlan", "none", "null"):
            yield (
                f"{where}.driver is {entry['driver']}, but a stack cannot create such a network. Remove the driver to get overlay, or create the "
                "network with 'docker network create --scope swarm' and name it here as external."
            )
        ipam = (entry.get("ipam") or {}).get("driver")
        if ipam not in (None, "", "default") and not re.search("[/:]", str(ipam)):
            yield f"{where}.ipam.driver is {ipam}, but swarm supports only default. Remove it."


def _network_labels(stack: Stack) -> Iterator[str]:
    for where, _name, entry in _networks(stack):
        if "com.docker.swarm.predefined" in (entry.get("labels") or {}):
            yield f"{where}.labels has com.docker.swarm.predefined, which swarm keeps for its own networks. Remove it."


# Docker refuses content of this size or larger (MaxConfigSize in controlapi/config.go, MaxSecretSize in api/validation of swarmkit).
REFUSED_SIZE = {"configs": 1000 * 1024, "secrets": 500 * 1024}


def _contents(section: str) -> Callable[[Stack], Iterator[str]]:
    def check(stack: Stack) -> Iterator[str]:
        for key, entry in (stack.document.get(section) or {}).items():
            content = stack.files.get(str((entry or {}).get("file") or "").removeprefix("./"))
            if content is not None and not content:
                yield f"{stack.file}: {section}.{key} is empty, which swarm refuses. Write something into it, or remove it."
            if content is not None and len(content) >= REFUSED_SIZE[section]:
                yield (
                    f"{stack.file}: {section}.{key} has {len(content)} bytes; swarm accepts less than {REFUSED_SIZE[section]}. Use a volume instead."
                )

    return check


_secret_targets, _config_targets = _same_targets("secrets", "/run/secrets/"), _same_targets("configs", "/")
_secret_contents, _config_contents = _contents("secrets"), _contents("configs")

# -- the table -----------------------------------------------------------------------------------------------------------------

CHECKS = [
    # Errors while Docker reads the file. Docker has created nothing yet, but its messages name no remedy.
    Check("text", "a list or a mapping where Docker expects text", SCHEMA, "", shapes.text),
    Check("texts", "anything but a list of strings, for example under `cap_add` or `dns`", SCHEMA, "", shapes.texts),
    Check("command", "a list inside the list of a command, an entrypoint or a test", SCHEMA, "", shapes.command),
    Check("quotes", "a command as text in which a quote is not closed", LOADER, "", shapes.command),
    Check("flag", "anything but true or false, for example for `init`", SCHEMA, "", shapes.flag),
    Check("whole", "text or a fraction instead of a whole number, for example for `replicas`", SCHEMA, "", shapes.whole),
    Check("negative", "a negative number of tasks, attempts or retries", LOADER, "", shapes.whole),
    Check("duration", "a duration without a unit, or in words", SCHEMA, "", shapes.duration),
    Check("size", "a size that is not a number with a unit", LOADER, "", shapes.size),
    Check("order", "an unknown `order` of updates", SCHEMA, "", shapes.one_of),
    Check("ulimits", "`ulimits` with only one of `soft` and `hard`", SCHEMA, "", shapes.ulimits),
    Check("pairs", "text instead of a mapping or a list of `NAME=value`", SCHEMA, "", shapes.name_values),
    Check("options", "a list among the options of `logging`", SCHEMA, "", shapes.name_values),
    Check("file-mode", "a `mode` of a config or secret that is not a number", SCHEMA, "", shapes.file_mode),
    Check("preferences", "`placement.preferences` that is not a list", SCHEMA, "", shapes.each),
    Check("unknown", "an unknown key", SCHEMA, "", refuse_unknown),
    Check("section-name", "a service, network, volume, config or secret whose key has a blank or a special character", SCHEMA, "", _section_names),
    Check("external-volume", "an external volume with a driver, options or labels", LOADER, "", _external),
    Check("external-name", "an external network, config or secret with two names", LOADER, "", _external),
    Check("bind-source", "a bind mount without a source", LOADER, "", _mount_sources),
    Check("volume-spec", "a volume as text with an empty part, or with more than three parts", LOADER, "", _volume_texts),
    Check("port-spec", "a port as text above 65535 or not a number, or with a protocol other than tcp, udp, sctp", SCHEMA, "", ports.translate_ports),
    Check("port-range", "two ranges of ports of different length", SCHEMA, "", ports.translate_ports),
    Check("port-number", "a `published` port above 65535: Docker accepts it, but the tasks wait for ever", ALLOCATOR, "", ports.translate_ports),
    Check("port-target", "a port without its `target`: Docker accepts it, but the port leads nowhere", ALLOCATOR, "", ports.translate_ports),
    Check("image", "an invalid image name, such as one with an empty tag", SERVICE, "", _image),
    # Errors during the conversion. Docker has already created networks, secrets and configs.
    Check("credential", "`credential_spec` with more than one of `config`, `file` and `registry`", CONVERT, "", _credentials),
    Check("declared-network", "a network that the file does not declare", CONVERT, "", references.check_declared),
    Check("declared-volume", "a volume that the file does not declare", VOLUMES, "", references.check_declared),
    Check("declared-secret", "a secret that the file does not declare", CONVERT, "", references.check_declared),
    Check("declared-config", "a config that the file does not declare", CONVERT, "", references.check_declared),
    Check("mode", "an unknown `mode`", CONVERT, "", shapes.one_of),
    Check("replicas-global", "`replicas` of a global service", CONVERT, "", _replicas_of_global),
    Check("mount-type", "a mount of a type that stacks do not have", VOLUMES, "", mounts.translate_volumes),
    Check("mount-options", "a mount with the options of another type", VOLUMES, "", mounts.translate_volumes),
    Check("tmpfs-source", "a tmpfs with a source", VOLUMES, "", mounts.translate_volumes),
    Check("npipe-source", "a pipe or a cluster volume without a source", VOLUMES, "", _mount_sources),
    Check("cpus", "`cpus` that is not a number", CONVERT, "", shapes.cpus),
    Check("cpus-precise", "`cpus` with more than 9 decimals", CONVERT, "", shapes.cpus),
    Check("secret-target", "two secrets of a service with the same target", SECRETS, "", _secret_targets),
    Check("config-target", "two configs of a service with the same target", SECRETS, "", _config_targets),
    Check("external", "an external config, secret or network that the swarm does not have", STACK, "", on_swarm.missing_objects),
    # Errors of the daemon, which creates one service after the other.
    Check("propagation", "an unknown `propagation`", MOBY, "", shapes.one_of),
    Check("restart-condition", "an unknown `condition` of `restart_policy`", MOBY, "", shapes.one_of),
    Check("failure-action", "an unknown `failure_action`", MOBY, "", shapes.one_of),
    Check("endpoint-mode", "an unknown `endpoint_mode`", MOBY, "", shapes.one_of),
    Check("predefined", "the networks `none` and `default`, which each machine has for itself", "moby daemon/cluster/networks.go", "", _predefined),
    Check("network-own-name", "a new network named like one that each machine has for itself, such as `bridge`", NETWORK, "", _network_names),
    Check("network-taken", "a new network whose name another network already has", NETWORK, "", on_swarm.networks_taken),
    Check("network-driver", "a network with a driver that cannot make networks for a swarm", NETWORK, "", _network_drivers),
    Check("network-plugin", "a network with a driver that the managers do not have", NETWORKS, "", clashes.missing_drivers),
    Check("ipam-driver", "an unknown `ipam` driver", NETWORKS, "", _network_drivers),
    Check("subnet", "an invalid subnet", NETWORKS, "", shapes.subnet),
    Check("predefined-label", "a network with the label of swarm's own networks, `com.docker.swarm.predefined`", NETWORKS, "", _network_labels),
    # Errors of swarm when it creates or updates a service.
    Check("service-name", "a service whose name, with the stack's name, has a dot or more than 63 characters", COMMON, "", references.check_names),
    Check("service-taken", "a service whose name another service already has", SERVICE, "", on_swarm.taken),
    Check("cpus-least", "less than 0.001 CPUs", SERVICE, "", shapes.cpus),
    Check("memory-least", "less than 4 MiB of memory, such as `16` without a unit", SERVICE, "", shapes.memory),
    Check("restart-negative", "a negative `delay` of `restart_policy`", SERVICE, "", shapes.duration),
    Check("window-negative", "a negative `window` of `restart_policy`", SERVICE, "", shapes.duration),
    Check("update-negative", "a negative `delay` of `update_config`", SERVICE, "", shapes.duration),
    Check("monitor-negative", "a negative `monitor` of `update_config`", SERVICE, "", shapes.duration),
    Check("failure-ratio", "a `max_failure_ratio` below 0 or above 1", SERVICE, "", shapes.ratio),
    Check("constraint", "a constraint without `==` or `!=`, or a wrong character", "swarmkit manager/constraint", "", services.refuse_constraints),
    Check("mount-target", "two mounts with the same target", SERVICE, "", mounts.refuse_same_target),
    Check("mount-path", "a mount whose target is not an absolute path: Docker accepts it, but no task starts", TASK, "", _mount_targets),
    Check("health-short", "a healthcheck with an interval below one millisecond", SERVICE, "", shapes.duration),
    Check("dnsrr", "a port for the whole swarm together with `endpoint_mode: dnsrr`", SERVICE, "", _dnsrr),
    Check("port-twice", "a port that a service publishes twice", SERVICE, "", _port_twice),
    Check("port-in-stack", "a port that two services of the stack publish, unless both have it in `mode: host`", SERVICE, "", _port_in_stack),
    Check("port-taken", "a port that another service already has, of this stack or of another one", SERVICE, "", clashes.taken_ports),
    Check("ingress-lacking", "a port for the whole swarm, if the swarm has no ingress network", SERVICE, "", clashes.ingress_conflicts),
    Check("ingress-attached", "a service in the ingress network", SERVICE, "", clashes.ingress_conflicts),
    Check("mode-changed", "a changed `mode`, such as from global to replicated", SERVICE, "", clashes.changed_modes),
    Check("job-update", "`update_config` of a job", SERVICE, "23.0", _jobs),
    Check("job-mode", "a job, if the manager has Docker 20.10", CONVERT, "up to 20.10", clashes.unsupported_jobs),
    Check("subnet-taken", "a subnet that overlaps with another network's: Docker accepts it, but no task starts",
          ALLOCATOR, "", clashes.taken_subnets),
    Check("config-empty", "an empty config", CONFIGS, "", _config_contents),
    Check("config-large", "a config of 1,024,000 bytes or more", CONFIGS, "", _config_contents),
    Check("config-changed", "changed content of a config that has its own `name:`", CONFIGS, "", clashes.changed_contents),
    Check("template-driver", "a `template_driver` other than golang: Docker accepts it, but no task starts", TASK, "", shapes.one_of),
    Check("secret-empty", "an empty secret", PAYLOAD, "", _secret_contents),
    Check("secret-large", "a secret of 512,000 bytes or more", PAYLOAD, "", _secret_contents),
    Check("secret-changed", "changed content of a secret that has its own `name:`", SECRET, "", clashes.changed_contents),
    Check("carried-name", "a config or secret whose name has more than 64 characters, or special characters", COMMON, "", references.check_names),
]  # fmt: skip
_FILE_CHECKS = (
    _image, _jobs, _replicas_of_global, _credentials, _volume_texts, _mount_targets, _mount_sources, _secret_targets, _config_targets, _dnsrr,
    _port_twice, _port_in_stack, _section_names, _external, _network_names, _predefined, _network_drivers, _network_labels,
    _secret_contents, _config_contents,
)  # fmt: skip
