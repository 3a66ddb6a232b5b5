# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides what a run writes to the swarm's nodes, and checks whether the manager shows what was decided (pure).

The functions return the option ``nodes`` of the module swarm_nodes. Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils._health import label
from ...module_utils._ledger.shown import difference, is_not_ready
from ...module_utils._policy import data_network
from ...module_utils._swarm import owned_labels
from .._classes.in_ledger import prefixes_to_keep, with_classes
from .._fleet.finished_jobs import describe_jobs, jobs_that_run_again
from .._fleet.identity import LABEL_PREFIX, identity_errors
from .._fleet.model import LABEL, MARKED
from .._fleet.outcome import BAD
from .member import Member, View
from .refused_evictions import EVICT

PAUSE, DRAIN, FORMER = "pause", "drain", "former"


# -- availability ------------------------------------------------------------------------------------------------------


def availability_updates(view: View, to: str, labels: bool = True) -> list[dict[str, Any]]:
    """Return the updates of the nodes' availability. A host has no update if its node is not listed, if its node does not change, or if another run
    has the lease.

    ``pause``: the scheduler places no new tasks on the node. ``drain``: swarm also moves the tasks that the ledger shows on the node. ``former``: the
    nodes return to their former availability, with their ``labels`` as decided. Without ``labels``, only nodes that a run paused or drained return.
    """
    updates = []
    for member in view:
        if not member.node_id or (view.nodes and not member.node):
            continue  # a node that is no longer listed would make the call fail for all
        if member.lost_lease:
            continue  # the other run may have paused this node
        if to != FORMER and _leaves_service(member, to):
            evicts = {} if to == PAUSE else _evict(member)  # a pause evicts nothing
            by = {"by": member.step.playbook} if member.step.playbook else {}
            updates.append({"id": member.node_id, "host": member.name, "availability": to, "remember": True, **by, **evicts})
        if to == FORMER and _may_return(member, view, labels):
            update = {"id": member.node_id, "host": member.name, "availability": to, "remember": False}
            updates.append({**update, **_written_on_return(member, view, labels), **_evict(member)})
    return updates


def _leaves_service(member: Member, to: str) -> bool:
    """Return whether to pause or drain the node. A host with an outcome does not change, so its node is neither paused nor drained."""
    return not member.outcome and (to == PAUSE or _may_be_drained(member))


def _may_be_drained(member: Member) -> bool:
    """Return whether the change would stop tasks on the node, and a drain would end none of these tasks for good."""
    readable = "containers" in member.assessed and not member.assessed.get("failed")
    work = member.stopped_work()
    return readable and bool((member.node or {}).get("tasks") and work) and not member.must_stay(work)


def _may_return(member: Member, view: View, labels: bool) -> bool:
    """Return whether nothing keeps the node out of service. Its outcome, a fault, or a finished job that would run again may keep it out."""
    # A node that was in service when this run began may return although its change failed, because it is as it was then.
    if member.outcome and (member.outcome.stays_paused or (member.step.membership.left_paused and member.outcome.state in BAD)):
        return False
    if not labels and member.node and not member.not_returned:
        return False
    if _runs_a_job_again(member, view):
        return False
    return not _is_unfit(member) or _was_left_in_service(member)


def _is_unfit(member: Member) -> bool:
    """Return whether the node still has a fault that keeps it out of service. The work in its window, such as a reset of the GPU, may have ended the
    fault.
    """
    return bool(member.decided.get("fault")) and member.step.settings.get("gpu_node_on_loss") != label.REPORT


def _was_left_in_service(member: Member) -> bool:
    """Return whether the node had the same fault when the run began, and no run has paused the node for this fault."""
    return member.step.fault.left_in_service and label.is_like_fault(str(member.decided.get("fault")), member.step.fault.text)


def _written_on_return(member: Member, view: View, labels: bool) -> dict[str, Any]:
    """Return the other parts of the update that returns the node to service."""
    step = member.step
    fault = step.fault.paused_for or step.fault.text  # if the node has another fault by now, somebody has paused it since
    update = {**({"paused_for": fault} if fault else {}), **_ended_fault(member.decided)}
    if member.outcome or step.work.left_alone or step.error:
        return update
    return {**update, **(_labels(member, view) if labels else {}), **_maintained(member)}


def _ended_fault(decided: Mapping[str, Any]) -> dict[str, str]:
    """Return the fault that a node still reports although this run found no fault. Under some managers, a node reports the end of a fault only after
    its tasks have ended.
    """
    shown = label.parse_label(str((decided.get("health") or {}).get("shown") or ""))
    return {"over": label.format_label(shown.of_cards)} if shown.state == label.FAULT and not decided.get("fault") else {}


def _maintained(member: Member) -> dict[str, Any]:
    """Return the maintenance that was finished on the node. gpu_node runs last in the window, so its answer shows a finished maintenance."""
    finished = member.step.settings.get("maintain_id")
    return {"maintained": finished} if finished and "maintain" in member.step.needs and member.applied else {}


def _evict(member: Member) -> dict[str, str]:
    """Return the option that limits which tasks the update may evict. Before the plan, nothing is limited, so that the preview shows every task that
    the update would evict.
    """
    return {"evict": EVICT[member.step.work.disrupt]} if member.planned else {}


def fault_updates(faults: Mapping[str, str], view: View) -> list[dict[str, Any]]:
    """Return the updates that pause hosts for their ``faults``, even hosts that could not be assessed. The module checks whether somebody has decided
    otherwise after the plan.
    """
    updates = []
    for member in view:
        node_id = member.step.membership.node_id
        if node_id and (not view.nodes or node_id in view.nodes):
            pause = {"availability": PAUSE, "remember": True, "paused_for": faults[member.name]}
            updates.append({"id": node_id, "host": member.name, **pause})
    return updates


# -- labels ------------------------------------------------------------------------------------------------------------


def label_updates(view: View, clashes: bool = False) -> list[dict[str, Any]]:
    """Return the label updates of these hosts; see wanted_labels(). Exclude hosts that must not be changed now because another run has the lease."""
    lost = {member.name for member in view if member.lost_lease}
    return [update for update in wanted_labels(view, clashes) if update["host"] not in lost]


def wanted_labels(view: View, clashes: bool = False) -> list[dict[str, Any]]:
    """Return the label updates of hosts without a failure, with the planned labels, or else the decided labels.

    With a ledger, return only labels that differ from the ledger. If somebody else has set such a label, return it only with ``clashes``. If a host
    shows the id of another host's node, it gets no labels. The plan or the report explains this.
    """
    id_errors = identity_errors({member.name: member.node_id for member in view}, view.nodes)
    updates = []
    for member in view:
        labels = _labels(member, view)
        if not member.node_id or not labels or member.name in id_errors or member.outcome:
            continue
        if view.ledger is None or (member.node and _differs(member.node, member.name, labels, clashes)):
            updates.append({"id": member.node_id, "host": member.name, **labels, **_evict(member)})
    return updates


def _labels(member: Member, view: View) -> dict[str, Any]:
    """Return the planned labels, or else the decided labels, with the labels of classes and the mark that binds the node to the host."""
    removal, decided = member.step.removal, member.decided
    wanted, keep = removal.labels if removal else decided.get("labels"), list(decided.get("labels_unknown") or ())
    if wanted is None:
        return {}
    joined = {} if removal else _of_address(member)
    if joined:
        wanted, keep = {**wanted, **joined}, [prefix for prefix in keep if prefix != data_network.PREFIX]
    wanted, keep = with_classes(wanted, keep, member.node_id, view.ledger), keep + prefixes_to_keep(wanted, view.ledger)
    return {"labels": wanted, "mark": removal.mark if removal else owned_labels.SET, **({"keep": keep} if keep else {})}


def _of_address(member: Member) -> Mapping[str, str]:
    """Return the labels that depend on the address of the node; {} if they are decided already. Before a node joins, its address is unknown."""
    address = str((member.node or {}).get("addr") or "")
    return (member.decided.get("labels_by_address") or {}).get(address) or {}


def _differs(node: Mapping[str, Any], host: str, wanted: Mapping[str, Any], also_clashes: bool) -> bool:
    """Return whether the node's labels differ from ``wanted``, the result of _labels() for this host."""
    new_labels, clashes = owned_labels.compute(node["labels"], wanted["labels"], LABEL_PREFIX, wanted.get("keep", ()))
    return also_clashes if clashes else owned_labels.mark(new_labels, host, wanted["mark"], LABEL_PREFIX) != node["labels"]


# -- finished jobs -----------------------------------------------------------------------------------------------------


def finished_jobs(view: View, remove: bool, updates_left: bool = False) -> list[str]:
    """Return the finished jobs that an update of these hosts' nodes would run again. With ``remove``, these are the names of jobs that this run may
    remove. Without ``remove``, these are descriptions of jobs that this run may not remove. Ignore hosts with an outcome.

    With ``updates_left``, consider only hosts that must still be labelled or returned to service. At the end of a run, most hosts are finished.
    """
    members = _still_to_update(view) if updates_left else view.members
    relevant = [member for member in members if member.step.work.remove_jobs is remove and not member.outcome]
    jobs = list(dict.fromkeys(job for member in relevant for job in _jobs_in_the_way(member, view)))
    return jobs if remove else describe_jobs(jobs)


def _still_to_update(view: View) -> list[Member]:
    own_members = [member for member in view if not member.lost_lease]
    to_label = View(tuple(member for member in own_members if LABEL in member.step.groups), view.ledger)
    labelled = {update["host"] for update in wanted_labels(to_label, clashes=True)}
    return [member for member in own_members if member.name in labelled or (MARKED in member.step.groups and member.not_returned)]


def _jobs_in_the_way(member: Member, view: View) -> list[str]:
    # If the change was not made, or if that is unknown, assume the resources that the ledger shows.
    changed = not (member.step.work.left_alone or member.outcome)
    return jobs_that_run_again(view.ledger, member.node_id, member.decided.get("advertised") if changed else None)


def _runs_a_job_again(member: Member, view: View) -> bool:
    """Return whether the return of the host to service would run a finished job again. Jobs that may be removed are already removed, but the ledger
    may be older.
    """
    removed = member.step.work.remove_jobs is True and not member.outcome
    return not removed and bool(_jobs_in_the_way(member, view))


# -- what the manager shows --------------------------------------------------------------------------------------------


def not_converged(view: View) -> list[str]:
    """Return the hosts for which the ledger does not show the decision yet. Ignore hosts that failed."""
    relevant = [member for member in view if not (member.outcome or member.step.work.left_alone or member.step.error)]
    return [member.name for member in relevant if is_not_ready(member.node) or difference(member.decided, member.node or {})]
