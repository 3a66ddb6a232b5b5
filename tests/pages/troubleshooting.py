# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the list of known issues in docs/fix/README.md from their table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .blocks import table


def issues(known: Iterable[Any]) -> str:
    """Return the table of remedies that are left to the user, by the names at the end of messages."""
    rows = [(f"`{issue.id}`", f"{issue.component}: {issue.affected}", issue.remedy) for issue in known if issue.answer != "handled"]
    return table(("name", "concerns", "what to do"), rows)
