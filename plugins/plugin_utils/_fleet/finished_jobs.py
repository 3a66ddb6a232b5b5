# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds finished jobs that an update of their node would run again (pure).

At each update of an active node, a leader before 29.6.0 still counts the resources of the job tasks that ended on the node. If these resources are
allocated again, or no longer advertised, the leader rejects the ended task and queues the job's next task (moby#52652).
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils._policy import generic_resources


def jobs_that_run_again(ledger: Any, node_id: str | None, advertised: list[str] | None) -> list[str]:
    """Return the jobs whose ended tasks on this node would be rejected if the node advertises ``advertised``. None means that the resources do not
    change.
    """
    after = None if advertised is None else generic_resources.parse(advertised)
    jobs = [job for job in (ledger or {}).get("finished_jobs") or [] if job["node"] == node_id]
    return list(dict.fromkeys(job["service"] for job in jobs if job["clash"] or (after is not None and _is_gone(job, after))))


def describe_jobs(jobs: list[str]) -> list[str]:
    return [f"finished job {job}, which would run again (provision_remove_finished_jobs: true removes it)" for job in jobs]


def _is_gone(job: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    advertised = after.get(job["kind"])
    if job["values"] is None:
        return not isinstance(advertised, int) or advertised < job["amount"]
    return not isinstance(advertised, list) or not set(job["values"]) <= set(advertised)
