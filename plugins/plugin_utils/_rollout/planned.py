# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Selects the hosts of the plays after a plan (pure).

One run of Ansible may have several playbooks of this collection, and each playbook makes a plan. Groups made by add_host exist for the whole run. So
the plays take their hosts from the newest plan. A plan is registered for all hosts at once. A host that has become unreachable has an older plan and
is excluded.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .._fleet.model import END
from .member import PLAN
from .run_lease import FACT as LEASE

# A group of the inventory. It has one host for each plan of this run that changes anything.
GROUP = "gpu_swarm_planned"
BATCHES = "batches"

Read = Callable[[str], Mapping[str, Any]]


def plan_time(variables: Mapping[str, Any]) -> int:
    """Return when the plan of a host was made, from the host's variables. 0 without a plan."""
    return int((variables.get(PLAN) or {}).get("made") or 0)


def planned(hosts: Iterable[str], variables_of: Read) -> dict[str, Any]:
    """Return the hosts of the next plays, by group. The key ``batches`` has how many hosts are changed at a time.

    ``variables_of(name)`` returns a host's variables. If another run has the swarm's lease, only the last play has hosts.
    """
    variables = {name: variables_of(name) for name in hosts}
    newest = max(variables.values(), key=plan_time, default={})
    plan, made_at = newest.get(PLAN) or {}, plan_time(newest)
    groups: Mapping[str, list[str]] = plan.get("hosts_in") or {}
    if (newest.get(LEASE) or {"acquired": True}).get("acquired"):
        chosen = groups
    else:
        chosen = {group: names for group, names in groups.items() if group == END}
    current = {name: plan_time(variables_of(name)) == made_at for name in dict.fromkeys(name for names in chosen.values() for name in names)}
    # Count by name: an excluded host must not move the next one into its batch. Two managers must never be in one batch.
    sizes = [len([name for name in batch if current.get(name)]) for batch in plan.get(BATCHES) or []]
    return {**{group: [name for name in names if current[name]] for group, names in chosen.items()}, BATCHES: [size for size in sizes if size]}
