# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the address of a manager's Docker API in the variables of its host (pure).

This collection calls a manager on the manager's inventory host. By default this host is the manager itself, and the API is a socket. If the variable
``swarm_manager_docker_host`` is set, the host is a machine that reaches the API over the network, often the controller. Such an external manager is
used only through its API, and nothing is changed on its host.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._errors import GpuSwarmError

# The groups whose hosts a run changes.
MEMBERS = ("gpu_nodes", "swarm_workers")
DOCKER_HOST, TLS, SOCKET = "swarm_manager_docker_host", "swarm_manager_docker_tls", "gpu_node_docker_socket"
# The keys are the option names of our modules.
TLS_OPTIONS = ("tls", "validate_certs", "ca_path", "client_cert", "client_key")
SCHEMES = ("tcp://", "unix://")

# hostvars
Variables = Mapping[str, Mapping[str, Any]]


def api(name: str, variables: Variables, socket: str | None = None) -> dict[str, Any]:
    """Return the connection options for a module that calls the manager ``name``. ``socket`` is the path where dockerd listens by default."""
    host = variables[name]
    where = host.get(DOCKER_HOST)
    if not where:
        return {"docker_host": f"unix://{socket or host.get(SOCKET) or '/var/run/docker.sock'}"}
    if not str(where).startswith(SCHEMES):
        raise GpuSwarmError(f"{name}: {DOCKER_HOST} is {where!r}. Write it as tcp://manager.example.org:2376.")
    return {"docker_host": where, **_tls(name, host.get(TLS) or {})}


def _tls(name: str, options: Any) -> dict[str, Any]:
    if not isinstance(options, Mapping):
        raise GpuSwarmError(f"{name}: {TLS} is {options!r}, but must be a mapping. Its keys are {', '.join(TLS_OPTIONS)}.")
    unknown = sorted(set(options) - set(TLS_OPTIONS))
    if unknown:
        raise GpuSwarmError(f"{name}: {TLS} has {', '.join(unknown)}, which is not known. Its keys are {', '.join(TLS_OPTIONS)}.")
    return dict(options)


def external(managers: Iterable[str], variables: Variables) -> list[str]:
    """Return the external managers. Raise an error for settings that would cause a failure later."""
    names = [name for name in managers if name in variables and variables[name].get(DOCKER_HOST)]
    for name in names:
        api(name, variables)
        groups = [group for group in MEMBERS if group in variables[name].get("group_names", [])]
        if groups:
            raise GpuSwarmError(
                f"{name} has {DOCKER_HOST}, so it is an external manager, and a run must not change it. But {name} is also in the group "
                f"{' and '.join(groups)}. Remove the host from that group, or remove {DOCKER_HOST}."
            )
    return names
