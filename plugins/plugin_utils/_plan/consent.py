# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds effects of a plan on services beyond the tasks on its nodes, and whether the user consented to these effects (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from .._fleet import finished_jobs
from .._fleet.model import END, JOIN, LABEL, MARKED, WINDOWS, Host, Step, Swarm
from .displaced_services import Loss, consented, decided_totals, is_open, losses, reduces, refusal, totals
from .provision import complete_step

# The nodes of hosts in one of these groups are updated.
UPDATED = {*WINDOWS, LABEL, MARKED}


def check_reservations(hosts: Iterable[Host], steps: dict[str, Step], swarm: Swarm, allowed: Any) -> list[Loss]:
    """Refuse a change of a host if no node would then have the resources that a service reserves. Return the losses to which the user consented."""
    nodes, changes, joining = swarm.nodes, {}, []
    changing = [host for host in hosts if host.assessed and "advertised" in host.assessed and _is_changed(steps[host.name])]
    for host in changing:
        node = nodes.get(steps[host.name].membership.node_id or "")
        if node:
            changes[node["id"]] = decided_totals(host.assessed or {}, node)
        elif JOIN in steps[host.name].groups:
            joining.append(decided_totals(host.assessed or {}, None))
    all_losses = losses(swarm.ledger, changes, joining)
    for host in changing if all_losses else []:
        node = nodes.get(steps[host.name].membership.node_id or "")
        losses_of_host = [loss for loss in all_losses if node and is_open(node) and reduces(loss, totals(node), changes[node["id"]])]
        refused = [loss for loss in losses_of_host if not consented(loss.service, allowed)]
        if refused:
            steps[host.name] = complete_step(Step(error=refusal(refused)), host, node)
        steps[host.name].impact += [f"leaves no place for {loss.text}" for loss in losses_of_host if not refused]
    return [loss for loss in all_losses if consented(loss.service, allowed)]


def plan_finished_jobs(hosts: Iterable[Host], steps: dict[str, Step], swarm: Swarm, remove: bool) -> None:
    """Make a host wait if the update of its node would run a finished job again. With consent (``remove``), the run removes this job first.

    This concerns only hosts whose nodes this run updates.
    """
    for host in hosts:
        step = steps[host.name]
        # A host that is left alone may still return to service. This is an update too. A node that leaves is paused until it is removed.
        if not UPDATED & set(step.groups) or ("leave" in step.needs and not step.work.left_alone):
            continue
        step.work.remove_jobs = remove
        advertised = None if step.work.left_alone else (host.assessed or {}).get("advertised")
        jobs = finished_jobs.jobs_that_run_again(swarm.ledger, step.membership.node_id, advertised)
        if jobs and remove:
            step.work.jobs = jobs
            step.impact.append(f"removes {', '.join(f'finished job {job}' for job in jobs)}")
        elif jobs:
            waits_for = finished_jobs.describe_jobs(jobs) + step.work.waits_for
            # The host does not return to service either, because that is an update too.
            steps[host.name] = replace(step, work=replace(step.work, waits_for=waits_for, left_alone=True), groups=[END])


def _is_changed(step: Step) -> bool:
    return bool(step.groups) and not step.error and not step.work.left_alone
