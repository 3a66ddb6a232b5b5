# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long parts of a run last, by the settings of its hosts (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._fleet.model import Step

# The longest time for which a call says nothing: firewalls on the way forget an idle connection after minutes. No setting, and none's
# default: whoever gives tasks more time to end gets no longer silence.
LONGEST_SILENCE_S = 120
# For the change of a node: packages, the restart of dockerd, and until it answers again.
CHANGE_S = 900


def restart_waits(step: Step, drain_timeout_s: int, maintain: bool) -> int:
    """For how long the call that restarts dockerd waits for the drain. Where that is all that is to be done there, the node is out for less
    long than with a task of its own before it."""
    return 0 if maintain or "toolkit" in step.needs or drain_timeout_s > LONGEST_SILENCE_S else drain_timeout_s


def lease_seconds(hosts: Iterable[str], plan: Mapping[str, Any], forks: int, maintain: bool = False) -> int:
    """How long the swarm's lease has to last for this batch of ``hosts``: it is renewed before each, and within one when half of it is over."""
    if plan["settings"]["provision_lease"]:
        return plan["settings"]["provision_lease"]
    settings = [plan["steps"][name]["settings"] for name in hosts if name in plan["steps"]]

    def longest(key: str) -> int:
        return max((one[key] for one in settings), default=0)

    wait = longest("provision_wait")
    each = wait + longest("provision_drain_timeout") + CHANGE_S
    if maintain:
        # For the user's tasks, until it is back from a reboot, and until it answers. Before a reboot it waits once more.
        each += wait + 3 * longest("maintain_timeout")
    # Ansible is at work on so many hosts at a time, and the others come after them.
    rounds = max(1, -(-min(len(settings), len(plan["to_change"])) // int(forks)))
    # For tasks it waits once for all hosts, and once more if the manager that answers is lost; then on each host for containers.
    return 2 * wait + rounds * each
