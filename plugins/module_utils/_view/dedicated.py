# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports services without a GPU reservation that run on GPU nodes, with the commands that keep them off (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from .._printable import NAMED, shortened

Row = Mapping[str, Any]


def describe(services: Sequence[Row]) -> str:
    """Return a sentence that names the services, or ''. Global services are listed separately because they are meant to run on every node."""
    named = [f"{service['service']} ({shortened(service['nodes'])})" for service in services if not _is_global(service)]
    global_services = [service["service"] for service in services if _is_global(service)]
    parts = [shortened(named)] if named else []
    parts += [f"global: {shortened(global_services)}"] if global_services else []
    return f"without a reservation on nodes with GPUs: {'; '.join(parts)}" if parts else ""


def keep_off_commands(services: Iterable[Row]) -> list[str]:
    """Return for each service on a dedicated node the command that keeps the service off such nodes."""
    return [service["command"] for service in services if service["dedicated"] and service["command"]]


def warnings(dedicated: bool, ledger: Mapping[str, Any] | None) -> list[str]:
    """Return a warning about services without a reservation that run on dedicated GPU nodes."""
    services = [service for service in (ledger or {}).get("on_gpu_nodes") or [] if dedicated and service["command"]]
    if not services:
        return []
    more = f" The playbook status lists {len(services) - NAMED} more." if len(services) > NAMED else ""
    first = "; ".join(service["command"] for service in services[:NAMED])
    return [f"gpu_swarm_dedicated: {describe(services)}. They stay there until you keep them off: {first}.{more}"]


def _is_global(service: Row) -> bool:
    return service["mode"] == "global"
