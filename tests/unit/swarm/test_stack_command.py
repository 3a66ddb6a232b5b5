# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The docker command gets the connection, the stack file and the logins, and its errors are returned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from plugins.module_utils._errors import GpuSwarmError
from plugins.module_utils._swarm.stack_command import deploy, docker_path, refusal

PARAMS = {
    "stack": "train", "docker_host": "unix:///var/run/docker.sock", "tls": False, "validate_certs": False, "ca_path": None, "client_cert": None,
    "client_key": None, "api_version": "auto", "prune": False, "with_registry_auth": False,
}  # fmt: skip
SOCKET = ["--host", "unix:///var/run/docker.sock"]
CERTIFICATES = {"ca_path": "/ca", "client_cert": "/cert", "client_key": "/key"}
OVER_TLS = ["--host", "tcp://m1:2376", "--tlsverify", "--tlscacert", "/ca", "--tlscert", "/cert", "--tlskey", "/key"]


def docker(script: str) -> tuple[str, ...]:
    return sys.executable, "-c", f"import os, sys; {script}"


@pytest.mark.parametrize(
    ("options", "connection", "flags"),
    [
        ({}, SOCKET, []),
        ({"prune": True, "with_registry_auth": True}, SOCKET, ["--prune", "--with-registry-auth"]),
        ({"docker_host": "", "tls": True}, SOCKET, []),
        ({"docker_host": "http+unix://var/run/docker.sock", "validate_certs": True}, SOCKET, []),
        ({"docker_host": "m1:2375"}, ["--host", "tcp://m1:2375"], []),
        ({"docker_host": "http://m1:2375"}, ["--host", "tcp://m1:2375"], []),
        ({"docker_host": "https://m1:2376", "ca_path": "/ca"}, ["--host", "tcp://m1:2376", "--tlsverify", "--tlscacert", "/ca"], []),
        ({"docker_host": "https://m1:2376", "tls": True}, ["--host", "tcp://m1:2376", "--tls"], []),
        ({"docker_host": "tcp://m1:2376", "tls": True}, ["--host", "tcp://m1:2376", "--tls"], []),
        ({"docker_host": "tcp://m1:2376", "tls": True, "validate_certs": True, **CERTIFICATES}, OVER_TLS, []),
    ],
)
def test_the_command_line_is_built(tmp_path: Path, options: dict[str, Any], connection: list[str], flags: list[str]) -> None:
    deploy(docker(f"open({str(tmp_path / 'seen')!r}, 'w').write('\\n'.join(sys.argv[1:]))"), str(tmp_path), {**PARAMS, **options})
    seen = (tmp_path / "seen").read_text().split("\n")
    assert seen == [*connection, "stack", "deploy", "--compose-file", str(tmp_path / "stack.yml"), *flags, "train"]


def test_logins_that_were_sent_replace_those_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", "/home/me/.docker")
    monkeypatch.delenv("DOCKER_API_VERSION", raising=False)
    writes = docker(f"open({str(tmp_path / 'seen')!r}, 'w').write(os.environ['DOCKER_CONFIG'] + ' ' + os.environ.get('DOCKER_API_VERSION', ''))")
    deploy(writes, str(tmp_path), PARAMS)
    assert (tmp_path / "seen").read_text() == "/home/me/.docker "
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/config.json").write_text("{}")
    deploy(writes, str(tmp_path), {**PARAMS, "api_version": "1.41"})
    assert (tmp_path / "seen").read_text() == f"{tmp_path / 'docker'} 1.41"


@pytest.mark.parametrize("variable", ["DOCKER_TLS", "DOCKER_TLS_VERIFY"])
def test_only_the_options_turn_tls_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """The options already include these variables, as booleans. The docker command would enable TLS for any value, even 0."""
    monkeypatch.setenv(variable, "0")
    deploy(docker(f"sys.exit(os.environ.get({variable!r}))"), str(tmp_path), PARAMS)


def test_a_refusal_of_docker_is_the_error(tmp_path: Path) -> None:
    for script, words in (("sys.exit('failed to create service a\\n')", "failed to create service a"), ("sys.exit(1)", "no reason given")):
        with pytest.raises(GpuSwarmError) as caught:
            deploy(docker(script), str(tmp_path), PARAMS)
        assert caught.value.message == words


def test_the_reader_of_docker_is_called() -> None:
    assert refusal(docker("sys.exit(sys.stdin.read() != 'a: b')"), "a: b") == ""
    assert refusal(docker("sys.exit('services.a must be\\n  a mapping')"), "x") == "services.a must be a mapping"
    assert refusal(docker("sys.exit(1)"), "x") == "no reason given"
    assert refusal(("/no/docker",), "x") == ""
    for words in ("unknown flag: --compose-file", "unknown shorthand flag: 'c' in -c", "docker: 'stack config' is not a docker command."):
        assert refusal(docker(f"sys.exit({words!r})"), "x") == ""


def test_a_machine_without_docker_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GpuSwarmError) as caught:
        docker_path()
    assert caught.value.message.startswith("This machine has no docker command, which deploys stacks. Install it ")
    (tmp_path / "docker").touch(0o755)
    assert docker_path() == str(tmp_path / "docker")
