# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a manager does for a batch of hosts in their window: each step one call, with an outcome for each host that does not get through it.

A step says whether its manager ``answered``. Where it did not, the same step is carried out by the next one, so that each can be done twice.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ...module_utils._swarm import owned_labels
from .._fleet.identity import LABEL_PREFIX
from .._fleet.model import LABEL, MARKED, Host, Step
from .._fleet.outcome import State, Verdict, outcome_of
from .._plan import isolation, isolation_label
from .batch import NO_MANAGER, Answer, Batch
from .ends import ends, state_of
from .eviction import NO_REASON, not_written
from .lease import is_due, lease_blocker
from .planned import PLAN, made
from .preconditions import blocking_workloads, manager_blocker, newly_pending, rollout_blocker
from .updates import (
    DRAIN,
    FORMER,
    PAUSE,
    availability_updates,
    decided,
    fault_updates,
    finished_jobs,
    label_updates,
    node_id_of,
    node_ids,
    not_converged,
)

# For so long a manager may take to show what a restarted dockerd advertises, and to find its peers again.
CONVERGES_S, REJOINS_S = 60, 15
# A call that took longer hung: an answer takes seconds, and an election that is awaited in it 20.
HANGS_S = 120
# For so long tasks that were moved may wait for a place, whatever provision_wait is.
SETTLE_S = (10, 30)


def start(batch: Batch) -> Answer:
    """Before anything is changed: the lease, and nodes that an earlier run left paused return to service if they need nothing else, so that a
    rollout has their room from its first batch on."""
    answered = True
    faults, level = batch.plan["to_pause"], batch.plan["isolation"]["change"]
    if batch.plan["to_change"] or faults or level:
        answered = acquire(batch, **({"isolation": level} if level else {}))["answered"]
    elif batch.plan["left_lease"]:
        # A run that was killed after its last change. Whoever has something to change takes the lease over, and releases it.
        batch.call("swarm_lease", state="absent", holder=batch.plan["left_lease"])
    if batch.plan["only_paused"] and batch.lease.get("acquired"):
        # The ledger shows the lease of before. What fails is done once more at the end of the run.
        batch.write(availability_updates(batch.plan["only_paused"], batch, FORMER, labels=False))
    if faults and batch.lease.get("acquired"):
        answered = _pause_for_faults(batch, faults)
        latest = batch.query()
        batch.ledger = latest if "nodes" in latest else batch.ledger
    if (faults or level) and batch.lease.get("acquired") and not batch.plan["to_change"]:
        # Nothing follows that would release it, where no host is left.
        batch.call("swarm_lease", state="absent")
        batch.know({})
    return batch.answer(answered)


def _pause_for_faults(batch: Batch, faults: dict[str, str]) -> bool:
    updates = fault_updates(faults, batch, batch.ledger)
    written = batch.write(updates) if updates else {"nodes": []}
    gone = written.get("unknown") or []
    if "nodes" not in written and gone:  # taken off the list since the plan: it would keep all others in service
        updates = [update for update in updates if update["id"] not in gone]
        written = batch.write(updates) if updates else {"nodes": []}
    if "nodes" in written:
        return True
    names = ", ".join(update["host"] for update in updates)
    batch.warn(f"{names}: could not be paused for a fault: {written.get('msg') or NO_REASON}")
    return False


def acquire(batch: Batch, **more: Any) -> Answer:
    """The lease, for hosts on which anything is to be done."""
    answered = batch.acquire(**more)
    if more and answered and not batch.lease["acquired"] and not batch.plan["to_change"]:
        batch.warn("the isolation of the swarm was not written, since another run changes this swarm. Run this again.")
    batch.keep([name for name in batch.hosts if name in batch.plan["to_change"]], State.UNTOUCHED, lease_blocker(batch.lease))
    return batch.answer(answered)


def renew(batch: Batch) -> Answer:
    """The lease, within a window. What another run has had since is left as it is: it may have changed these nodes, or be about to."""
    since = batch.lease.get("since")
    answered = batch.acquire()
    batch.keep(batch.hosts, batch.broken, lease_blocker(batch.lease, since), leave_paused=True)
    return batch.answer(answered)


def begin(batch: Batch) -> Answer:
    """No new tasks for the hosts that may be changed now, and the end of what must not be stopped there."""
    answer = judge(batch)
    if answer["answered"]:
        return pause(batch)
    # These hosts are left alone. Who has the lease is not known, so that the batches and plays to come find it out themselves.
    del answer["lease"]
    return answer


def judge(batch: Batch) -> Answer:
    """May these hosts be changed now? Tasks that the batch before has moved get the time to find a place."""
    answered = batch.find() and _settle(batch) and batch.acquire()
    if "nodes" not in batch.ledger:
        batch.know({"msg": batch.ledger.get("msg")})  # as good as lost
    plan = batch.plan
    blocker = rollout_blocker(plan["to_change"], batch, batch.ledger, plan["rooms"], plan["settings"]["provision_max_failed"])
    batch.keep(batch.hosts, State.UNTOUCHED, blocker or lease_blocker(batch.lease))
    managers = plan["hosts_in"].get("gpu_swarm_window_managers") or []
    for name in batch.left:
        if name in managers:
            batch.keep([name], State.UNTOUCHED, manager_blocker(name, managers, batch, batch.ledger))
    return batch.answer(answered)


def _settle(batch: Batch) -> bool:
    # A roll that was stopped is not waited for by every batch that is left.
    outcomes = [outcome_of(batch[name]) for name in batch.plan["to_change"]]
    if any(outcome and outcome.state is State.UNTOUCHED for outcome in outcomes):
        return True

    def waits_for(ledger: Answer) -> list[str]:
        return newly_pending(ledger, batch.plan["rooms"]) if "nodes" in ledger else NO_MANAGER

    if waits_for(dict(batch.ledger)):
        batch.wait(waits_for, min(SETTLE_S[1], max(SETTLE_S[0], batch.longest("provision_wait"))), 1)
    return True


def pause(batch: Batch) -> Answer:
    """No new tasks; then it waits for those that must not be stopped. A node is paused before it is inspected again: else the scheduler may
    place work between the assessment and the change."""
    if not batch.left:
        return batch.answer()
    written = batch.write(availability_updates(batch.hosts, batch, PAUSE))
    if "nodes" not in written:
        batch.keep(batch.hosts, State.FAILED, f"it could not be paused: {written.get('msg') or NO_REASON}")
        return batch.answer(False)
    answer = _await_tasks(batch)
    if "nodes" not in answer:
        batch.keep(batch.hosts, State.FAILED, f"the manager did not say what runs here: {answer.get('msg') or 'no reason given'}")
    return batch.answer("nodes" in answer)


def _await_tasks(batch: Batch) -> Answer:
    """A manager that fails once in a wait of hours is queried again, and given the time for an election, before another one is called."""

    def waits_for(ledger: Answer) -> list[str]:
        return blocking_workloads(batch.hosts, batch, ledger, containers=[]) if "nodes" in ledger else []

    end = batch.clock() + batch.longest("provision_wait")
    answer, last = batch.wait(waits_for, batch.longest("provision_wait")), batch.ledger
    while "nodes" not in answer and batch.find():
        answer, last = batch.wait(waits_for, max(0.0, end - batch.clock())), batch.ledger
    batch.ledger = last
    return answer


def drain(batch: Batch) -> Answer:
    """Hosts on which something must end first wait. Of the others swarm starts the rest elsewhere, while this run has the lease."""
    for name in batch.left:
        # What ended meanwhile may be a job that would run again.
        blocking = blocking_workloads([name], batch, batch.ledger) + finished_jobs([name], batch, batch.ledger, remove=False)
        batch.keep([name], State.WAITING, ", ".join(blocking))
    answered = _renew_if_due(batch) and _remove_jobs(batch)
    updates = availability_updates(batch.left, batch, DRAIN, batch.ledger) if answered else []
    if updates:
        answered = _write(batch, updates, "it could not be drained")
    drained = {update["id"] for update in updates}
    return {**batch.answer(answered), "drained": [name for name, node_id in node_ids(batch.left, batch).items() if node_id in drained]}


def _renew_if_due(batch: Batch) -> bool:
    """Before what must not be done twice at a time: what was waited for may have taken long, and a drain may take its time too."""
    drain_s = batch.longest("provision_drain_timeout")
    if not batch.left or not is_due(batch.lease, batch.ledger, batch.clock() + drain_s):
        return True
    return bool(renew(batch)["answered"])


def _remove_jobs(batch: Batch, updates_left: bool = False) -> bool:
    """With the user's consent (provision_remove_finished_jobs) those that an update of their nodes would run again."""
    jobs = finished_jobs(batch.left, batch, batch.ledger, True, updates_left)
    if not jobs:
        return True
    pruned = batch.call("swarm_job_prune", services=jobs)
    why = ", ".join(item["reason"] for item in pruned.get("kept") or []) or pruned.get("msg") or "the manager did not answer"
    for name in batch.left:
        of_host = finished_jobs([name], batch, batch.ledger, True, updates_left)
        left = [f"job {job}" for job in of_host if job not in (pruned.get("removed") or [])]
        batch.keep([name], State.WAITING, f"{', '.join(left)} could not be removed: {why}" if left else "")
    return "removed" in pruned


def _write(batch: Batch, updates: list[dict[str, Any]], what: str) -> bool:
    written = batch.write(updates)
    for name, node_id in node_ids(batch.left, batch).items():
        missed = not_written(written, node_id or "", what)
        if missed:
            batch.keep([name], State(missed["state"]), missed["reason"])
    return "nodes" in written


def unlabel(batch: Batch) -> Answer:
    """Of all nodes at once, and of none on which something failed. A node that leaves gets one last label: it shows the next run whose entry
    this was, should this run be killed before the entry is gone."""
    updates = label_updates(batch.hosts, batch)
    return batch.answer(_write(batch, updates, "its labels could not be removed") if updates else True)


def restore(batch: Batch) -> Answer:
    """The nodes return to service with their labels, when the manager shows what was decided. What it does not show is reported at the end
    of the run, and what could not be written is written once more there."""
    began = batch.clock()
    if _restore_at_once(batch):
        return batch.answer()
    # One over which the call hung is not called again: the nodes would be out for twice as long before the next manager is.
    if batch.clock() - began > HANGS_S or not batch.find():
        return batch.answer(False)
    _converge(batch)
    updates = availability_updates(batch.hosts, batch, FORMER, batch.ledger)
    if not updates:
        return batch.answer()
    # A manager that was restarted finds its peers first.
    written = batch.poll(lambda: batch.write(updates), lambda answer: [] if "nodes" in answer else NO_MANAGER, REJOINS_S, batch.say, 1)
    return batch.answer("nodes" in written)


def _restore_at_once(batch: Batch) -> bool:
    """By one call, which is what most batches wait for: the manager itself judges whether it shows what was decided. False where any of the nodes
    is not returned by it, and where something is wrong with one; then each is judged here, by a ledger of this moment."""
    if batch.left != batch.hosts or "nodes" not in batch.ledger:
        return False
    updates = availability_updates(batch.hosts, batch, FORMER, batch.ledger)
    if len(updates) < len(batch.hosts):
        return False
    written = batch.write([{**update, "if_shown": list(decided(batch[update["host"]]).get("resources") or [])} for update in updates])
    return "nodes" in written and not written.get("held_back")


def _converge(batch: Batch) -> None:
    def waits_for(ledger: Answer) -> list[str]:
        return [f"the manager to show {name} as decided" for name in not_converged(batch.hosts, batch, ledger)] if "nodes" in ledger else NO_MANAGER

    if waits_for(dict(batch.ledger)):
        batch.wait(waits_for, CONVERGES_S, 1)


def finish(batch: Batch) -> Answer:
    """Returns to service and labels what is left, and releases the lease. The ledger shows what the fleet is like in the end."""
    if not batch.find():
        return batch.answer(False)
    if batch.lease.get("acquired"):
        for name in batch.left:  # a job may have finished since the plan
            batch.keep([name], State.WAITING, ", ".join(finished_jobs([name], batch, batch.ledger, False, updates_left=True)))
        _remove_jobs(batch, updates_left=True)
    groups = batch.plan["hosts_in"]
    # Labels of a change come next: a clash over one host's would keep all nodes away.
    back = availability_updates(groups.get(MARKED) or [], batch, FORMER, batch.ledger, labels=batch.absent)
    returned = batch.write(back) if back else {}
    labels = label_updates(groups.get(LABEL) or [], batch, batch.ledger, clashes=True)
    last = not (back or batch.absent or batch.checks or not_converged(batch.hosts, batch, batch.ledger))
    labelled = batch.write(labels, **(_with_release(batch) if last else {})) if labels else {}
    refused = [item for answer in (returned, labelled) for item in answer.get("refused") or []]
    unlabelled = labelled.get("msg") or "" if "nodes" not in labelled else ""
    if not (batch.absent or batch.checks):
        if back:
            batch.wait(lambda ledger: [] if "nodes" in ledger else NO_MANAGER, CONVERGES_S, 1)
        _converge(batch)
    if not labelled.get("lease") and (batch.lease or not (batch.absent or batch.checks)):  # a swarm that was made in this run has none
        batch.call("swarm_lease", state="absent", **_of_the_end(batch, refused, unlabelled))
    if batch.absent and not batch.checks:
        batch.ledger = batch.query()
    return {**batch.answer(), "refused": refused, "unlabelled": unlabelled}


def _with_release(batch: Batch) -> dict[str, Any]:
    """The lease is released by the call that writes the labels, where nothing else is left to do. What it notes is how the run ends if all of them
    are written; where one is not, that call leaves the lease."""
    return {"release": batch.me, **_of_the_end(batch, [], "")}


def _of_the_end(batch: Batch, refused: list[dict[str, Any]], unlabelled: str) -> dict[str, Any]:
    """What is kept of this run on the swarm. What it notes is what the report will show, so nothing is waited for after it."""
    noted = {} if batch.absent else _noted(batch, refused, unlabelled)
    level = _isolation(batch)
    return {"outcomes": noted, "always": batch.plan["settings"]["provision_note_run"], **({"isolation": level} if level else {})}


def _isolation(batch: Batch) -> dict[str, Any]:
    """What has become of the levels of nodes, for whoever reads the swarm later. Before the run they were written as it found them."""
    if batch.absent:
        nodes = batch.ledger.get("nodes") or []
        return isolation_label.without((node["id"] for node in nodes if owned_labels.bound_to(node["labels"], LABEL_PREFIX)), batch.ledger)
    now = {}
    for name, step in batch.plan["steps"].items():
        node_id = node_id_of(batch[name], step) if name in batch.hosts and step.get("isolation") else None
        if node_id:
            now[node_id] = isolation.reached(batch[name], step["isolation"])
    planned = batch.plan["isolation"]
    return isolation_label.at_the_end(planned["level"], planned["set"], now, batch.ledger)


def _noted(batch: Batch, refused: list[dict[str, Any]], unlabelled: str) -> dict[str, int]:
    """How many hosts came to which end, for whoever reads the swarm later."""
    steps = batch.plan["steps"]
    when, judged = made({PLAN: batch.plan}), [name for name in steps if name in batch.hosts]
    # One that was lost before the plan has what another playbook of this run left.
    variables = {name: batch[name] if made(batch[name]) == when else {} for name in judged}
    found = Counter((Verdict.FAILED if step.get("error") else Verdict.DONE).value for name, step in steps.items() if name not in variables)
    for name, end in ends({name: steps[name] for name in judged}, variables, batch.ledger, refused, unlabelled).items():
        host = Host(name, gpu=False, manager=False, assessed=dict(decided(variables[name])))
        found[state_of(host, Step(**steps[name]), end).verdict.value] += 1
    return dict(found)


# By the option ``step`` of the module swarm_batch.
STEPS: dict[str, Callable[[Batch], Answer]] = {
    "start": start,
    "acquire": acquire,
    "renew": renew,
    "begin": begin,
    "drain": drain,
    "unlabel": unlabel,
    "restore": restore,
    "finish": finish,
}
