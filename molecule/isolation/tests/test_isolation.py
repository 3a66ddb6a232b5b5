# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re

from nodes import UUID, docker, gpus
from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]

# Results by service, except services of verify.
FOUND = {"baked": ["hidden"], "forges": ["forged"], "requests": ["unreserved"]}


def tasks(host: Host, service: str) -> list[str]:
    return docker(host, "ps", "--quiet", "--filter", f"label=com.docker.swarm.service.name={service}").split()


def test_the_guard_runs_before_the_runtime(host: Host) -> None:
    assert docker(host, "info", "--format", "{{.Runtimes.nvidia.Path}}") == "/usr/local/libexec/gpu-swarm/nvidia-guard"


def test_hidden_and_refused_requests_are_counted(host: Host) -> None:
    found = json.loads(host.file("/run/gpu-swarm-guard/found.json").content_string)
    assert {service: sorted(names) for service, names in found.items()} == FOUND


def card_of(host: Host, container: str) -> tuple[str, str]:
    """Return the slot that a task got, and the only card that it sees."""
    variables = docker(host, "exec", container, "sh", "-c", "tr '\\0' '\\n' </proc/1/environ")
    (card,) = UUID.findall(docker(host, "logs", container))
    return "".join(re.findall("^GPU_SWARM_SLOTS=(.*)$", variables, re.MULTILINE)), card


def test_a_task_with_a_share_of_a_card_sees_that_card(host: Host) -> None:
    first, dummy, third, dummy = gpus(host)
    found = {service: tasks(host, service) for service in ("memory", "slot")}
    assert [card_of(host, container) for container in found["memory"]] == [("", first)]
    assert sorted(card_of(host, container) for container in found["slot"]) == [(f"{third}.slot{number}", third) for number in (1, 2)]


def test_a_task_with_a_group_sees_all_of_its_cards_and_no_others(host: Host) -> None:
    (pair,) = tasks(host, "pair")
    assert UUID.findall(docker(host, "logs", pair)) == gpus(host)[1::2]


def test_a_container_of_an_operator_sees_what_it_requests(host: Host) -> None:
    listed = docker(host, "run", "--rm", "lab/cuda", "nvidia-smi", "-L")
    assert listed.count("UUID: GPU-") == 4
