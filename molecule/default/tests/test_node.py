# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import tomllib

import pytest
from nodes import docker_json, gpus, named
from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]

PACKAGES = ["nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1"]


@pytest.fixture
def daemon(host: Host) -> dict:
    return json.loads(host.file("/etc/docker/daemon.json").content_string)


def test_four_packages_of_one_version(host: Host) -> None:
    assert all(host.package(name).is_installed for name in PACKAGES)
    assert len({host.package(name).version for name in PACKAGES}) == 1


def test_daemon_json_has_every_gpu_by_its_full_uuid(host: Host, daemon: dict) -> None:
    assert gpus(host)
    assert daemon["node-generic-resources"] == [f"NVIDIA-GPU={uuid}" for uuid in gpus(host)]


def test_nvidia_is_the_default_runtime(daemon: dict) -> None:
    assert daemon["default-runtime"] == "nvidia"
    assert daemon["runtimes"]["nvidia"]["path"].endswith("nvidia-container-runtime")


def test_settings_of_the_user_are_kept(daemon: dict) -> None:
    assert daemon["log-driver"] == "json-file"
    assert daemon["log-opts"] == {"max-size": "10m"}


def test_swarm_resource_is_the_variable_of_the_kind(host: Host) -> None:
    text = host.file("/etc/nvidia-container-runtime/config.toml").content_string
    assert tomllib.loads(text)["swarm-resource"] == "DOCKER_RESOURCE_NVIDIA-GPU"


def test_comments_of_config_toml_are_kept(host: Host) -> None:
    text = host.file("/etc/nvidia-container-runtime/config.toml").content_string
    assert [line for line in text.splitlines() if line.startswith("#")]


def test_the_running_daemon_advertises_the_resources_of_the_file(host: Host) -> None:
    info = docker_json(host, "info", "--format", "{{json .}}")
    assert named(info["GenericResources"], "NVIDIA-GPU") == gpus(host)
    assert info["DefaultRuntime"] == "nvidia"
    assert info["LoggingDriver"] == "json-file"


def test_state_is_kept_for_root_only(host: Host) -> None:
    state = host.file("/var/lib/gpu-swarm")
    assert (state.user, state.mode) == ("root", 0o700)
