# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

from nodes import docker
from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]

# By service; none of those that verify tried.
FOUND = {"baked": ["hidden"], "forges": ["forged"], "requests": ["unreserved"]}


def test_the_guard_stands_before_the_runtime(host: Host) -> None:
    assert docker(host, "info", "--format", "{{.Runtimes.nvidia.Path}}") == "/usr/local/libexec/gpu-swarm/nvidia-guard"


def test_what_it_hid_and_refused_is_counted(host: Host) -> None:
    found = json.loads(host.file("/run/gpu-swarm-guard/found.json").content_string)
    assert {service: sorted(names) for service, names in found.items()} == FOUND


def test_a_container_of_the_operators_sees_what_it_requests(host: Host) -> None:
    listed = docker(host, "run", "--rm", "lab/cuda", "nvidia-smi", "-L")
    assert listed.count("UUID: GPU-") == 4
