# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes docs/reference/compose-keys.md from the sets of keys in the code, with the reasons that only the page needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from plugins.plugin_utils._stack import keys

from .blocks import table

HEAD = """\
<!-- Made by `python -m tests.pages` from plugins/plugin_utils/_stack/keys.py and tests/pages/compose_keys.py; edit those. -->
# What becomes of each key of a Compose file

`fleet.gpu_swarm.deploy` translates a Compose file for Swarm. This table has each key of the Compose specification, with what becomes of it, and why.
[Run a Compose file](../run/compose.md) shows it with examples, and [how GPUs are requested](../run/compose.md#gpus).

- **passed on**: Swarm applies it as it is written.
- **left out**: Swarm has nothing like it. Each run prints a note with what to write instead, unless the value asks for nothing, such as `false`.
- **an error**: the service would run differently, so nothing is deployed. The message says what to write.
- A key that is not here is an error, so that a typing mistake does not go unnoticed. Keys that begin with `x-` are left out without a note.

The first keys are those of a service. Below them are the keys of its parts, and of the other sections of the file.

"""
COLUMNS = ("key", "what becomes of it", "why, or what to write instead")
PASSED, LEFT_OUT, ERROR = "passed on", "left out, with a note", "an error"
SAME = "Swarm has it too"
# Keys of a service that are passed on, about which there is something to say.
REMARKS = {
    "cap_add": "for example `IPC_LOCK` for RDMA, or `SYS_ADMIN`. It replaces `privileged`",
    "configs": "a config cannot be changed in Swarm, so each content gets a name of its own",
    "credential_spec": "for Windows",
    "deploy": "see the rows of `deploy` below",
    "environment": "Swarm expands Go templates. Other `{{` are escaped, with a note",
    "healthcheck": "decides when a task is ready, and so when an update goes on",
    "hostname": "Swarm expands Go templates",
    "image": "Swarm resolves the tag once, and all nodes pull that digest",
    "isolation": "for Windows",
    "labels": "labels of the containers. `deploy.labels` are those of the service, for example `gpu-swarm.owner`",
    "networks": "see the rows of `networks` below",
    "ports": "a port of one address of a node, such as `127.0.0.1:80:80`, is an error: Swarm publishes on all addresses",
    "secrets": "a secret cannot be changed in Swarm, so each content gets a name of its own",
    "stop_grace_period": "the time between SIGTERM and SIGKILL. Swarm takes the task out of the load balancer 2 seconds before SIGTERM",
    "ulimits": "for RDMA and NCCL: `memlock: -1`. dockerd itself must be allowed that much",
    "volumes": "a path on your machine is an error: a task may run on any node",
}
# Keys of a service that become others.
TRANSLATED = {
    "cpu_period": ("`deploy.resources.limits.cpus`, with `cpu_quota`", "Swarm limits CPUs as a number"),
    "cpu_quota": ("`deploy.resources.limits.cpus`", "Swarm limits CPUs as a number"),
    "cpus": ("`deploy.resources.limits.cpus`", "the same limit"),
    "depends_on": ("a list without conditions, with a note about conditions", "Swarm starts services in no order. Let a service wait for the others"),
    "devices": (
        "`GPU_SWARM_DEVICES` and a constraint, if a name of `gpu_swarm_devices` has the path. Otherwise an error",
        "the guard gives [a device by name](../run/devices.md). For NVIDIA's devices, the error has the number of GPUs to reserve",
    ),
    "env_file": ("`environment`", "the file is on your machine. It is read there"),
    "gpus": ("`generic_resources` of `deploy.resources.reservations`", "Swarm allocates GPUs by number. `all` is an error"),
    "ipc": (
        "`host`: a tmpfs at `/dev/shm` with half of the limit of memory, or 8 GiB. `shm_size` wins. Others: left out, with a note",
        "Swarm has no such option. Memory of the node and of other containers is not shared: [MPS](../run/sharing.md#mps) needs a bind of `/dev/shm`",
    ),
    "mem_limit": ("`deploy.resources.limits.memory`", "the same limit"),
    "mem_reservation": ("`deploy.resources.reservations.memory`", "Swarm looks for a node with that much"),
    "network_mode": (
        "`host`: the external network `host`. `bridge`, `default`: left out, with a note. Others: an error",
        "each task has its own network. `none` is an error, because it protects the task",
    ),
    "pids_limit": ("`deploy.resources.limits.pids`", "the same limit"),
    "restart": ("`deploy.restart_policy`. `always`, `unless-stopped`: nothing", "Swarm restarts tasks by default"),
    "scale": ("`deploy.replicas`", "the same number"),
    "shm_size": ("a tmpfs of that size at `/dev/shm`", "Swarm has no such option. Used pages count against the limit of memory"),
    "tmpfs": ("a mount of the type tmpfs", "Swarm reads the size and `ro` only. Other options are left out, with a note"),
}
# Keys of a service of which some values are an error.
PROTECT = {
    "cgroup": "`private` is an error, because it protects the task",
    "cgroupns_mode": "`private` is an error, because it protects the task",
    "security_opt": "a profile or `no-new-privileges` is an error, because it protects the task",
    "userns_mode": "`private` and similar values are an error, because they protect the task",
    "annotations": "a CDI name of NVIDIA is an error",
    "device_cgroup_rules": "a rule for NVIDIA's devices is an error",
}
OTHERS = {
    "profiles": ("the service is left out, with a note, unless `COMPOSE_PROFILES` names a profile", "as in Compose"),
    "runtime": (ERROR, "a task gets the default runtime of its node, which `provision` sets to nvidia. Reserve GPUs instead"),
    "x-gpu": ("constraints of Swarm, and an image for each kind of node", "[x-gpu](../run/placement.md) is ours"),
}
RESERVED_DEVICES = ("`generic_resources`", "Swarm allocates GPUs by number. `device_ids` and `count: all` are errors")
LIMITED_PIDS = "`-1` means no limit"


def page() -> str:
    return HEAD + table(COLUMNS, [*_of_services(), *_below_services(), *_other_sections()])


def _row(key: str, becomes: str, why: str = SAME) -> tuple[str, str, str]:
    return key if "`" in key else f"`{key}`", becomes, why


def _of_services() -> list[tuple[str, str, str]]:
    rows = {key: (PASSED, REMARKS.get(key, SAME)) for key in keys.SERVICE}
    rows |= {key: TRANSLATED[key] for key in keys.TRANSLATED}
    rows |= {key: (LEFT_OUT, _joined(_sentence(instead), PROTECT.get(key))) for key, instead in keys.INSTEAD.items()}
    rows |= {key: (ERROR, _sentence(instead)) for key, instead in keys.REFUSED.items()}
    return [_row(key, *answer) for key, answer in sorted((rows | OTHERS).items())]


def _below_services() -> Iterable[tuple[str, str, str]]:
    resources = "deploy.resources"
    yield from (_row(f"`{key}` of `deploy`", PASSED) for key in sorted(keys.DEPLOY - {"resources"}))
    yield from (_row(f"`{key}` of `{resources}.limits`", PASSED, LIMITED_PIDS if key == "pids" else SAME) for key in sorted(keys.LIMITS))
    yield from (_row(f"`{key}` of `{resources}.reservations`", PASSED) for key in sorted(keys.RESERVATIONS))
    yield _row(f"`devices` of `{resources}.reservations`", *RESERVED_DEVICES)
    yield from (_row(f"`{key}` of `healthcheck`", PASSED) for key in sorted(keys.HEALTHCHECK))
    yield _row("`start_interval` of `healthcheck`", LEFT_OUT, "use `start_period`")
    yield from (_row(f"`{key}` of a network of the service", PASSED) for key in sorted(keys.ON_NETWORK))
    yield from _left_out("a network of the service", keys.INSTEAD_ON_NETWORK)
    yield from (_row(f"`{key}` of a port", PASSED) for key in sorted(keys.PORT))
    yield from (_row(f"`{key}` of a port", LEFT_OUT, "it only describes the port") for key in ("app_protocol", "name"))
    yield _row("`host_ip` of a port", "an error, unless it is all addresses", "Swarm publishes a port on all addresses of the nodes")
    yield from (_row(f"`{key}` of a volume of the service", PASSED) for key in sorted(keys.MOUNT - keys.MOUNT_OPTIONS.keys()))
    for kind, options in sorted(keys.MOUNT_OPTIONS.items()):
        yield from (_row(f"`{kind}.{key}` of a volume of the service", PASSED) for key in sorted(options))
    yield _row("`volume.subpath` of a volume of the service", ERROR, "Swarm mounts only whole volumes")
    yield _row("`bind.recursive` of a volume of the service", "`disabled`, `readonly`: an error", "Swarm also mounts everything below it, writable")
    yield _row("other options of the `volumes` of a service", LEFT_OUT, "prepare the directory on the nodes, or in the image")


def _other_sections() -> Iterable[tuple[str, str, str]]:
    yield _row("`name` of the file", "left out", "`-e stack=NAME` names the stack")
    yield _row("`version` of the file", "replaced by 3.8, or by 3.9 with a limit of pids", "Docker Engine 20.10 requires it")
    yield from (_row(f"`{key}` of the file", ERROR, _sentence(instead)) for key, instead in sorted(keys.TOP_REFUSED.items()))
    networks = {"networks": keys.NETWORK, "networks.ipam": keys.IPAM, "networks.ipam.config": keys.IPAM_CONFIG}
    for section, options in {**networks, "volumes": keys.VOLUME}.items():
        yield from (_row(f"`{key}` of `{section}`", PASSED, _of_sections(section, key)) for key in sorted(options))
    yield _row("other keys of `networks`", LEFT_OUT, "create the network with `docker network create`, and declare it here as `external`")
    yield _row("other keys of `volumes`", ERROR, "Swarm has no such option")
    for section in ("configs", "secrets"):
        carried = f"carried to the manager, and made there as one of Swarm's {section}"
        yield _row(f"`file`, `content`, `environment` of `{section}`", carried, "they are on your machine")
        yield _row(f"`external`, `name`, `labels`, `driver`, `template_driver` of `{section}`", PASSED)


def _of_sections(section: str, key: str) -> str:
    if (section, key) == ("networks", "driver"):
        return "`bridge` becomes Swarm's own driver, which reaches all nodes"
    return "a node makes the volume with its first task, and then keeps these options" if (section, key) == ("volumes", "driver_opts") else SAME


def _left_out(place: str, instead: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    return (_row(f"`{key}` of {place}", LEFT_OUT, _sentence(text)) for key, text in sorted(instead.items()))


def _sentence(instead: str) -> str:
    named = re.sub(r"(?<!the )\bswarm(?= )", "Swarm", instead.removeprefix("nothing: "))
    quoted = re.sub(r"'(docker [a-z ]+)'", r"`\1`", named)
    return re.sub(r"(?:deploy\.|node\.platform)[a-z0-9_.=]+", r"`\g<0>`", quoted)


def _joined(note: str, error: str | None) -> str:
    return f"{note}. {error[0].upper()}{error[1:]}" if error else note
