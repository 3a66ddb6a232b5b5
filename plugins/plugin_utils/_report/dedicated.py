# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports services without a GPU reservation that run on GPU nodes, with the commands that keep them off (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...module_utils._printable import NAMED, shortened

Row = Mapping[str, Any]


def describe(found: Sequence[Row]) -> str:
    """Return a sentence that names the services, or ''. Global services are listed separately because they are meant to run on every node."""
    others = [f"{one['service']} ({shortened(one['nodes'])})" for one in found if not _is_global(one)]
    everywhere = [one["service"] for one in found if _is_global(one)]
    parts = [shortened(others)] if others else []
    parts += [f"global: {shortened(everywhere)}"] if everywhere else []
    return f"without a reservation on nodes with GPUs: {'; '.join(parts)}" if parts else ""


def keep_off_commands(found: Iterable[Row]) -> list[str]:
    """For each service on a dedicated node, the command that keeps it off."""
    return [one["command"] for one in found if one["dedicated"] and one["command"]]


def warnings(dedicated: bool, ledger: Mapping[str, Any] | None) -> list[str]:
    """If GPU nodes are dedicated, warn about the services that run there without a reservation."""
    named = [one for one in (ledger or {}).get("on_gpu_nodes") or [] if dedicated and one["command"]]
    if not named:
        return []
    more = f" The playbook status lists {len(named) - NAMED} more." if len(named) > NAMED else ""
    first = "; ".join(one["command"] for one in named[:NAMED])
    return [f"gpu_swarm_dedicated: {describe(named)}. They stay there until you keep them off: {first}.{more}"]


def _is_global(one: Row) -> bool:
    return one["mode"] == "global"
