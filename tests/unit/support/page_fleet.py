# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rows of status and cards, as the page of the fleet gets them."""

from __future__ import annotations

from typing import Any

AT = 1795176300.0
CARD = "GPU-01234567-89ab-cdef-0123-456789abcdef"
Row = dict[str, Any]


def node(name: str, verdict: str = "done", state: str = "ready", why: str = "") -> Row:
    return {"node": name, "id": f"id-{name}", "role": "worker", "state": state, "why": why, "verdict": verdict, "since": None, "for": None}


def part(**more: Any) -> Row:
    return {"kind": "NVIDIA-GPU", "value": CARD, "state": "allocated", "task": None, "service": None, "owner": None, "since": None, **more}


def card(host: str = "g1", **more: Any) -> Row:
    row = {"node": host, "node_id": f"id-{host}", "card": CARD, "model": "NVIDIA-H100", "mib": 81559, "state": "allocated", "reason": ""}
    row.update({"card" if name == "uuid" else name: value for name, value in more.items()})
    return {"parts": [part()], **row}


def status(*nodes: Row, pending: list[Row] | None = None, faulty: list[Row] | None = None, queue: Row | None = None) -> Row:
    return {"nodes": list(nodes), "pending": pending or [], "faulty": faulty or [], "queue": queue}
