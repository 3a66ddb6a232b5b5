# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares the ledger with what a run decided for a node (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._policy import generic_resources


def is_not_ready(node: Mapping[str, Any] | None) -> bool:
    """Return whether this node is not ready, or is a manager that the other managers cannot reach.

    ``node`` is the node's record, or None if the ledger does not list the node. A node without a record is not ready.
    """
    return node is None or node["state"] != "ready" or node["reachability"] not in (None, "reachable")


def difference(wanted: Mapping[str, Any], node: Mapping[str, Any]) -> str | None:
    """Return a text about the first difference between the resources that the run decided and the ledger; None without a difference."""
    for kind, values in generic_resources.parse(wanted.get("resources") or []).items():
        entry = node["resources"].get(kind) or {}
        if isinstance(values, int):
            if entry.get("total") != values:
                return "the manager shows %s of %s %s" % (entry.get("total", 0), values, kind)
            continue
        shown = entry.get("values") or []
        if sorted(values) != sorted(shown):
            return "the manager shows %d of %d %s" % (len(shown), len(values), kind)
    return None
