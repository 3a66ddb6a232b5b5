# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collects the answers for a plan: which hosts run the swarm, what the first manager shows, and what must still be read from this manager.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._fleet.inventory import MANAGERS
from .._fleet.membership import find_swarm
from .manager_updates import label_updates
from .member import ASSESSED, view

# Registered results of managers that are not in the play.
_QUERIED = ("gpu_swarm_manager_answers", "gpu_swarm_external_answers")
# The parts that may still have to be read.
LEDGER, EVICTIONS, CONTENTS = "ledger", "evictions", "contents"


@dataclass(frozen=True)
class SwarmAnswers:
    """The answers for a plan. ``location`` is the result of find_swarm. ``assessed`` are the assessments of the hosts in the play, by name."""

    location: Mapping[str, Any]
    ledger: Mapping[str, Any] | None
    assessed: Mapping[str, Mapping[str, Any]]

    @property
    def manager(self) -> str:
        """Return the host to query about the swarm; '' if no host runs a swarm."""
        return next(iter(self.location["live"]), "")

    def unread(self, absent: bool) -> list[str]:
        """Return the parts that the plan needs but that have not been read yet."""
        if not self.manager:
            return []
        if self.ledger is None:
            return [LEDGER, *([CONTENTS] if absent else [])]
        # A changed label evicts tasks with a constraint on this label. The plan must know these tasks.
        changes = label_updates(view(self.assessed, self.assessed, self.ledger))
        return [*([EVICTIONS] if changes else []), *([CONTENTS] if absent else [])]


def read(task_vars: Mapping[str, Any], ledger: Mapping[str, Any] | None) -> SwarmAnswers:
    """Collect the answers of the hosts and managers. ``ledger`` was read by a separate task. If it is None, a manager's assessment has the ledger."""
    managers, in_play = task_vars["groups"].get(MANAGERS, []), task_vars["ansible_play_hosts"]
    assessed = {name: {ASSESSED: task_vars["hostvars"].raw_get(name).get(ASSESSED)} for name in dict.fromkeys([*in_play, *managers])}
    answers = {name: assessed[name][ASSESSED] or {} for name in managers}
    for queried in _QUERIED:
        results = (task_vars.get(queried) or {}).get("results") or []
        answers.update((result["item"], result) for result in results if result["item"] not in in_play)
    location = find_swarm(answers, managers, in_play)
    first = answers.get(next(iter(location["live"]), "")) or {}
    return SwarmAnswers(
        location,
        ledger if ledger is not None else first.get("ledger"),
        {name: assessed[name] for name in in_play},
    )
