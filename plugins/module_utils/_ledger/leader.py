# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the manager that leads a swarm, and the version of its engine (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping


def leader(nodes: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the leading manager; empty without a leader."""
    return next((node for node in nodes if (node.get("ManagerStatus") or {}).get("Leader")), {})


def leader_engine(nodes: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the engine version that the leading manager reports; None if the version is unknown."""
    return leader(nodes).get("Description", {}).get("Engine", {}).get("EngineVersion")
