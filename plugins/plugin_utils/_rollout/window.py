# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps of a window, as a manager carries them out for a batch of hosts, and what decides whether these may be changed.

Each step is one call, with an outcome for each host that does not get through it. It says whether its manager ``answered``. Where it did not, the
same step is carried out by the next one, so that each can be done twice. The decisions are pure.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils._ledger.shown import difference
from .._fleet.model import Step
from .._fleet.outcome import BAD, State
from .._fleet.room import Room, newly_pending
from .._fleet.workload import TASKS
from .._settings.declaration import ALL
from .batch import NO_MANAGER, Answer, Batch
from .manager_updates import DRAIN, FORMER, PAUSE, availability_updates, finished_jobs, label_updates, not_converged
from .member import View
from .refused_evictions import NO_REASON, not_written
from .run_lease import is_due, lease_blocker

# For so long a manager may take to show what a restarted dockerd advertises, and to find its peers again.
CONVERGES_S, REJOINS_S = 60, 15
# A call that took longer hung: an answer takes seconds, and an election that is awaited in it 20.
HANGS_S = 120
# For so long tasks that were moved may wait for a place, whatever provision_wait is.
SETTLE_S = (10, 30)
# The longest time for which a call says nothing: firewalls on the way forget an idle connection after minutes. No setting, and none's
# default: whoever gives tasks more time to end gets no longer silence.
LONGEST_SILENCE_S = 120

# -- emptied -----------------------------------------------------------------------------------------------------------


def begin(batch: Batch) -> Answer:
    """No new tasks for the hosts that may be changed now; then it waits for those that must not be stopped there."""
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
        batch.know({"msg": batch.ledger.get("msg")})  # counts as lost
    plan = batch.plan
    blocker = rollout_blocker(batch.view(plan["to_change"]), plan["rooms"], plan["settings"]["provision_max_failed"])
    batch.keep(batch.hosts, State.UNTOUCHED, blocker or lease_blocker(batch.lease))
    managers = plan["hosts_in"].get("gpu_swarm_window_managers") or []
    for name in batch.left:
        if name in managers:
            batch.keep([name], State.UNTOUCHED, manager_blocker(name, batch.view(managers)))
    return batch.answer(answered)


def _settle(batch: Batch) -> bool:
    # A roll that was stopped is not waited for by every batch that is left.
    outcomes = [batch.member(name).outcome for name in batch.plan["to_change"]]
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
    written = batch.write(availability_updates(batch.view_by(None), PAUSE))
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
        return batch.view_by(ledger).blocking(containers=[]) if "nodes" in ledger else []

    end = batch.clock() + batch.longest("provision_wait")
    answer, last = batch.wait(waits_for, batch.longest("provision_wait")), batch.ledger
    while "nodes" not in answer and batch.find():
        answer, last = batch.wait(waits_for, max(0.0, end - batch.clock())), batch.ledger
    batch.ledger = last
    return answer


def drain(batch: Batch) -> Answer:
    """Hosts on which something must end first wait. Of the others swarm starts the rest elsewhere, while this run has the lease."""
    for name in batch.left:
        view = batch.view([name])
        # What ended meanwhile may be a job that would run again.
        batch.keep([name], State.WAITING, ", ".join(view.blocking() + finished_jobs(view, remove=False)))
    answered = _renew_if_due(batch) and remove_jobs(batch)
    updates = availability_updates(batch.view(batch.left), DRAIN) if answered else []
    if updates:
        answered = _write(batch, updates, "it could not be drained")
    drained = {update["id"] for update in updates}
    return {**batch.answer(answered), "drained": [member.name for member in batch.view(batch.left) if member.node_id in drained]}


def restart_waits(step: Step, drain_timeout_s: int, maintain: bool) -> int:
    """For how long the call that restarts dockerd waits for the drain. Where that is all that is to be done there, the node is out for less
    long than with a task of its own before it."""
    return 0 if maintain or "toolkit" in step.needs or drain_timeout_s > LONGEST_SILENCE_S else drain_timeout_s


def _renew_if_due(batch: Batch) -> bool:
    """Before a drain, which two runs must not do at once: what was waited for may have taken long, and a drain may take its time too."""
    drain_s = batch.longest("provision_drain_timeout")
    if not batch.left or not is_due(batch.lease, batch.ledger, batch.clock() + drain_s):
        return True
    return _renew(batch, State.UNTOUCHED)


def renew(batch: Batch) -> Answer:
    """The lease, within maintenance: without it, nobody knows what state that has left the nodes in."""
    return batch.answer(_renew(batch, State.OUT))


def _renew(batch: Batch, lost: State) -> bool:
    """What another run has had since is left as it is: it may have changed these nodes, or be about to. ``lost`` is what the hosts are then."""
    since = batch.lease.get("since")
    answered = batch.acquire()
    batch.keep(batch.hosts, lost, lease_blocker(batch.lease, since), leave_paused=True)
    return answered


def remove_jobs(batch: Batch, updates_left: bool = False) -> bool:
    """With the user's consent (provision_remove_finished_jobs) those that an update of their nodes would run again."""
    jobs = finished_jobs(batch.view(batch.left), True, updates_left)
    if not jobs:
        return True
    pruned = batch.call("swarm_job_prune", services=jobs)
    why = ", ".join(item["reason"] for item in pruned.get("kept") or []) or pruned.get("msg") or "the manager did not answer"
    for name in batch.left:
        of_host = finished_jobs(batch.view([name]), True, updates_left)
        left = [f"job {job}" for job in of_host if job not in (pruned.get("removed") or [])]
        batch.keep([name], State.WAITING, f"{', '.join(left)} could not be removed: {why}" if left else "")
    return "removed" in pruned


def _write(batch: Batch, updates: list[dict[str, Any]], what: str) -> bool:
    written = batch.write(updates)
    for member in batch.view(batch.left):
        missed = not_written(written, member.node_id or "", what)
        if missed:
            batch.keep([member.name], State(missed["state"]), missed["reason"])
    return "nodes" in written


def unlabel(batch: Batch) -> Answer:
    """Of all nodes at once, and of none on which something failed. A node that leaves gets one last label: it shows the next run whose entry
    this was, should this run be killed before the entry is gone."""
    updates = label_updates(batch.view_by(None))
    return batch.answer(_write(batch, updates, "its labels could not be removed") if updates else True)


# -- back in service --------------------------------------------------------------------------------------------------


def restore(batch: Batch) -> Answer:
    """The nodes return to service with their labels, when the manager shows what was decided. What it does not show is reported at the end
    of the run, and what could not be written is written once more there."""
    began = batch.clock()
    if _restore_at_once(batch):
        return batch.answer()
    # One over which the call hung is not called again: the nodes would be out for twice as long before the next manager is.
    if batch.clock() - began > HANGS_S or not batch.find():
        return batch.answer(False)
    converge(batch)
    updates = availability_updates(batch.view(), FORMER)
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
    updates = availability_updates(batch.view(), FORMER)
    if len(updates) < len(batch.hosts):
        return False
    written = batch.write([{**update, "if_shown": list(batch.member(update["host"]).decided.get("resources") or [])} for update in updates])
    return "nodes" in written and not written.get("held_back")


def converge(batch: Batch) -> None:
    def waits_for(ledger: Answer) -> list[str]:
        return [f"the manager to show {name} as decided" for name in not_converged(batch.view_by(ledger))] if "nodes" in ledger else NO_MANAGER

    if waits_for(dict(batch.ledger)):
        batch.wait(waits_for, CONVERGES_S, 1)


# -- whether a host may be changed (pure) ------------------------------------------------------------------------------


def rollout_blocker(view: View, before: Mapping[str, Room] | None, max_failed: int) -> str:
    """Why no further host may be changed now, or ''.

    ``view`` has all hosts of the run. ``before`` has the services that had room when the run began (of rooms()), None where the run takes the room
    away for good.
    """
    bad = _gone_wrong(view)
    if bad and len(bad) >= max_failed:
        return f"its turn did not come, since {', '.join(bad)} failed. Fix that and run this again."
    ledger = view.ledger or {}
    if "nodes" not in ledger:
        reason = ledger.get("msg") or "none of them answered"
        return f"its turn did not come, since no manager could be queried about the swarm ({reason}). Fix that and run this again."
    new = newly_pending(ledger, before)
    if new:
        named = ", ".join(new[:5]) + (", …" if len(new) > 5 else "")
        return f"its turn did not come, since tasks find no room that had some when this run began: {named}. Make room for them, and run this again."
    return ""


def _gone_wrong(view: View) -> list[str]:
    """The hosts that failed, and those that were changed and whose nodes the manager does not show as decided."""
    wrong = []
    for member in view:
        node = member.node if member.applied and not member.outcome else None
        if (member.outcome and member.outcome.state in BAD) or (node and (node["state"] != "ready" or difference(member.applied, node))):
            wrong.append(member.name)
    return wrong


def manager_blocker(name: str, view: View) -> str:
    """Why this manager must not be taken out now, or ''. ``view`` has the managers that this run changes, ``name`` among them.

    A swarm of one or two managers stands still during a restart in any case. From three managers on it must not.
    """
    for other in view:
        if other.name != name and other.outcome and other.outcome.state in BAD:
            return f"left alone, since the change of the manager {other.name} failed. Fix that and run this again."
    managers = [node for node in view.nodes.values() if node["role"] == "manager"]
    if not managers:
        reason = (view.ledger or {}).get("msg") or "it gave no list of nodes"
        return f"left alone: no manager could be queried who else runs the swarm ({reason}). Fix that and run this again."
    own_ids = [member.node_id for member in view if member.name == name]
    up = [node for node in managers if node["reachability"] == "reachable" and node["id"] not in own_ids]
    if len(managers) > 2 and len(up) <= len(managers) // 2:
        return (
            f"left alone: without it {len(up)} of {len(managers)} managers could be reached, too few to run the swarm. "
            "Bring the other managers back and run this again."
        )
    return ""


def not_emptied(step: Step, answer: Mapping[str, Any], remedy: str) -> str:
    """Why nothing may be done on a node that was drained, or '', by the ``answer`` of gpu_node. What could not be read is not nothing."""
    if "containers" not in answer:
        reason = answer.get("msg") or "no reason given"
        return f"the node was drained, and what still runs there could not be read ({reason}). Nothing was changed. Run this again."
    # Where only the membership ends, what was started by hand runs on, unless it is on a network of the swarm.
    counts = [item for item in answer["containers"] if step.work.stops != TASKS or item["service"] or item.get("swarm_networks")]
    left = [] if step.work.disrupt == ALL else [item["name"] for item in counts]
    return f"{', '.join(left)} still runs here. {remedy}, then run this again." if left else ""
