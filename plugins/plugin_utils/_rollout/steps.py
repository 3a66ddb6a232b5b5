# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first and last steps of a run, and the table of all steps. The steps of a window are in window.py.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ...module_utils._swarm import owned_labels
from ...module_utils._view.verdicts import Verdict
from .._fleet.identity import LABEL_PREFIX
from .._fleet.model import LABEL, MARKED, Host, Step
from .._fleet.outcome import State
from .._plan import isolation_change, isolation_label, queue_label
from . import window
from .batch import NO_MANAGER, Answer, Batch
from .ends import ends, state_of
from .manager_updates import FORMER, availability_updates, fault_updates, finished_jobs, label_updates, not_converged
from .member import PLAN, by_ledger, member_of
from .planned import plan_time
from .refused_evictions import NO_REASON
from .run_lease import lease_blocker


def start(batch: Batch) -> Answer:
    """Prepare the run before anything is changed.

    Acquire the lease. Return nodes to service that an earlier run left paused and that need nothing else. Pause nodes with faults. So tasks of the
    first batch can already move to the returned nodes.
    """
    answered = True
    faults, isolation_update = batch.plan["to_pause"], batch.plan["isolation"]["change"]
    swarm_updates = {**({"isolation": isolation_update} if isolation_update else {}), **batch.plan["queues"]["change"]}
    if batch.plan["to_change"] or faults or swarm_updates:
        answered = acquire(batch, **swarm_updates)["answered"]
    elif batch.plan["left_lease"] and batch.call("swarm_lease", ttl=batch.ttl).get("acquired"):
        # Release the lease of a run that was killed after its last change. By the leader's clock, this lease has ended.
        batch.call("swarm_lease", state="absent")
    # Nodes whose fault is over come first. When a node returns to service, a manager may pause one more, and would choose a node that still reports
    # a fault.
    returning = list(dict.fromkeys([*batch.plan["cleared"], *batch.plan["only_paused"]]))
    if returning and batch.lease.get("acquired"):
        # Do not use the ledger, which is older than the lease. If this fails, the end of the run does it again.
        batch.write(availability_updates(batch.view_by(None, returning), FORMER, labels=False))
    if faults and batch.lease.get("acquired"):
        answered = _pause_for_faults(batch, faults)
        latest = batch.query()
        batch.ledger = latest if "nodes" in latest else batch.ledger
    if (faults or swarm_updates) and batch.lease.get("acquired") and not batch.plan["to_change"]:
        # No host is left, so no later step releases the lease.
        batch.call("swarm_lease", state="absent")
        batch.set_lease({})
    return batch.answer(answered)


def _pause_for_faults(batch: Batch, faults: dict[str, str]) -> bool:
    updates = fault_updates(faults, batch.view(faults))
    written = batch.write(updates) if updates else {"nodes": []}
    unknown = written.get("unknown") or []
    if "nodes" not in written and unknown:  # a node that was removed after the plan would keep all others in service
        updates = [update for update in updates if update["id"] not in unknown]
        written = batch.write(updates) if updates else {"nodes": []}
    if "nodes" in written:
        return True
    names = ", ".join(update["host"] for update in updates)
    batch.warn(f"{names}: could not be paused for a fault: {written.get('msg') or NO_REASON}")
    return False


def acquire(batch: Batch, **more: Any) -> Answer:
    """Acquire the lease. If another run has the lease, hosts that should be changed are left untouched."""
    answered = batch.acquire(**more)
    if more and answered and not batch.lease["acquired"] and not batch.plan["to_change"]:
        batch.warn(f"the run did not write the {' and the '.join(more)} of the swarm, because another run changes this swarm. Run this again.")
    batch.give_outcome([name for name in batch.hosts if name in batch.plan["to_change"]], State.UNTOUCHED, lease_blocker(batch.lease))
    return batch.answer(answered)


def finish(batch: Batch) -> Answer:
    """Return the remaining nodes to service, write the remaining labels, and release the lease. The returned ledger shows the fleet at the end."""
    if not batch.read_ledger():
        return batch.answer(False)
    if batch.lease.get("acquired"):
        for name in batch.remaining:  # jobs may have finished after the plan
            batch.give_outcome([name], State.WAITING, ", ".join(finished_jobs(batch.view([name]), False, updates_left=True)))
        window.remove_jobs(batch, updates_left=True)
    groups = batch.plan["hosts_in"]
    # Labels are written in a separate call, because a clash over one host's label would keep all nodes out of service.
    # Nodes whose fault is over are included, because a manager may have paused them after the plan.
    marked = list(dict.fromkeys([*batch.plan["cleared"], *(groups.get(MARKED) or [])]))
    returning = availability_updates(batch.view(marked), FORMER, labels=batch.absent)
    returned = batch.write(returning) if returning else {}
    labels = label_updates(batch.view(groups.get(LABEL) or []), clashes=True)
    is_last_call = not (returning or batch.absent or batch.check_mode or not_converged(batch.view()))
    labelled = batch.write(labels, **(_with_release(batch) if is_last_call else {})) if labels else {}
    refused = [item for answer in (returned, labelled) for item in answer.get("refused") or []]
    unlabelled = labelled.get("msg") or "" if "nodes" not in labelled else ""
    if not (batch.absent or batch.check_mode):
        if returning:
            batch.wait(lambda ledger: [] if "nodes" in ledger else NO_MANAGER, window.CONVERGES_S, 1)
        window.converge(batch)
    if not labelled.get("lease") and (batch.lease or not (batch.absent or batch.check_mode)):  # a swarm that this run initialised has no lease
        batch.call("swarm_lease", state="absent", **_notes_of_run(batch, refused, unlabelled))
    if batch.absent and not batch.check_mode:
        batch.ledger = batch.query()
    return {**batch.answer(), "refused": refused, "unlabelled": unlabelled}


def _with_release(batch: Batch) -> dict[str, Any]:
    """Return the options that release the lease with the call that writes the last labels.

    If all labels are written, this call notes how the run ended. Otherwise it keeps the lease.
    """
    return {"release": batch.holder, **_notes_of_run(batch, [], "")}


def _notes_of_run(batch: Batch, refused: list[dict[str, Any]], unlabelled: str) -> dict[str, Any]:
    """Return the notes about this run on the swarm. The notes must agree with the report, so the run must not wait for anything after it has written
    them.
    """
    counts = {} if batch.absent else _count_verdicts(batch, refused, unlabelled)
    update = _isolation_update(batch)
    queues = queue_label.update_after_removal(batch.ledger) if batch.absent else queue_label.update(batch.plan["queues"]["wanted"], batch.ledger)
    return {"outcomes": counts, "always": batch.plan["settings"]["provision_note_run"], **({"isolation": update} if update else {}), **queues}


def _isolation_update(batch: Batch) -> dict[str, Any]:
    """Return the update of the swarm's isolation label at the end of the run."""
    if batch.absent:
        nodes = batch.ledger.get("nodes") or []
        return isolation_label.update_after_removal(
            (node["id"] for node in nodes if owned_labels.bound_to(node["labels"], LABEL_PREFIX)), batch.ledger
        )
    levels = {}
    for member in batch.view(name for name in batch.plan["steps"] if name in batch.hosts):
        level = batch.plan["steps"][member.name]["target"]["isolation"]
        if member.node_id and level:
            levels[member.node_id] = isolation_change.level_at_end(member.assessed, member.applied, level)
    planned = batch.plan["isolation"]
    return isolation_label.update_at_end(planned["level"], planned["set"], levels, batch.ledger)


def _count_verdicts(batch: Batch, refused: list[dict[str, Any]], unlabelled: str) -> dict[str, int]:
    """Return the number of hosts with each verdict."""
    steps = {name: Step.from_plan(step) for name, step in batch.plan["steps"].items()}
    made_at, in_batch = plan_time({PLAN: batch.plan}), [name for name in steps if name in batch.hosts]
    # A host that was lost before the plan has facts of another playbook of this run.
    members = [batch.member(name) if plan_time(batch.variables[name]) == made_at else member_of(name, {}) for name in in_batch]
    view = by_ledger(members, batch.ledger)
    counts = Counter((Verdict.FAILED if step.error else Verdict.DONE).value for name, step in steps.items() if name not in in_batch)
    host_ends = ends(view, refused, unlabelled)
    for member in view:
        host = Host(member.name, gpu=False, manager=False, assessed=dict(member.decided))
        counts[state_of(host, steps[member.name], host_ends[member.name]).verdict.value] += 1
    return dict(counts)


# The steps by their names, as in the option ``step`` of the action swarm_batch.
STEPS: dict[str, Callable[[Batch], Answer]] = {
    "start": start,
    "acquire": acquire,
    "begin": window.begin,
    "drain": window.drain,
    "renew": window.renew,
    "unlabel": window.unlabel,
    "restore": window.restore,
    "finish": finish,
}
