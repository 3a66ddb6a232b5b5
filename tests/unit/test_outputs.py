# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The outputs on the pages contain the texts of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import messages

DOCS = Path(__file__).resolve().parents[2] / "docs"
# (page, texts that the page shows). A gap is a place for inserted values, or a place where a table folds a text.
SHOWN = [
    ("operate/status.md", "feasible nodes: …"),
    ("operate/status.md", "swarm's message: …"),
    ("operate/status.md", "nearest misses"),
    ("operate/status.md", "why it is pending"),
    ("operate/status.md", "services could not be placed under the new policy: … Keep the kind, first"),
    ("operate/status.md", "leaves no place for …"),
    ("operate/status.md", "stops until the node is back: …"),
    ("operate/replace-card.md", "this node would advertise less than before: …"),
    ("operate/replace-card.md", "accepts … and no less, 'allow_shrink: true'"),
    ("operate/replace-card.md", "it returns to … with the next run of provision"),
    ("operate/replace-card.md", "Still on …: it returns to service with the first run that finds"),
    ("operate/driver.md", "because maintenance … was already finished on this node"),
    ("operate/isolation.md", "change these before isolation is enforced: …"),
    ("operate/isolation.md", "not all GPU nodes have this level: run provision on …"),
    ("operate/isolation.md", "no violation for … days: safe to enforce"),
    ("operate/isolation.md", "is refused on this node (isolation: …"),
    ("operate/allocation-check.md", "… but it is allocated to … (since …)"),
    ("operate/allocation-check.md", "it is allocated to … which has had no process there since …"),
    ("operate/dedicated-nodes.md", "without a reservation on nodes with GPUs: …"),
    ("operate/several-swarms.md", "run different swarms: … All managers of an inventory must be in one swarm, even those that --limit excludes."),
    ("reference/watcher.md", "faults of GPUs cannot be reported to the swarm's managers"),
    ("run/compose.md", "has no effect on Swarm and is ignored; instead: …"),
    ("run/compose.md", "swarm chooses the names of containers; other services use the name of the service"),
    ("run/compose.md", "ipc: host becomes a tmpfs of … at …"),
    ("run/deploy.md", "No node could ever run it: reserve less, or change its constraints."),
    ("run/deploy.md", "unless swarm places … there first"),
    ("run/update.md", "tasks stop only when new ones run (update_config: order: start-first)"),
    ("run/deploy.md", "ended with exit code 0, and swarm starts it again: a command that ends is a job, or needs deploy.restart_policy:"),
    ("run/deploy.md", "… running in the former version, … of … in the new version"),
    ("run/images.md", "can run none of the images: …"),
    ("run/images.md", "its driver has CUDA …, not …"),
    ("run/images.md", "of the replicas"),
    ("run/placement.md", "but no node has that. Nodes have … Write one of these values."),
    ("run/placement.md", "is added to …"),
]


def unfolded(page: str) -> str:
    """Return the text of a page without the line breaks of folded tables."""
    return re.sub(r"\s+", " ", (DOCS / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize(("page", "words"), SHOWN, ids=[f"{page}: {words[:40]}" for page, words in SHOWN])
def test_a_page_shows_the_words_of_the_code(page: str, words: str) -> None:
    assert messages.has_parts(words, unfolded(page))
    assert messages.unknown([words]) == []
