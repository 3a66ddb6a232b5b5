# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks whether this run may change the swarm, and computes how long its lease must last (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from .refused_evictions import NO_REASON

# Set by playbooks/tasks/manager/call.yml.
FACT = "gpu_swarm_lease"
# How long the change of a node may take: packages, the restart of dockerd, and its first answer.
CHANGE_S = 900


def lease_by(answer: Mapping[str, Any], ledger: Any) -> Mapping[str, Any]:
    """Return the current lease: the ``answer`` that this run got, or the lease in the ``ledger`` if another run took the lease."""
    taken = _taken_by_another(answer, ledger) if answer else None
    return {**taken, "acquired": False} if taken else answer


def _taken_by_another(answer: Mapping[str, Any], ledger: Any) -> Mapping[str, Any] | None:
    """Return the lease that the ledger shows, if another run has taken the lease from this run. Only the leader's clock decides whether that lease
    has ended.
    """
    current = ((ledger or {}).get("swarm") or {}).get("lease")
    return current if answer.get("acquired") and current and current["holder"] != answer["holder"] else None


def is_due(answer: Mapping[str, Any], ledger: Any = None, now: float | None = None) -> bool:
    """Return whether this run must renew its lease before it continues. It must if half of the lease's time is over, or if the ledger shows that
    another run has the lease.

    Ansible's now() cannot be used, because local time repeats one hour every year.
    """
    half_over = "renew_at" in answer and (time.time() if now is None else now) >= answer["renew_at"]
    return half_over or _taken_by_another(answer, ledger) is not None


def lease_blocker(answer: Mapping[str, Any], since: str | None = None) -> str:
    """Return why this run may change nothing now, or ''. ``answer`` is the answer of swarm_lease. With ``since``, it must be the lease that this run
    acquired at that time.
    """
    if answer.get("acquired") and since not in (None, answer.get("since")):
        return "the run stopped before this node, because its lease of this swarm expired, and another run took the lease. Run this again."
    if answer.get("acquired"):
        return ""
    if "acquired" not in answer:
        reason = str(answer.get("msg") or NO_REASON).strip().rstrip(".")
        return f"the run stopped before this node, because the lease of this swarm could not be taken: {reason}. Fix that and run this again."
    since = f" since {answer['since']}" if answer.get("since") else ""
    return (
        f"the run stopped before this node, because another run changes this swarm: {answer['holder']}{since}. "
        f"Its lease {_remaining(answer.get('expires_in'))}. Run this again when that run has ended. "
        "If it was killed, add -e provision_take_lease=true."
    )


def _remaining(expires_in: int | None) -> str:
    if expires_in is None:
        return "does not end by itself"
    return f"ends in {expires_in} s unless that run renews it" if expires_in > 0 else f"ended {-expires_in} s ago by the clock of a manager"


def lease_seconds(hosts: Iterable[str], plan: Mapping[str, Any], forks: int, maintain: bool = False) -> int:
    """Return how long the lease must last for this batch (seconds). The run renews the lease before each batch, and during a batch when half of the
    lease's time is over.
    """
    if plan["settings"]["provision_lease"]:
        return plan["settings"]["provision_lease"]
    settings = [plan["steps"][name]["settings"] for name in hosts if name in plan["steps"]]

    def longest(key: str) -> int:
        return max((host_settings[key] for host_settings in settings), default=0)

    wait = longest("provision_wait")
    per_round = wait + longest("provision_drain_timeout") + CHANGE_S
    if maintain:
        # The user's tasks, the reboot, and the first answer. Before a reboot, the run waits once more for work to end.
        per_round += wait + 3 * longest("maintain_timeout")
    # Ansible works on ``forks`` hosts at a time.
    rounds = max(1, -(-min(len(settings), len(plan["to_change"])) // int(forks)))
    # The run waits for tasks once for all hosts, and once more if the manager is lost; then it waits for containers on each host.
    return 2 * wait + rounds * per_round
