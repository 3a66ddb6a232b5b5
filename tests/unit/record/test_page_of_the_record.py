# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/reference/record.md names each event, and the bounds that the code has."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record import events, sums, trim

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "record.md").read_text(encoding="utf-8")


def test_the_page_has_every_event():
    table = PAGE.split("## Events", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"`([a-z-]+)`", "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `")))) == set(events.KINDS)


def test_the_page_has_the_bounds():
    for text in (f"{trim.ROWS_DAYS} days", f"{trim.MOST_BYTES >> 20} MiB", f"{trim.SUMS_DAYS} days", f"largest {sums.MOST_NAMES} owners"):
        assert text in PAGE
