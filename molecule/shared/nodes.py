# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads nodes for the tests of the scenarios, each time with the tool that a person would use."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

from testinfra.host import Host

UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def docker(host: Host, *arguments: str) -> str:
    return host.check_output(" ".join(["docker", *["%s"] * len(arguments)]), *arguments)


def docker_json(host: Host, *arguments: str) -> Any:
    return json.loads(docker(host, *arguments))


def gpus(host: Host) -> list[str]:
    """Return the full UUIDs of a node's GPUs from nvidia-smi."""
    return UUID.findall(host.check_output("nvidia-smi -L"))


def mig_devices(host: Host) -> dict[str, str]:
    """Return the UUIDs of a node's MIG devices by profile, from nvidia-smi."""
    return dict(re.findall(r"MIG (\S+) .*\(UUID: (MIG-\S+)\)", host.check_output("nvidia-smi -L")))


def pci_buses(host: Host) -> list[str]:
    """Return the PCI bus of each GPU of a node, such as 17."""
    return [address.split(":")[1] for address in host.check_output("nvidia-smi --query-gpu=pci.bus_id --format=csv,noheader").split()]


def hostname(manager: Host, node: str) -> str:
    return docker_json(manager, "node", "inspect", node, "--format", "{{json .Description.Hostname}}")


def labels_of(manager: Host, node: str) -> dict[str, str]:
    return docker_json(manager, "node", "inspect", node, "--format", "{{json .Spec.Labels}}")


def tasks_of(manager: Host, service: str) -> list[dict[str, Any]]:
    ids = docker(manager, "service", "ps", "--quiet", "--no-trunc", "--filter", "desired-state=running", service).split()
    return docker_json(manager, "inspect", "--type", "task", *ids) if ids else []


def wait_until(what: str, condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Return the first true result of the condition."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, f"gave up after {seconds:.0f} s of waiting for {what}"
        time.sleep(0.2)
    return answer


def named(resources: list[dict[str, Any]] | None, kind: str) -> list[str]:
    """Return the values of one kind in a GenericResources list of the Docker API."""
    found = [entry.get("NamedResourceSpec", {}) for entry in resources or []]
    return [spec["Value"] for spec in found if spec.get("Kind") == kind]
