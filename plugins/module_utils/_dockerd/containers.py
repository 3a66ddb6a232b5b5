# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses the Docker API's list of containers (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Container, Iterable, Mapping

_TASK = "com.docker.swarm.task.id"
_SERVICE = "com.docker.swarm.service.name"
# The networks that every daemon has. These networks belong to no swarm.
_PREDEFINED = ("bridge", "host", "none")


def not_drained(timeout_s: float) -> str:
    """Return the advice for tasks that did not end during the drain."""
    return (
        f"They did not end within {timeout_s:g} s after the node was drained: check their stop_grace_period, or give them more time"
        " (drain_timeout; provision_drain_timeout of the playbooks)"
    )


def may_be_on_swarm_networks(listed: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a container without a task has a network that not every daemon has. Such a network may belong to the swarm."""
    return any(name not in _PREDEFINED for item in listed if not _labels(item).get(_TASK) for name in _networks(item))


def records(listed: Iterable[Mapping[str, Any]], swarm_networks: Container[str], now: float) -> list[dict[str, Any]]:
    """Return a dict for each container of GET /containers/json. ``swarm_networks`` are the ids of networks of swarm's scope.

    A daemon that leaves its swarm disconnects every container from these networks (moby DaemonLeavesCluster). So each dict says whether a container
    without a task is on such a network.
    """
    return [
        {
            "id": item["Id"],
            "name": (item.get("Names") or [item["Id"][:12]])[0].lstrip("/"),
            "image": item.get("Image"),
            "service": _labels(item).get(_SERVICE),
            "task": _labels(item).get(_TASK),
            "age": max(0, int(now - item["Created"])) if "Created" in item else None,
            "swarm_networks": sorted(name for name, network in _networks(item).items() if (network or {}).get("NetworkID") in swarm_networks),
        }
        for item in listed
    ]


def _labels(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return item.get("Labels") or {}


def _networks(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return (item.get("NetworkSettings") or {}).get("Networks") or {}
