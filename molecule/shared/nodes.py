# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenarios' tests ask nodes, each through the tool that a person would use."""

from __future__ import annotations

import json
import re
from typing import Any

from testinfra.host import Host

UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def docker(host: Host, *arguments: str) -> str:
    return host.check_output(" ".join(["docker", *["%s"] * len(arguments)]), *arguments)


def docker_json(host: Host, *arguments: str) -> Any:
    return json.loads(docker(host, *arguments))


def gpus(host: Host) -> list[str]:
    """The full UUIDs of a node's GPUs, as nvidia-smi lists them."""
    return UUID.findall(host.check_output("nvidia-smi -L"))


def named(resources: list[dict[str, Any]] | None, kind: str) -> list[str]:
    """The values of one kind in a GenericResources list of the Docker API."""
    found = [entry.get("NamedResourceSpec", {}) for entry in resources or []]
    return [spec["Value"] for spec in found if spec.get("Kind") == kind]
