# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes the page of the fleet, on the controller.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils._page.page import page
from ...module_utils._page.page_data import page_data
from ...module_utils._page.page_rows import no_rows
from ...module_utils._view.fleet_cards import cards
from .._page_template.page_template import page_template
from .file_on_controller import Kind

# The template has this mark.
PAGE = Kind("page", b'<meta name="generator" content="fleet.gpu_swarm">', "Open it in a browser")


def page_of(ledger: Mapping[str, Any], status: Mapping[str, Any], recorded: Mapping[str, Any], grafana_url: str, now: float) -> str:
    """Return the page. ``recorded`` is the answer of swarm_record, or has no rows. ``now`` is the time here, if the manager's time is unknown."""
    rows: dict[str, Any] = {name: recorded.get(name) for name in no_rows()}
    at, manager = recorded.get("now") or now, str(ledger.get("manager") or "")
    return page(page_template(), page_data(status, cards(ledger), at=at, manager=manager, grafana_url=grafana_url, **rows))
