# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that hold for a healthy fleet."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from tests.e2e.fleet import CONFIG_TOML, DAEMON_JSON, STATE_DIR, Fleet, Node
from tests.e2e.swarm import KIND, availability_of, member

from .yard import AVAILABILITY, GPU_NODES, MANAGER, NODES, Yard

FOLDERS = [path.rpartition("/")[0] for path in (DAEMON_JSON, CONFIG_TOML)] + [STATE_DIR]
VALIDATES = 23  # the first release of dockerd that can validate a file


def user_settings(node: Node) -> dict[str, Any]:
    """Return the settings of the user."""
    return json.loads(node.read(DAEMON_JSON) or b"{}")


def files(node: Node) -> list[str]:
    """Return all files that the collection writes, except saved originals and files of the watcher. Names of saved originals contain the time."""
    apart = [word for path in (f"{STATE_DIR}/backup/*", f"{STATE_DIR}/health/*") for word in ("-not", "-path", path)]
    return sorted(node.run("find", *FOLDERS, *apart).splitlines())


def check_node(yard: Yard, name: str, settings: dict[str, Any], there: list[str]) -> None:
    node = yard.fleet[name]
    daemon = json.loads(node.read(DAEMON_JSON) or b"")
    assert settings.items() <= daemon.items()
    assert tomllib.loads((node.read(CONFIG_TOML) or b"").decode())["swarm-resource"] == f"DOCKER_RESOURCE_{KIND}"
    if int(node.docker("version", "--format", "{{.Server.Version}}").split(".")[0]) >= VALIDATES:
        node.run("dockerd", "--validate", "--config-file", DAEMON_JSON)
    assert files(node) == there
    assert node.run("dpkg", "--audit") == ""
    assert f"version {yard.toolkit}" in node.run("nvidia-ctk", "--version")
    assert schedulable(yard.fleet, name) == {KIND: sorted(node.gpus()), "SSD": yard.ssds}


def check_members(fleet: Fleet) -> None:
    for name in NODES:
        assert fleet[name].started(), f"dockerd is down on {name}"
        assert fleet[name].run("systemctl", "--failed", "--no-legend") == ""
    assert {name: availability_of(fleet, name) for name in NODES} == {name: (found, None) for name, found in AVAILABILITY.items()}
    labels = fleet[MANAGER].docker_json("info", "--format", "{{json .Swarm.Cluster.Spec.Labels}}")
    assert labels.keys() <= {"gpu-swarm.last-run", "gpu-swarm.isolation"}
    isolation = json.loads(labels["gpu-swarm.isolation"])
    reached = {level: sorted(ids) for level, ids in isolation["nodes"].items()}
    assert (isolation["level"], reached) == ("reserved", {"reserved": sorted(member(fleet, name)["ID"] for name in GPU_NODES)})


def check(yard: Yard, settings: dict[str, dict[str, Any]], there: dict[str, list[str]]) -> None:
    check_members(yard.fleet)
    for name in GPU_NODES:
        check_node(yard, name, settings[name], there[name])
    yard.read_events()
    assert "active" not in yard.became


def schedulable(fleet: Fleet, name: str) -> dict[str, Any]:
    """Return the schedulable resources of a node by kind: the names of GPUs, or an amount."""
    found: dict[str, Any] = {}
    for entry in member(fleet, name)["Description"]["Resources"]["GenericResources"]:
        if "DiscreteResourceSpec" in entry:
            found[entry["DiscreteResourceSpec"]["Kind"]] = entry["DiscreteResourceSpec"]["Value"]
        else:
            found.setdefault(entry["NamedResourceSpec"]["Kind"], []).append(entry["NamedResourceSpec"]["Value"])
    return {kind: sorted(value) if isinstance(value, list) else value for kind, value in found.items()}
