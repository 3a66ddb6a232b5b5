# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which run may change a swarm now: a lease in a label of the swarm itself. It ends by the clock of the swarm's leader.

Clocks of managers may differ by hours. The leader stamps each update of the swarm (UpdatedAt; swarmkit manager/state/store/memory.go, touchMeta), so
an update that is written and read back shows the leader's time, whichever manager is called.

Decides what happens to a lease (pure), and writes it by versioned updates, so that only one of two runs gets it.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import calendar
import json
import re
import time
from typing import Any, Mapping, NamedTuple

from . import isolation
from .isolation import Isolation
from .manager import Manager, OutOfSequence, SwarmError, until_written

LABEL = "gpu-swarm.lease"
LAST_RUN = "gpu-swarm.last-run"  # the result of the run that released its lease last


class Lease(NamedTuple):
    """Times are whole seconds since 1970. None means that the label has no time; such a lease ends only if another run takes it.

    ``leader`` is the node id of the leader whose clock the times are from. BID: unknown yet. None: the label of a former release.
    """

    holder: str
    since: int | None
    until: int | None
    ttl: int | None = None
    leader: str | None = None


BID = ""  # written before the leader's time is known
LONGEST_S = 10**9  # longer than any run; the year still has four digits


# Go's format. Python before 3.11 reads neither nine digits of a second nor a Z.
RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|([+-])(\d\d):(\d\d))")
FORMAT = "%Y-%m-%dT%H:%M:%S"


def seconds(text: str) -> int:
    found = RFC3339.fullmatch(text)
    if not found:
        raise ValueError("%r is no time of RFC 3339" % text)
    moment, sign, hours, minutes = found.groups()
    offset = int(hours or 0) * 3600 + int(minutes or 0) * 60
    return calendar.timegm(time.strptime(moment, FORMAT)) + (offset if sign == "-" else -offset)


def format_time(moment: int | None) -> str | None:
    return None if moment is None else time.strftime(FORMAT + "Z", time.gmtime(moment))


def read(spec: Mapping[str, Any]) -> Lease | None:
    """The lease in a swarm's spec, or None. If somebody else wrote the label, it is a lease, and its whole text is the holder."""
    value = (spec.get("Labels") or {}).get(LABEL)
    if not value:
        return None
    try:
        kept = json.loads(value)
        lease = Lease(str(kept["holder"]), seconds(kept["since"]), seconds(kept["until"]))
        return lease._replace(ttl=_lasting(kept["ttl"]), leader=str(kept["leader"])) if "leader" in kept else lease
    except (KeyError, OverflowError, TypeError, ValueError):
        return Lease(value, None, None)


def _lasting(ttl: Any) -> int:
    if not 0 < ttl <= LONGEST_S:
        raise ValueError("%r is no number of seconds that a lease can last" % ttl)
    return int(ttl)


def write(spec: dict[str, Any], lease: Lease | None, note: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The spec with this lease (None: without one), otherwise unchanged. ``note`` replaces the note of the last run; an empty note removes it."""
    labels = {key: value for key, value in (spec.get("Labels") or {}).items() if key != LABEL and (key != LAST_RUN or note is None)}
    if lease:
        labels[LABEL] = json.dumps(_label(lease))
    if note:
        labels[LAST_RUN] = json.dumps(note)
    return dict(spec, Labels=labels)


def _label(lease: Lease) -> dict[str, Any]:
    """The text of the label. The last two fields are omitted if they are None, so that somebody else's label does not change."""
    label = {"holder": lease.holder, "since": format_time(lease.since), "until": format_time(lease.until), "ttl": lease.ttl, "leader": lease.leader}
    return {key: value for key, value in label.items() if value is not None or key not in ("ttl", "leader")}


def last_run(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """{ended, hosts, always} of the last run: when it ended, the number of hosts by outcome, and whether runs that change nothing are noted too.
    None if no run left a note."""
    try:
        kept = json.loads((spec.get("Labels") or {}).get(LAST_RUN) or "")
        hosts = {str(name): int(count) for name, count in kept["hosts"].items()}
        return {"ended": format_time(seconds(kept["ended"])), "hosts": hosts, "always": bool(kept.get("always"))}
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return None


def result(spec: Mapping[str, Any], now: str | None) -> dict[str, Any] | None:
    """The lease in a swarm's spec for a module's result, or None. ``now`` is the manager's time as text. If its clock differs from the leader's,
    ``expires_in`` is wrong by the difference; it is only shown and decides nothing."""
    lease = read(spec)
    return lease and {"holder": lease.holder, "since": format_time(lease.since), "expires_in": _left(lease, seconds(now))}


def _left(lease: Lease | None, now: int) -> int | None:
    return lease.until - now if lease and lease.until is not None else None


def is_in_force(lease: Lease | None, now: int) -> bool:
    """Whether there is a lease, and it has not ended."""
    return lease is not None and (lease.until is None or lease.until > now)


class AnotherRun(SwarmError):
    """Another run has the lease. Every manager would refuse the change."""


class ByLeader(NamedTuple):
    """The swarm's own object, read back after an update, and the time of the leader that stamped it."""

    cluster: dict[str, Any]
    now: int
    leader: str


def _stamped(manager: Manager, cluster: Mapping[str, Any], spec: Mapping[str, Any]) -> ByLeader:
    """Write ``spec`` over ``cluster`` and read it back. Raises OutOfSequence if somebody else wrote first, or the leader changed meanwhile."""
    leader = manager.leader()
    manager.update_cluster(cluster["Version"]["Index"], spec)
    written, dummy = manager.cluster()
    if manager.leader() != leader:
        raise OutOfSequence("Could not update the swarm: it was changed by someone else meanwhile. Run this again.")
    return ByLeader(written, seconds(written["UpdatedAt"]), leader)


def _with_clock_of(lease: Lease, now: int, leader: str) -> Lease:
    """The lease with times of the clock of ``leader``. If its times are from another clock, nobody knows how much is left, so it starts anew."""
    if lease.leader in (None, leader):
        return lease
    return lease._replace(until=now + (lease.ttl or 0), leader=leader)


def _read_by_leader(manager: Manager, cluster: Mapping[str, Any]) -> ByLeader:
    """The swarm and the leader's time. Writes another run's lease anew with the clock of the current leader, so that a later run can measure it."""
    read_back = _stamped(manager, cluster, cluster["Spec"])
    lease = read(read_back.cluster["Spec"])
    counted = lease and _with_clock_of(lease, read_back.now, read_back.leader)
    return read_back if counted == lease else _stamped(manager, read_back.cluster, write(read_back.cluster["Spec"], counted))


def unless_another(manager: Manager, holder: str, what: str, remedy: str, check_mode: bool) -> tuple[dict[str, Any], int]:
    """(the swarm's own object, the time). Raises AnotherRun if another run's lease is in force. ``what`` is the consequence, for the message.

    In check mode nothing is written, and the time is the called manager's."""
    cluster, clock = manager.cluster()
    lease, now = read(cluster["Spec"]), seconds(clock)
    if lease and lease.holder != holder and not check_mode:
        cluster, now, dummy = _read_by_leader(manager, cluster)
        lease = read(cluster["Spec"])
    if is_in_force(lease, now) and lease.holder != holder:
        left = _left(lease, now)
        ends = "does not end by itself" if left is None else "ends in %d s unless that goes on" % left
        raise AnotherRun("%s, since another run changes this swarm: %s. Its lease %s. %s" % (what, lease.holder, ends, remedy))
    return cluster, now


class Leased:
    """A manager that writes nodes only while ``holder`` has the lease. An expired lease is enough if nobody else has taken it."""

    READ_AGAIN_S = 1.0  # so that not every one of a thousand nodes needs a check

    def __init__(self, manager: Manager, holder: str) -> None:
        self._manager = manager
        self._holder = holder
        self._checked: float | None = None

    def node(self, node_id: str) -> dict[str, Any]:
        return self._manager.node(node_id)

    def update_node(self, node_id: str, version: int, spec: dict[str, Any]) -> None:
        if self._checked is None or not 0 <= time.time() - self._checked < self.READ_AGAIN_S:
            self._check()
        self._manager.update_node(node_id, version, spec)

    def _check(self) -> None:
        cluster, dummy = self._manager.cluster()
        lease = read(cluster["Spec"])
        if lease is None or lease.holder != self._holder:
            now = "%s has it" % lease.holder if lease else "nobody has it"
            raise SwarmError("It was not written, since the lease of this swarm is no longer that of %s: %s. Run this again." % (self._holder, now))
        self._checked = time.time()


def acquire(before: Lease | None, now: int, want: Mapping[str, Any], leader: str = BID) -> Lease:
    """The lease after ``holder`` tried to acquire it; ``before`` itself if another run has it."""
    own = before is not None and before.holder == want["holder"]
    if is_in_force(before, now) and not own and not want["force"] and before.holder not in want["takeover"]:
        return before
    since = before.since if own and before.since is not None and before.leader != BID else now
    ttl = min(want["ttl"], LONGEST_S)
    return Lease(want["holder"], since, now + ttl, ttl, leader)


def release(before: Lease | None, want: Mapping[str, Any]) -> Lease | None:
    """The lease after ``holder`` released its own."""
    return None if before and before.holder == want["holder"] else before


class Settled(NamedTuple):
    """The labels of a swarm before and after a change."""

    before: Lease | None
    after: Lease | None
    now: int
    was: Isolation
    is_now: Isolation


def settle(manager: Manager, want: Mapping[str, Any], check_mode: bool) -> Settled:
    """Acquire or release the lease. A release takes one update. Acquiring takes two; the first one decides who gets it."""
    first: list[Lease | None] = []  # before this call wrote anything

    def attempt() -> Settled:
        cluster, clock = manager.cluster()
        first.append(read(cluster["Spec"]))
        found = ByLeader(cluster, seconds(clock), BID)
        if want["state"] == "present" and not check_mode:
            found = _bid(manager, found, want)
        return _written(manager, found, want, check_mode)._replace(before=first[0])

    return until_written(attempt)


def _bid(manager: Manager, found: ByLeader, want: Mapping[str, Any]) -> ByLeader:
    """Acquire the lease if nobody else has it. In both cases the returned time is the leader's."""
    lease = read(found.cluster["Spec"])
    if lease and lease.holder == want["holder"]:
        return _stamped(manager, found.cluster, found.cluster["Spec"])
    if lease:
        found = _read_by_leader(manager, found.cluster)
        lease = read(found.cluster["Spec"])
    after = acquire(lease, found.now, want)
    return found if after == lease else _stamped(manager, found.cluster, write(found.cluster["Spec"], after))


def _written(manager: Manager, found: ByLeader, want: Mapping[str, Any], check_mode: bool) -> Settled:
    spec, now = found.cluster["Spec"], found.now
    before, was = read(spec), isolation.read(spec)
    after = release(before, want) if want["state"] == "absent" else acquire(before, now, want, found.leader)
    free = after is None or after.holder == want["holder"]
    note = _note(want, now) if after is None else None  # not over the lease of another run
    is_now = isolation.merged(was, want["isolation"], now) if want["isolation"] and free else was
    if not check_mode and (after != before or note or is_now != was):
        changed = isolation.write(spec, is_now) if is_now != was else spec
        manager.update_cluster(found.cluster["Version"]["Index"], write(changed, after, note))
    return Settled(before, after, now, was, is_now)


def _note(want: Mapping[str, Any], now: int) -> dict[str, Any] | None:
    hosts = want["outcomes"] if want["state"] == "absent" else None
    return {"ended": format_time(now), "hosts": hosts, "always": want["always"]} if hosts else hosts


def check(want: Mapping[str, Any]) -> None:
    """Raise SwarmError if the options do not describe a lease."""
    if not want["holder"]:
        raise SwarmError("holder is empty: say who acquires the lease, such as 'alice@controller pid 1234'.")
    if want["ttl"] < 1:
        raise SwarmError("ttl is %s: give the seconds after which the lease ends, such as 900." % want["ttl"])


def answer(settled: Settled, want: Mapping[str, Any]) -> dict[str, Any]:
    """The module's result."""
    before, after, now, was, is_now = settled
    acquired = want["state"] == "present" and after.holder == want["holder"]
    from_other = acquired and before is not None and before.holder != want["holder"]
    left = _left(before, now)
    return {
        "changed": after != before or bool(want["outcomes"] and after is None) or is_now != was,
        "acquired": acquired,
        "holder": after.holder if after else None,
        "since": format_time(after.since) if after else None,
        "expires_in": _left(after, now),
        "taken_from": before.holder if from_other else None,
        "taken_after": -left if from_other and left is not None and left <= 0 else None,
        "isolation": is_now.level,
        "isolation_before": was.level,
        "diff": {"before": _shown(before, was), "after": _shown(after, is_now)},
    }


def _shown(lease: Lease | None, level: Isolation) -> dict[str, Any]:
    shown: dict[str, Any] = {LABEL: dict(holder=lease.holder, since=format_time(lease.since), until=format_time(lease.until))} if lease else {}
    return {**shown, **({} if level == Isolation() else {isolation.LABEL: isolation.as_shown(level)})}
