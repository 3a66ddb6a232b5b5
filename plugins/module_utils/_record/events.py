# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds what happened between two readings (pure): compares the former state of the swarm with a reading.

The state is plain data that the record keeps as JSON. A node may lie about itself, so its claims are limited in number and length, and its times
are corrected to the time between the two readings.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Sequence, Tuple

from .._gpu.record import devices_of
from .._guard.refusal import parse_refusal
from .._health.label import FAULT, describe_fault, excluded_gpus
from .._ledger.reading import Reading
from .._placement.availability import ACTIVE, DRAINED, PAUSED
from .._printable import printable
from .._tasks.tasks import ENDED, epoch
from .schema import Event

DOWN, UP = "node-down", "node-up"
NODE_PAUSED, NODE_DRAINED, RETURNED = "node-paused", "node-drained", "node-returned"
FAULT_BEGAN, FAULT_ENDED, CARD_GONE, CARD_BACK = "fault", "fault-ended", "card-gone", "card-back"
LEADER, TWICE, REFUSAL, LOST, RUN, POLICY, GAP = "leader", "allocated-twice", "guard-refusal", "work-lost", "run", "policy", "gap"
_OF_NODES = (DOWN, UP, NODE_PAUSED, NODE_DRAINED, RETURNED, FAULT_BEGAN, FAULT_ENDED, CARD_GONE, CARD_BACK)
KINDS = (*_OF_NODES, LEADER, TWICE, REFUSAL, LOST, RUN, POLICY, GAP)
# Who changed the availability of a node. Docker does not record this. A run and the managers' service leave labels, a person leaves no labels.
BY_RUN, BY_SERVICE, BY_HAND = "run", "service", "hand"

# Limits that no real reading reaches.
MOST_EVENTS, MOST_EVENTS_OF_NODE, MOST_VALUES, MOST_GONE, MOST_PAIRS = 2000, 150, 1000, 64, 200
_LONGEST = 500
# The shortest usual time between two readings of the leader, and the longest of any manager (seconds). More than three times that is a gap.
_LEADER_S, LONGEST_INTERVAL_S, _GAP_INTERVALS = 60, 600, 3

State = Dict[str, Any]
# (service, code) -> (node, sentence) of a task that the guard refused.
Refusals = Dict[Tuple[str, str], Tuple[str, str]]
# The form of the state. A release with another form compares nothing once, instead of beginning a new record.
_FORM = 1


def find_events(former: Mapping[str, Any] | None, reading: Reading, last: int | None) -> tuple[list[Event], State]:
    """Return the events since the last reading, and the state for the next reading. ``former`` is None at the first reading."""
    is_first = former is None or former.get("form") != _FORM
    before: Mapping[str, Any] = {} if is_first else former
    refusals = _refusals(reading)
    state = _state(reading, before, refusals)
    found = _Found(int(reading.at), last, before, state, is_first)
    # First the events whose number a node cannot choose.
    of_swarm = [*_of_runs(found), *_of_leader(found), *_of_double_allocations(found, reading), *_of_refusals(found, refusals)]
    events = [*of_swarm, *_of_lost_work(found, reading), *_of_nodes(found, reading)][:MOST_EVENTS]
    return [event._replace(text=printable(event.text)[:_LONGEST]) for event in events], state


def gap(at: int, last: int | None, interval: int | None, leads: bool) -> Event | None:
    """Return an event if nothing was read for much longer than usual. ``interval`` is the time between the last two readings; None if unknown."""
    usual = max(interval, _LEADER_S) if leads and interval is not None else LONGEST_INTERVAL_S
    if last is None or at - last <= _GAP_INTERVALS * usual:
        return None
    text = "this manager read nothing for %s. What began and ended meanwhile may be missing, and some times are estimated" % _duration(at - last)
    return Event(at, last, GAP, "", "", "", "", text)


def _duration(seconds: int) -> str:
    for unit, size in (("days", 86400), ("hours", 3600)):
        if seconds >= 2 * size:
            return "%d %s" % (seconds // size, unit)
    return "%d minutes" % (seconds // 60)


class _Found(NamedTuple):
    """The time of the reading and of the last reading, and the states of both."""

    at: int
    last: int | None
    before: Mapping[str, Any]
    now: State
    is_first: bool

    def between(self, claimed: float | None) -> int:
        """Return a claimed time, corrected to the time between the two readings."""
        earliest = self.at if self.last is None else min(self.last, self.at)
        return self.at if claimed is None else int(min(max(claimed, earliest), self.at))

    def event(self, what: str, text: str, node: str = "", cause: str = "", card: str = "", since: float | None = None) -> Event:
        known = self.now["nodes"].get(node) or self.before.get("nodes", {}).get(node) or {}
        hostname = known.get("hostname", "")
        return Event(self.at, self.between(since), what, node, hostname, card[:_LONGEST], cause[:_LONGEST], text)


# -- the state -------------------------------------------------------------------------------------------------------


def _state(reading: Reading, before: Mapping[str, Any], refusals: Refusals) -> State:
    ledger, swarm = reading.ledger, reading.ledger.get("swarm") or {}
    leader = next((record["id"] for record in ledger["nodes"] if record["leader"]), None)
    lease, run = swarm.get("lease") or {}, swarm.get("last_run") or {}
    formerly = before.get("nodes") or {}
    nodes = {record["id"]: _node_state(record, formerly.get(record["id"]) or {}) for record in ledger["nodes"]}
    return {
        "form": _FORM,
        "nodes": nodes,
        "leader": leader or before.get("leader"),  # during an election there is none
        "twice": sorted(_double_key(clash) for clash in ledger.get("held_twice") or ())[:MOST_PAIRS],
        "refusals": sorted([service, code] for service, code in refusals)[:MOST_PAIRS],
        "lost": sorted(_lost_work(reading))[:MOST_PAIRS],
        "holder": str(lease.get("holder") or ""),
        "run": {"ended": run.get("ended"), "hosts": run.get("hosts") or {}} if run else None,
        "playbook": _playbook(nodes, before),
    }


def _playbook(nodes: Mapping[str, State], before: Mapping[str, Any]) -> str:
    """Return the playbook that marked a node last. A run notes its end without the name of its playbook."""
    former = before.get("nodes") or {}
    marked = [now["playbook"] for node_id, now in nodes.items() if now["playbook"] != (former.get(node_id) or {}).get("playbook", "")]
    return next(filter(None, marked), before.get("playbook") or "")


def _node_state(record: Mapping[str, Any], former: Mapping[str, Any]) -> State:
    health = record.get("health") or {}
    # A new leader reports a node as unknown until the node connects to this leader. So keep the node's former state.
    state = former.get("state", record["state"]) if record["state"] == "unknown" else record["state"]
    kinds = {kind: entry["total"] if entry["values"] is None else entry["values"][:MOST_VALUES] for kind, entry in record["resources"].items()}
    return {
        "hostname": record["hostname"],
        "state": state,
        "availability": record["availability"],
        "by": _set_by(record),
        "playbook": record.get("set_by") or "",
        "fault": [health.get("card"), health.get("reason"), health.get("xid")] if health.get("state") == FAULT else None,
        "kinds": {kind: value for kind, value in list(kinds.items())[:MOST_VALUES] if value},
    }


def _set_by(record: Mapping[str, Any]) -> str:
    if not record.get("set_by_run"):
        return BY_HAND
    # The managers' service pauses for a fault only, and does not name a playbook.
    return BY_SERVICE if record.get("paused_for") and not record.get("set_by") else BY_RUN


# -- nodes -----------------------------------------------------------------------------------------------------------


def _of_nodes(found: _Found, reading: Reading) -> Iterator[Event]:
    before: Mapping[str, Any] = found.before.get("nodes") or {}
    for record in reading.ledger["nodes"]:
        former, now = before.get(record["id"]) or {}, found.now["nodes"][record["id"]]
        changed = None if record.get("unchanged_for") is None else found.at - record["unchanged_for"]
        if not former and not found.is_first:
            yield found.event(UP, "joined the swarm", record["id"], "joined", since=changed)
        if former:
            yield from _of_state(found, record["id"], former, now, changed)
            yield from _of_availability(found, record, former, now, changed)
        yield from _of_fault(found, record, former, now)
        if former:
            yield from islice(_of_resources(found, record, former, now), MOST_EVENTS_OF_NODE)
    for node_id in before:
        if node_id not in found.now["nodes"]:
            yield found.event(DOWN, "left the swarm", node_id, "left")


def _of_state(found: _Found, node_id: str, former: State, now: State, changed: float | None) -> Iterator[Event]:
    if (former["state"] == "ready") != (now["state"] == "ready"):
        what = UP if now["state"] == "ready" else DOWN
        yield found.event(what, "is %s (was %s)" % (now["state"], former["state"]), node_id, str(now["state"]), since=changed)


def _of_availability(found: _Found, record: Mapping[str, Any], former: State, now: State, changed: float | None) -> Iterator[Event]:
    if former["availability"] == now["availability"]:
        return
    if now["availability"] == ACTIVE:
        # Only a run removes the mark of a pause by a run or by the service.
        by = BY_RUN if former["by"] != BY_HAND and not record.get("former_availability") else BY_HAND
        yield found.event(RETURNED, "returned to service by %s" % _who(by, former["playbook"]), record["id"], by, since=changed)
        return
    what = {PAUSED: NODE_PAUSED, DRAINED: NODE_DRAINED}.get(now["availability"])
    if what:
        text = "%s by %s" % (what.partition("-")[2], _who(now["by"], now["playbook"]))
        reason = " for a fault: %s" % describe_fault(record["paused_for"]) if record.get("paused_for") else ""
        yield found.event(what, text + reason, record["id"], now["by"], since=changed)


def _who(by: str, playbook: str) -> str:
    return {BY_RUN: playbook or "a run", BY_SERVICE: "the managers' service"}.get(by, "hand")


def _of_fault(found: _Found, record: Mapping[str, Any], former: State, now: State) -> Iterator[Event]:
    old, new = former.get("fault"), now["fault"]
    if old == new:
        return
    if old:
        yield found.event(FAULT_ENDED, "reports the fault no more: %s" % _describe_fault(old), record["id"], _cause(old), old[0] or "")
    if new:
        since = record["health"].get("since")
        text = "reports a fault: %s%s" % (record["health"].get("text") or _describe_fault(new), ", since %s" % since if since else "")
        yield found.event(FAULT_BEGAN, text, record["id"], _cause(new), new[0] or "", epoch(since))


def _cause(fault: Sequence[Any]) -> str:
    _card, reason, xid = fault
    return "xid %s" % xid if xid is not None else reason or ""


def _describe_fault(fault: Sequence[Any]) -> str:
    return " ".join(filter(None, [fault[0], _cause(fault)]))


# -- what a node advertises ------------------------------------------------------------------------------------------


def _of_resources(found: _Found, record: Mapping[str, Any], former: State, now: State) -> Iterator[Event]:
    """Find cards that are gone or back, and other changes of what the node advertises. A card that failed is no change of the policy."""
    gone = now["gone"] = former.get("gone") or []
    if former["kinds"] == now["kinds"]:
        return
    before, after = _devices(former["kinds"]), _devices(now["kinds"])
    excluded = {label.card: label for label in excluded_gpus(record["labels"]) if label.card}
    keeps_kinds = set(now["kinds"]) in (set(former["kinds"]), set())
    lost = [card for card in before if card not in after and (keeps_kinds or card in excluded)]
    back = [card for card in gone if card in after]
    now["gone"] = [card for card in dict.fromkeys([*gone, *lost]) if card not in after][-MOST_GONE:]
    for card in lost:
        reason = ": %s" % excluded[card].reason if card in excluded and excluded[card].reason else ""
        yield found.event(CARD_GONE, "is no longer advertised%s" % reason, record["id"], "excluded" if card in excluded else "", card)
    for card in back:
        yield found.event(CARD_BACK, "is advertised again", record["id"], "", card)
    others = {*lost, *back}
    if _without(former["kinds"], others) != _without(now["kinds"], others):
        text = "advertises %s instead of %s" % (_describe(now["kinds"]), _describe(former["kinds"]))
        yield found.event(POLICY, text, record["id"], _describe(now["kinds"]))


def _devices(kinds: Mapping[str, Any]) -> dict[str, None]:
    """Return the cards in these values, in their order."""
    values = (value for entry in kinds.values() if isinstance(entry, list) for value in entry)
    return {device: None for value in values for device in devices_of(value) if device.startswith(("GPU-", "MIG-"))}


def _without(kinds: Mapping[str, Any], cards: set[str]) -> State:
    amounts = {kind: entry for kind, entry in kinds.items() if not isinstance(entry, list)}
    named = {kind: entry for kind, entry in kinds.items() if isinstance(entry, list)}
    kept = {kind: sorted(value for value in values if cards.isdisjoint(devices_of(value))) for kind, values in named.items()}
    return {**amounts, **{kind: values for kind, values in kept.items() if values}}


def _describe(kinds: Mapping[str, Any]) -> str:
    return ", ".join("%s %d" % (kind, len(entry) if isinstance(entry, list) else entry) for kind, entry in sorted(kinds.items())[:10]) or "nothing"


# -- the swarm -------------------------------------------------------------------------------------------------------


def _of_leader(found: _Found) -> Iterator[Event]:
    old, new = found.before.get("leader"), found.now["leader"]
    if old and new and old != new:
        former = (found.before["nodes"].get(old) or {}).get("hostname") or old
        yield found.event(LEADER, "leads the swarm instead of %s" % former, new)


def _double_key(clash: Mapping[str, Any]) -> list[str]:
    return [clash["node"], clash["kind"], clash["value"] or "", "+".join(sorted(holder["task_id"] for holder in clash["holders"]))]


def _of_double_allocations(found: _Found, reading: Reading) -> Iterator[Event]:
    known, names = found.before.get("twice") or [], {}
    for clash in reading.ledger.get("held_twice") or ():
        names[tuple(_double_key(clash))] = " and ".join(holder["name"] for holder in clash["holders"])
    for key in found.now["twice"]:
        if key not in known:
            node, kind, value, tasks = key
            yield found.event(TWICE, "%s %s is allocated to %s" % (kind, value, names[tuple(key)]), node, tasks, devices_of(value)[0])


def _refusals(reading: Reading) -> Refusals:
    """Return the guard's refusals that the manager still lists."""
    services = {service["ID"]: service["Spec"]["Name"] for service in reading.services}
    found: Refusals = {}
    for task in reading.tasks:
        error = task["Status"].get("Err") or ""
        refusal = parse_refusal(error) if task["Status"]["State"] in ENDED and "gpu-swarm: " in error else None
        if refusal:
            service = services.get(task.get("ServiceID"), task.get("ServiceID") or "")
            found.setdefault((service, refusal.code), (task.get("NodeID") or "", refusal.text))
    return found


def _of_refusals(found: _Found, refusals: Refusals) -> Iterator[Event]:
    known = found.before.get("refusals") or []
    for service, code in found.now["refusals"]:
        if [service, code] not in known:
            node, sentence = refusals[service, code]
            yield found.event(REFUSAL, "the guard refused a task of %s (%s): %s" % (service, code, sentence), node, "%s %s" % (code, service))


def _lost_work(reading: Reading) -> dict[str, Mapping[str, Any]]:
    """Return the work of queues that was lost with its node, by name of the service."""
    return {row["service"]: row for row in (reading.ledger.get("queue") or {}).get("work") or () if row["state"] == "lost"}


def _of_lost_work(found: _Found, reading: Reading) -> Iterator[Event]:
    known, work = found.before.get("lost") or [], _lost_work(reading)
    ids = {record["hostname"]: record["id"] for record in reading.ledger["nodes"]}
    for service in found.now["lost"]:
        if service not in known:
            row = work[service]
            text = "%s of the queue %s is lost, because %s does not answer" % (service, row["queue"], row["node"])
            yield found.event(LOST, text, ids.get(row["node"], ""), service)


def _of_runs(found: _Found) -> Iterator[Event]:
    run, former = found.now["run"], found.before.get("run")
    if found.is_first or run == former:
        return
    holder = found.before.get("holder") or found.now["holder"]
    by = " by %s" % holder.partition(" pid ")[0] if holder else ""
    playbook = found.now["playbook"]
    found.now["playbook"] = ""  # the next run may be of another playbook
    if not run:  # deprovision removes the note of the last run, and notes nothing
        yield found.event(RUN, "deprovision%s ended" % by, "", "deprovision")
        return
    hosts = ", ".join("%s %s" % (count, outcome) for outcome, count in sorted(run["hosts"].items()) if count) or "no host"
    yield found.event(RUN, "%s%s ended: %s" % (playbook or "a run", by, hosts), "", playbook, since=epoch(run["ended"]))
