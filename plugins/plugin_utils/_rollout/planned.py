# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hosts the plays after a plan are for (pure).

One run of Ansible may have several of this collection's playbooks, and each makes a plan of its own. Groups that add_host makes stay
for the whole run, so the plays take their hosts from the plan: the newest one that is at hand, and of its hosts those that have no newer
one. A plan is registered for all hosts of the fleet at once, but not for one that has become unreachable, which keeps an older one.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .._fleet.model import END
from .member import PLAN
from .run_lease import FACT as LEASE

# A group of the inventory: one host for each plan of this run that has anything to do.
GROUP = "gpu_swarm_planned"
BATCHES = "batches"

Read = Callable[[str], Mapping[str, Any]]


def made(variables: Mapping[str, Any]) -> int:
    """When the plan was made that these variables of a host have; 0 without one."""
    return int((variables.get(PLAN) or {}).get("made") or 0)


def planned(hosts: Iterable[str], read: Read) -> dict[str, Any]:
    """By group, the hosts of the plays that follow, and how many of those with a window are changed at a time, batch by batch (``batches``).

    ``read(name)`` are a host's variables. Where another run has the swarm's lease, only the last play has hosts.
    """
    known = {name: read(name) for name in hosts}
    newest = max(known.values(), key=made, default={})
    plan, when = newest.get(PLAN) or {}, made(newest)
    groups: Mapping[str, list[str]] = plan.get("hosts_in") or {}
    if (newest.get(LEASE) or {"acquired": True}).get("acquired"):
        chosen = groups
    else:
        chosen = {group: names for group, names in groups.items() if group == END}
    current = {name: made(read(name)) == when for name in dict.fromkeys(name for names in chosen.values() for name in names)}
    # By name, not by size: one that is left out must not move the next one into its batch, least of all two managers into one.
    cut = [len([name for name in batch if current.get(name)]) for batch in plan.get(BATCHES) or []]
    return {**{group: [name for name in names if current[name]] for group, names in chosen.items()}, BATCHES: [size for size in cut if size]}
