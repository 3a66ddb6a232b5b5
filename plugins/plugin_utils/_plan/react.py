# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which managers get or keep the service that pauses nodes with faults (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from ...module_utils._manager.parts import CODE
from .._fleet.model import Host, Swarm

_MAX_NAMED = 5  # how many nodes the warning names


def keep_needed_service(host: Host, swarm: Swarm) -> Host:
    """Return the host. The host keeps its service if the inventory has no GPU node, but nodes of the swarm report.

    The group may be misspelt, or may be in another inventory. Without the service, these nodes would lose their protection.
    """
    return replace(host, reacts=host.fault_limit) if _keeps(host) and _reporting_nodes(swarm) else host


def warnings(hosts: Iterable[Host], swarm: Swarm) -> list[str]:
    """Return a warning that managers keep their service for nodes that the inventory does not have."""
    keeping, nodes = [host.name for host in hosts if _keeps(host)], _reporting_nodes(swarm)
    if not keeping or not nodes:
        return []
    named = ", ".join(nodes[:_MAX_NAMED]) + (f" and {len(nodes) - _MAX_NAMED} more" if len(nodes) > _MAX_NAMED else "")
    text = (
        f"{', '.join(keeping)}: the inventory has no host in gpu_nodes, but nodes of the swarm report the health of their GPUs ({named}), so the "
        "service gpu-swarm-manager was not removed. Put these nodes into gpu_nodes, or remove the service with swarm_member_react: false."
    )
    return [text]


def _keeps(host: Host) -> bool:
    return host.keeps_reacting and bool((host.assessed or {}).get("react"))


def _reporting_nodes(swarm: Swarm) -> list[str]:
    return sorted(node["hostname"] for node in swarm.nodes.values() if node.get("health"))


def react_differs(host: Host) -> bool:
    installed = (host.assessed or {}).get("react")
    if host.reacts is None or not installed:
        return (host.reacts is not None) != bool(installed)
    settings = (installed["settings"].get("limit"), installed["settings"].get("metrics_directory", ""))
    return (installed["version"], *settings, installed["running"]) != (_version(), host.reacts, host.metrics, True)


@lru_cache
def _version() -> str:
    return CODE.name()
