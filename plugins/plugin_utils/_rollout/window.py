# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps of a window for a batch of hosts, and the checks whether these hosts may be changed.

A step is one call of the action swarm_batch on one manager. It returns whether the manager ``answered``, and an outcome for each host that the run
does not continue with. If the manager did not answer, the run repeats the step on the next manager, so each step may be done twice. The last
functions only decide and are pure.
Private to this collection; it may change without notice.
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

# How long a manager may take to show what a restarted dockerd advertises, and to find its peers again (seconds).
CONVERGES_S, REJOINS_S = 60, 15
# A call that takes longer than this hangs (seconds). An answer takes a few seconds, an election 20.
HANGS_S = 120
# How long moved tasks may wait for a place: provision_wait, but no less and no more than these limits (seconds).
SETTLE_S = (10, 30)
# How long a connection may be silent (seconds). Firewalls forget an idle connection after minutes. Not configurable: a longer drain time-out does
# not make a longer silence safe.
LONGEST_SILENCE_S = 120

# -- taking hosts out of service ---------------------------------------------------------------------------------------


def begin(batch: Batch) -> Answer:
    """Pause the hosts that may be changed now, and wait for tasks that must not be stopped there."""
    answer = may_begin(batch)
    if answer["answered"]:
        return pause(batch)
    # Do not change these hosts. The next batches check again who has the lease.
    del answer["lease"]
    return answer


def may_begin(batch: Batch) -> Answer:
    """Decide which of these hosts may be changed now. Before this, give tasks that the previous batch moved time to start on other nodes."""
    answered = batch.read_ledger() and _settle(batch) and batch.acquire()
    if "nodes" not in batch.ledger:
        batch.set_lease({"msg": batch.ledger.get("msg")})  # without an answer, the lease counts as lost
    plan = batch.plan
    blocker = rollout_blocker(batch.view(plan["to_change"]), plan["rooms"], plan["settings"]["provision_max_failed"])
    batch.give_outcome(batch.hosts, State.UNTOUCHED, blocker or lease_blocker(batch.lease))
    managers = plan["hosts_in"].get("gpu_swarm_window_managers") or []
    for name in batch.remaining:
        if name in managers:
            batch.give_outcome([name], State.UNTOUCHED, manager_blocker(name, batch.view(managers)))
    return batch.answer(answered)


def _settle(batch: Batch) -> bool:
    # After a rollout was stopped, the remaining batches do not wait.
    outcomes = [batch.member(name).outcome for name in batch.plan["to_change"]]
    if any(outcome and outcome.state is State.UNTOUCHED for outcome in outcomes):
        return True

    def waits_for(ledger: Answer) -> list[str]:
        return newly_pending(ledger, batch.plan["rooms"]) if "nodes" in ledger else NO_MANAGER

    if waits_for(dict(batch.ledger)):
        batch.wait(waits_for, min(SETTLE_S[1], max(SETTLE_S[0], batch.longest("provision_wait"))), 1)
    return True


def pause(batch: Batch) -> Answer:
    """Pause the nodes, then wait for tasks that must not be stopped. Pause a node before it is inspected again. Otherwise the scheduler could place
    work on the node between the inspection and the change.
    """
    if not batch.remaining:
        return batch.answer()
    written = batch.write(availability_updates(batch.view_by(None), PAUSE))
    if "nodes" not in written:
        batch.give_outcome(batch.hosts, State.FAILED, f"it could not be paused: {written.get('msg') or NO_REASON}")
        return batch.answer(False)
    answer = _await_tasks(batch)
    if "nodes" not in answer:
        batch.give_outcome(batch.hosts, State.FAILED, f"the manager did not say what runs here: {answer.get('msg') or 'no reason given'}")
    return batch.answer("nodes" in answer)


def _await_tasks(batch: Batch) -> Answer:
    """Wait, and return the manager's last answer. A wait may take hours. So if a manager fails once, query it again before the run uses another
    manager.
    """

    def waits_for(ledger: Answer) -> list[str]:
        return batch.view_by(ledger).blocking(containers=[]) if "nodes" in ledger else []

    end = batch.clock() + batch.longest("provision_wait")
    answer, last = batch.wait(waits_for, batch.longest("provision_wait")), batch.ledger
    while "nodes" not in answer and batch.read_ledger():
        answer, last = batch.wait(waits_for, max(0.0, end - batch.clock())), batch.ledger
    batch.ledger = last
    return answer


def drain(batch: Batch) -> Answer:
    """Drain the nodes if this run still has the lease. Swarm then moves their tasks. If work on a host must end first, the host waits."""
    for name in batch.remaining:
        view = batch.view([name])
        # A job may have finished in the meantime, and the update would run it again.
        batch.give_outcome([name], State.WAITING, ", ".join(view.blocking() + finished_jobs(view, remove=False)))
    answered = _renew_if_due(batch) and remove_jobs(batch)
    updates = availability_updates(batch.view(batch.remaining), DRAIN) if answered else []
    if updates:
        answered = _write(batch, updates, "it could not be drained")
    drained = {update["id"] for update in updates}
    return {**batch.answer(answered), "drained": [member.name for member in batch.view(batch.remaining) if member.node_id in drained]}


def restart_waits(step: Step, drain_timeout_s: int, maintain: bool) -> int:
    """Return how long the call that restarts dockerd waits for the drain (seconds). 0: a separate task waits.

    If only dockerd is changed, the call itself waits, because the node is then out of service for a shorter time than with a separate task.
    """
    return 0 if maintain or "toolkit" in step.needs or drain_timeout_s > LONGEST_SILENCE_S else drain_timeout_s


def _renew_if_due(batch: Batch) -> bool:
    """Renew the lease before a drain if its renewal would be due during the drain. Two runs must not drain at the same time."""
    drain_s = batch.longest("provision_drain_timeout")
    if not batch.remaining or not is_due(batch.lease, batch.ledger, batch.clock() + drain_s):
        return True
    return _renew(batch, State.UNTOUCHED)


def renew(batch: Batch) -> Answer:
    """Renew the lease during a maintenance. If the lease is lost, nobody knows in which state the maintenance has left the nodes."""
    return batch.answer(_renew(batch, State.OUT))


def _renew(batch: Batch, state_if_lost: State) -> bool:
    """Renew the lease. If another run took the lease, give the hosts ``state_if_lost`` and do not change them, because the other run
    may change them.
    """
    since = batch.lease.get("since")
    answered = batch.acquire()
    batch.give_outcome(batch.hosts, state_if_lost, lease_blocker(batch.lease, since), leave_paused=True)
    return answered


def remove_jobs(batch: Batch, updates_left: bool = False) -> bool:
    """With the user's consent (provision_remove_finished_jobs), remove finished jobs that an update of their nodes would run again."""
    jobs = finished_jobs(batch.view(batch.remaining), True, updates_left)
    if not jobs:
        return True
    pruned = batch.call("swarm_job_prune", services=jobs)
    reason = ", ".join(item["reason"] for item in pruned.get("kept") or []) or pruned.get("msg") or "the manager did not answer"
    for name in batch.remaining:
        jobs_of_host = finished_jobs(batch.view([name]), True, updates_left)
        remaining = [f"job {job}" for job in jobs_of_host if job not in (pruned.get("removed") or [])]
        batch.give_outcome([name], State.WAITING, f"{', '.join(remaining)} could not be removed: {reason}" if remaining else "")
    return "removed" in pruned


def _write(batch: Batch, updates: list[dict[str, Any]], prefix: str) -> bool:
    written = batch.write(updates)
    for member in batch.view(batch.remaining):
        outcome = not_written(written, member.node_id or "", prefix)
        if outcome:
            batch.give_outcome([member.name], State(outcome["state"]), outcome["reason"])
    return "nodes" in written


def unlabel(batch: Batch) -> Answer:
    """Remove the labels of all nodes at once, except of nodes on which something failed.

    A node that leaves gets one last label. If this run is killed before the node's entry is removed, the label shows the next run to which host the
    entry belongs.
    """
    updates = label_updates(batch.view_by(None))
    return batch.answer(_write(batch, updates, "its labels could not be removed") if updates else True)


# -- returning hosts to service ----------------------------------------------------------------------------------------


def restore(batch: Batch) -> Answer:
    """Return the nodes to service with their labels after the manager shows the decision. The end of the run reports nodes that do not return, and
    repeats updates that fail in this step.
    """
    started_at = batch.clock()
    if _restore_at_once(batch):
        return batch.answer()
    # If the call hung, do not call this manager again: the nodes would be out of service for twice as long.
    if batch.clock() - started_at > HANGS_S or not batch.read_ledger():
        return batch.answer(False)
    converge(batch)
    updates = availability_updates(batch.view(), FORMER)
    if not updates:
        return batch.answer()
    # A restarted manager must find its peers first.
    written = batch.poll(lambda: batch.write(updates), lambda answer: [] if "nodes" in answer else NO_MANAGER, REJOINS_S, batch.say, 1)
    return batch.answer("nodes" in written)


def _restore_at_once(batch: Batch) -> bool:
    """Return all nodes to service with one call, in which the manager checks that it shows the decision. For most batches this is enough.

    Return False if a node was held back or has a problem. Then the caller checks each node with a new ledger.
    """
    if batch.remaining != batch.hosts or "nodes" not in batch.ledger:
        return False
    updates = availability_updates(batch.view(), FORMER)
    if len(updates) < len(batch.hosts):
        return False
    written = batch.write([{**update, "if_shown": list(batch.member(update["host"]).decided.get("resources") or [])} for update in updates])
    return "nodes" in written and not written.get("held_back")


def converge(batch: Batch) -> None:
    """Wait until the manager shows the decision."""
    def waits_for(ledger: Answer) -> list[str]:
        return [f"the manager to show {name} as decided" for name in not_converged(batch.view_by(ledger))] if "nodes" in ledger else NO_MANAGER

    if waits_for(dict(batch.ledger)):
        batch.wait(waits_for, CONVERGES_S, 1)


# -- whether a host may be changed (pure) ------------------------------------------------------------------------------


def rollout_blocker(view: View, rooms_before: Mapping[str, Room] | None, max_failed: int) -> str:
    """Return why no further host may be changed now, or ''.

    ``view`` has all hosts of the run. ``rooms_before`` is the result of rooms() when the run began, None if the nodes leave the swarm for good.
    """
    failed = _failed_hosts(view)
    if failed and len(failed) >= max_failed:
        return f"the run stopped before this node, because {', '.join(failed)} failed. Fix that and run this again."
    ledger = view.ledger or {}
    if "nodes" not in ledger:
        reason = ledger.get("msg") or "none of them answered"
        return f"the run stopped before this node, because no manager could be queried about the swarm ({reason}). Fix that and run this again."
    without_room = newly_pending(ledger, rooms_before)
    if without_room:
        named = ", ".join(without_room[:5]) + (", …" if len(without_room) > 5 else "")
        return (
            f"the run stopped before this node, because some tasks had room when this run began and have no room now: {named}. "
            "Make room for them, and run this again."
        )
    return ""


def _failed_hosts(view: View) -> list[str]:
    """Return the hosts that failed, and the changed hosts for which the manager does not show the decision."""
    failed = []
    for member in view:
        node = member.node if member.applied and not member.outcome else None
        if (member.outcome and member.outcome.state in BAD) or (node and (node["state"] != "ready" or difference(member.applied, node))):
            failed.append(member.name)
    return failed


def manager_blocker(name: str, view: View) -> str:
    """Return why this manager must not be taken out of service now, or ''. ``view`` has the managers that this run changes, including ``name``.

    A swarm with one or two managers always stops working during a restart. With three or more managers, it must continue to work.
    """
    for other in view:
        if other.name != name and other.outcome and other.outcome.state in BAD:
            return f"left alone, because the change of the manager {other.name} failed. Fix that and run this again."
    managers = [node for node in view.nodes.values() if node["role"] == "manager"]
    if not managers:
        reason = (view.ledger or {}).get("msg") or "its answer has no list of nodes"
        return f"left alone: no manager could be queried about the other managers ({reason}). Fix that and run this again."
    own_ids = [member.node_id for member in view if member.name == name]
    reachable = [node for node in managers if node["reachability"] == "reachable" and node["id"] not in own_ids]
    if len(managers) > 2 and len(reachable) <= len(managers) // 2:
        return (
            f"left alone: without this manager, only {len(reachable)} of {len(managers)} managers would be reachable, too few to run the swarm. "
            "Bring the other managers back and run this again."
        )
    return ""


def not_empty_reason(step: Step, answer: Mapping[str, Any], remedy: str) -> str:
    """Return why a drained node is not empty, or ''. ``answer`` is the answer of gpu_node. If the containers could not be read, the node is not
    empty."""
    if "containers" not in answer:
        reason = answer.get("msg") or "no reason given"
        return f"the node was drained, but its containers could not be read ({reason}). Nothing was changed. Run this again."
    # If only the membership ends, containers that were started by hand keep running, unless they use a network of the swarm.
    running = [item for item in answer["containers"] if step.work.stops != TASKS or item["service"] or item.get("swarm_networks")]
    remaining = [] if step.work.disrupt == ALL else [item["name"] for item in running]
    return f"{', '.join(remaining)} still runs here. {remedy}, then run this again." if remaining else ""
