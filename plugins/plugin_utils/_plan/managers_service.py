# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which managers get or keep the service gpu-swarm-manager, and with which parts (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ...module_utils._files import digest
from ...module_utils._manager import installed_command
from ...module_utils._manager.parts import CODE
from ...module_utils._node.manager_state import JOBS, PAGE, PAUSE, RECORD
from .._fleet.model import Host, Swarm
from .._page_template.page_template import page_template

_MAX_NAMED = 5  # how many nodes the warning names


def keep_needed_service(host: Host, swarm: Swarm) -> Host:
    """Return the host. It still pauses nodes if the inventory has no GPU node but nodes of the swarm report. The group may be misspelt, or in another
    inventory, and those nodes would lose their protection."""
    return replace(host, reacts=host.fault_limit) if _keeps(host) and _reporting_nodes(swarm) else host


def warnings(hosts: Iterable[Host], swarm: Swarm) -> list[str]:
    """A warning that managers still pause nodes that the inventory does not have."""
    keeping, nodes = [host.name for host in hosts if _keeps(host)], _reporting_nodes(swarm)
    if not keeping or not nodes:
        return []
    named = ", ".join(nodes[:_MAX_NAMED]) + (f" and {len(nodes) - _MAX_NAMED} more" if len(nodes) > _MAX_NAMED else "")
    text = (
        f"{', '.join(keeping)}: the inventory has no host in gpu_nodes, but nodes of the swarm report the health of their GPUs ({named}), so the "
        "service gpu-swarm-manager was not removed. Put these nodes into gpu_nodes, or set swarm_member_react: false."
    )
    return [text]


def _keeps(host: Host) -> bool:
    return host.keeps_reacting and PAUSE in ((host.assessed or {}).get("react") or {}).get("settings", {})


def _reporting_nodes(swarm: Swarm) -> list[str]:
    return sorted(node["hostname"] for node in swarm.nodes.values() if node.get("health"))


def has_service(host: Host) -> bool:
    """Return whether the host will have the service. A run keeps the part that removes jobs, because prune_jobs installs it."""
    installed = (host.assessed or {}).get("react") or {}
    return bool(_parts(host) or JOBS in installed.get("settings", {}))


def differs(host: Host) -> bool:
    """Return whether the service, or a part of it that a run installs, has to change."""
    installed, wanted = (host.assessed or {}).get("react"), _parts(host)
    if not wanted or not installed:
        return bool(wanted) != bool(installed)
    return (*map(installed.get, ("version", "command", "settings", "running")),) != (*_versions(), wanted, True)


def describe_change(host: Host) -> str:
    """Return what the run does with the service, for the impact of a host where the service differs."""
    if not _parts(host):
        return "removes the managers' service"
    return "changes the managers' service" if (host.assessed or {}).get("react") else "installs the managers' service"


def _parts(host: Host) -> dict[str, dict[str, Any]]:
    """Return the settings of each part that the host should have."""
    pause = {PAUSE: {"limit": host.reacts, "metrics_directory": host.metrics}} if host.reacts is not None else {}
    page = {PAGE: {"grafana_url": host.grafana_url, "template": _template()}} if host.page else {}
    return {**pause, **({RECORD: {}} if host.records else {}), **page}


@lru_cache
def _versions() -> tuple[str, str]:
    """Return the versions of the service and of the command."""
    return CODE.name(), installed_command.CODE.name()


@lru_cache
def _template() -> str | None:
    """Return the digest of the page's template. Its files are read only for a fleet with a page."""
    return digest(page_template().encode("utf-8"))
