# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

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


def test_the_running_daemon_has_accepted_the_size_of_shared_memory(daemon: dict) -> None:
    assert daemon["default-shm-size"] == "96m"


def test_the_running_daemon_advertises_the_resources_of_the_file(host: Host) -> None:
    info = docker_json(host, "info", "--format", "{{json .}}")
    assert named(info["GenericResources"], "NVIDIA-GPU") == gpus(host)
    assert info["DefaultRuntime"] == "nvidia"
    assert info["LoggingDriver"] == "json-file"
