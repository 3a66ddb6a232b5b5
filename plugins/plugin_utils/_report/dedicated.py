# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services without a reservation that are on nodes with GPUs, in words (pure), and the commands that keep them off.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...module_utils._printable import NAMED, shortened

Row = Mapping[str, Any]


def in_words(found: Sequence[Row]) -> str:
    """A sentence; '' where there are none. Those that are meant to be on every node stand apart."""
    others = [_in_words(one) for one in found if not _is_global(one)]
    everywhere = [one["service"] for one in found if _is_global(one)]
    parts = [shortened(others)] if others else []
    parts += [f"global: {shortened(everywhere)}"] if everywhere else []
    return f"without a reservation on nodes with GPUs: {'; '.join(parts)}" if parts else ""


def commands(found: Iterable[Row]) -> list[str]:
    """What keeps those off that are on dedicated nodes, a command for each."""
    return [one["command"] for one in found if one["dedicated"] and one["command"]]


def warnings(dedicated: bool, ledger: Mapping[str, Any] | None) -> list[str]:
    """Where nodes with GPUs are to be dedicated, which services are there all the same."""
    named = [one for one in (ledger or {}).get("on_gpu_nodes") or [] if dedicated and one["command"]]
    if not named:
        return []
    more = f" And so on for {len(named) - NAMED} more, which status lists." if len(named) > NAMED else ""
    first = "; ".join(one["command"] for one in named[:NAMED])
    return [f"gpu_swarm_dedicated: {in_words(named)}. They stay there until you keep them off: {first}.{more}"]


def _is_global(one: Row) -> bool:
    return one["mode"] == "global"


def _in_words(one: Row) -> str:
    return f"{one['service']} ({shortened(one['nodes'])})"
