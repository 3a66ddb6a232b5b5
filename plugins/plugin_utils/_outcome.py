# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a host did not get through a run (pure).

A play cannot say it by failing: with batches, Ansible would end the whole run there, and leave healthy hosts half-way.
So each host keeps its outcome as a fact, ``{state, reason}``, and the last play tells.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..module_utils._printable import printable_lines

FACT = "gpu_swarm_outcome"

FAILED = "failed"  # it is as it was before, and tells why
WAITING = "waiting"  # paused, until what runs there has ended
LOST = "lost"  # it does not answer any more: nobody knows how it is
OUT = "out"  # its maintenance was begun and not finished, or its change could not be undone: it is not as it was before
UNTOUCHED = "untouched"  # its turn did not come

# No work is sent there before the next run.
STAYS_AWAY = (WAITING, LOST, OUT)
BAD = (FAILED, LOST, OUT)


class Outcome(NamedTuple):
    """``kept_away``: its turn did not come, and another run may have paused it since for reasons of its own."""

    state: str
    reason: str
    kept_away: bool = False

    @property
    def stays_away(self) -> bool:
        return self.kept_away or self.state in STAYS_AWAY


def outcome_of(variables: Mapping[str, Any]) -> Outcome | None:
    """The outcome that a host's variables hold; None where all went well so far."""
    kept = variables.get(FACT)
    return Outcome(kept["state"], printable_lines(str(kept["reason"])), bool(kept.get("kept_away"))) if kept else None
