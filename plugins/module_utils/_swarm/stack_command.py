# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs 'docker stack' on the machine from which a stack is deployed.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any, Mapping, Sequence

from ansible.module_utils.common.process import get_bin_path

from .._docker_api.connections import parse_address
from .._errors import GpuSwarmError

# The files of a stack, with the names that the controller uses in the archive.
FILE, DOCKER_CONFIG = "stack.yml", "docker/config.json"
CONFIG_LIMIT_S = 30
# Docker 20.10 has no 'docker stack config' and complains about its first option.
_NO_CONFIG_COMMAND = ("unknown flag", "unknown shorthand flag", "is not a docker command", "unknown command")
NO_REASON = "no reason given"


def docker_path() -> str:
    """Return the path of the docker command. Without this command, no stack can be deployed from this machine."""
    try:
        return get_bin_path("docker")
    except ValueError as exc:
        raise GpuSwarmError(
            "This machine has no docker command, which deploys stacks. Install it (in Docker's repository the package is docker-ce-cli), or leave "
            "this manager out of gpu_stack_managers."
        ) from exc


def refusal(docker: Sequence[str], text: str) -> str:
    """Return why Docker cannot read this stack file; empty if Docker can read the file, or cannot check it.

    The returned text may include values of the file. Docker 23.0 and newer can check the file before anything is created ('docker stack config').
    """
    command = [*docker, "stack", "config", "--compose-file", "-"]
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            command, input=text.encode("utf-8"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=CONFIG_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    said = " ".join(done.stderr.decode("utf-8", "replace").split())
    return "" if not done.returncode or any(words in said for words in _NO_CONFIG_COMMAND) else said or NO_REASON


def deploy(docker: Sequence[str], directory: str, params: Mapping[str, Any]) -> None:
    """Deploy the stack file in this directory. If Docker refuses, a part of the stack may exist already."""
    command = [*docker, *_connection(params), "stack", "deploy", "--compose-file", os.path.join(directory, FILE)]
    command += [flag for flag, option in (("--prune", "prune"), ("--with-registry-auth", "with_registry_auth")) if params[option]]
    done = subprocess.run(  # pylint: disable=ansible-bad-function
        [*command, params["stack"]],
        env=_environment(directory, params),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise GpuSwarmError(done.stderr.decode("utf-8", "replace").strip() or NO_REASON)


def _connection(params: Mapping[str, Any]) -> list[str]:
    """Return the options of the docker command for the connection options of a module. The docker command does not accept http:// and https://."""
    address = parse_address(params["docker_host"])
    if address.is_local:
        return ["--host", "unix://" + address.place]
    options = ["--host", "tcp://" + address.place]
    verifies = params["validate_certs"] or (address.scheme == "https" and not params["tls"])
    options += ["--tlsverify"] if verifies else ["--tls"] if params["tls"] else []
    for flag, option in (("--tlscacert", "ca_path"), ("--tlscert", "client_cert"), ("--tlskey", "client_key")):
        options += [flag, params[option]] if params[option] else []
    return options


def _environment(directory: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of the docker command.

    Logins in this directory replace the user's logins. DOCKER_TLS_VERIFY is removed, because even DOCKER_TLS_VERIFY=0 would turn TLS on.
    """
    own = {name: value for name, value in os.environ.items() if name not in ("DOCKER_TLS", "DOCKER_TLS_VERIFY")}
    more = {} if params["api_version"] in (None, "auto") else {"DOCKER_API_VERSION": params["api_version"]}
    logins = os.path.join(directory, DOCKER_CONFIG)
    return {**own, **more, **({"DOCKER_CONFIG": os.path.dirname(logins)} if os.path.exists(logins) else {})}
