# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads from the record what the page of the fleet shows.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any

from .._record import queries

DAY_S = 86400
USAGE_S, EVENTS_S = 7 * DAY_S, DAY_S


def page_rows(db: Any, now: float) -> dict[str, Any]:
    """Return the arguments of ``page_data`` that the record has: the usage of 7 days by owner, the same by day, and the events of 24 hours.

    ``db`` is the result of ``database.open_for_reading``. Raises GpuSwarmError.
    """
    week = (db, now - USAGE_S, now, "owner", now)
    return {"usage_rows": queries.usage(*week), "usage_by_day": queries.usage_by_day(*week), "events": queries.events(db, now - EVENTS_S, now)}


def no_rows() -> dict[str, Any]:
    """Return the same arguments for a fleet that records nothing."""
    return dict.fromkeys(("usage_rows", "usage_by_day", "events"))
