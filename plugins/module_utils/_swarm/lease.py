# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lease: the right of one run to change the swarm, stored in a label of the swarm itself. The lease ends by the clock of the swarm's leader.

Clocks of managers may differ by hours. The leader writes its time into each update of the swarm (UpdatedAt; swarmkit
manager/state/store/memory.go, touchMeta). So a run that writes an update and reads the swarm back sees the leader's time on any manager.

The functions without I/O decide what happens to a lease. The other functions write the lease in versioned updates, so that only one of two runs gets
the lease.
Private to this collection; it may change without notice.
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
from .owned_labels import QUEUE_ROUND, QUEUES

LABEL = "gpu-swarm.lease"
LAST_RUN = "gpu-swarm.last-run"  # the result of the last run that released its lease


class Lease(NamedTuple):
    """The lease of one run. Times are whole seconds since 1970; None for a label without a time. A lease without a time ends only if another run
    takes it.

    The times belong to the clock of ``leader``, a node id. ``leader`` is BID while the leader is unknown, and None in labels of earlier releases.
    """

    holder: str
    since: int | None
    until: int | None
    ttl: int | None = None
    leader: str | None = None


BID = ""  # written before the leader's time is known
LONGEST_S = 10**9  # longer than any run, and short enough for a year with four digits

# Go's format of a time. Python before 3.11 can read neither nine digits of a second nor a Z.
RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|([+-])(\d\d):(\d\d))")
FORMAT = "%Y-%m-%dT%H:%M:%S"


def seconds(text: str) -> int:
    match = RFC3339.fullmatch(text)
    if not match:
        raise ValueError("%r is not a time in the format of RFC 3339" % text)
    local_time, sign, hours, minutes = match.groups()
    offset = int(hours or 0) * 3600 + int(minutes or 0) * 60
    return calendar.timegm(time.strptime(local_time, FORMAT)) + (offset if sign == "-" else -offset)


def format_time(timestamp: int | None) -> str | None:
    return None if timestamp is None else time.strftime(FORMAT + "Z", time.gmtime(timestamp))


def read(spec: Mapping[str, Any]) -> Lease | None:
    """Return the lease in a swarm's spec, or None. If somebody else wrote the label, the whole text of the label is the holder."""
    value = (spec.get("Labels") or {}).get(LABEL)
    if not value:
        return None
    try:
        label = json.loads(value)
        lease = Lease(str(label["holder"]), seconds(label["since"]), seconds(label["until"]))
        return lease._replace(ttl=_checked_ttl(label["ttl"]), leader=str(label["leader"])) if "leader" in label else lease
    except (KeyError, OverflowError, TypeError, ValueError):
        return Lease(value, None, None)


def _checked_ttl(ttl: Any) -> int:
    if not 0 < ttl <= LONGEST_S:
        raise ValueError("%r is not a valid duration of a lease in seconds" % ttl)
    return int(ttl)


def write(spec: dict[str, Any], lease: Lease | None, note: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the spec with this lease, or without a lease for None. Everything else is unchanged.

    ``note`` replaces the note of the last run; an empty note removes it.
    """
    labels = {key: value for key, value in (spec.get("Labels") or {}).items() if key != LABEL and (key != LAST_RUN or note is None)}
    if lease:
        labels[LABEL] = json.dumps(_label(lease))
    if note:
        labels[LAST_RUN] = json.dumps(note)
    return dict(spec, Labels=labels)


def _label(lease: Lease) -> dict[str, Any]:
    """Return the content of the label. Omit the last two fields if they are None, so that somebody else's label does not change."""
    label = {"holder": lease.holder, "since": format_time(lease.since), "until": format_time(lease.until), "ttl": lease.ttl, "leader": lease.leader}
    return {key: value for key, value in label.items() if value is not None or key not in ("ttl", "leader")}


def last_run(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return {ended, hosts, always} of the last run; None if no run wrote a note.

    ``ended`` is a time. ``hosts`` is the number of hosts by outcome. ``always``: runs that change nothing write a note too.
    """
    try:
        note = json.loads((spec.get("Labels") or {}).get(LAST_RUN) or "")
        hosts = {str(outcome): int(count) for outcome, count in note["hosts"].items()}
        return {"ended": format_time(seconds(note["ended"])), "hosts": hosts, "always": bool(note.get("always"))}
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return None


def result(spec: Mapping[str, Any], now: str | None) -> dict[str, Any] | None:
    """Return the lease in a swarm's spec for a module's result, or None.

    ``now`` is the manager's time as text. If the manager's clock differs from the leader's clock, ``expires_in`` is wrong by the difference. No code
    decides by ``expires_in``.
    """
    lease = read(spec)
    return lease and {"holder": lease.holder, "since": format_time(lease.since), "expires_in": _remaining(lease, seconds(now))}


def _remaining(lease: Lease | None, now: int) -> int | None:
    return lease.until - now if lease and lease.until is not None else None


def is_in_force(lease: Lease | None, now: int) -> bool:
    """Return whether a lease exists and has not ended."""
    return lease is not None and (lease.until is None or lease.until > now)


class AnotherRun(SwarmError):
    """Another run has the lease. Every manager would refuse the change."""


class ClusterAtLeaderTime(NamedTuple):
    """The swarm's own object after an update, and the time that the leader wrote into the update."""

    cluster: dict[str, Any]
    now: int
    leader: str


def _write_and_read_back(manager: Manager, cluster: Mapping[str, Any], spec: Mapping[str, Any]) -> ClusterAtLeaderTime:
    """Write ``spec`` over ``cluster``, and read the swarm back. Raises OutOfSequence if somebody else wrote first, or if the leader changed."""
    leader = manager.leader()
    manager.update_cluster(cluster["Version"]["Index"], spec)
    written, dummy = manager.cluster()
    if manager.leader() != leader:
        raise OutOfSequence("Could not update the swarm: somebody else changed it at the same time. Run this again.")
    return ClusterAtLeaderTime(written, seconds(written["UpdatedAt"]), leader)


def _converted_to_clock_of(lease: Lease, now: int, leader: str) -> Lease:
    """Return the lease with the times of ``leader``'s clock.

    If the times belong to another clock, the remaining time is unknown, so the lease starts again with its full ``ttl``.
    """
    if lease.leader in (None, leader):
        return lease
    return lease._replace(until=now + (lease.ttl or 0), leader=leader)


def _read_with_leader_time(manager: Manager, cluster: Mapping[str, Any]) -> ClusterAtLeaderTime:
    """Return the swarm and the leader's time.

    If another run's lease has times of a former leader's clock, rewrite the lease with times of the present leader. Then a later run can see when the
    lease ends.
    """
    read_back = _write_and_read_back(manager, cluster, cluster["Spec"])
    lease = read(read_back.cluster["Spec"])
    converted = lease and _converted_to_clock_of(lease, read_back.now, read_back.leader)
    return read_back if converted == lease else _write_and_read_back(manager, read_back.cluster, write(read_back.cluster["Spec"], converted))


def refuse_if_another_run(manager: Manager, holder: str, what: str, remedy: str, check_mode: bool) -> tuple[dict[str, Any], int]:
    """Return (the swarm's own object, the time). Raises AnotherRun if another run's lease is in force. ``what`` is the consequence, for the message.

    In check mode nothing is written, and the time is the time of the called manager."""
    cluster, clock = manager.cluster()
    lease, now = read(cluster["Spec"]), seconds(clock)
    if lease and lease.holder != holder and not check_mode:
        cluster, now, dummy = _read_with_leader_time(manager, cluster)
        lease = read(cluster["Spec"])
    if is_in_force(lease, now) and lease.holder != holder:
        left = _remaining(lease, now)
        ends = "does not end by itself" if left is None else "ends in %d s unless that run renews it" % left
        raise AnotherRun("%s, because another run changes this swarm: %s. Its lease %s. %s" % (what, lease.holder, ends, remedy))
    return cluster, now


class Leased:
    """A manager that writes nodes only while ``holder`` has the lease. An expired lease is enough if nobody else has taken the lease."""

    CHECK_AGAIN_S = 1.0  # a run may write a thousand nodes, so do not check before each write

    def __init__(self, manager: Manager, holder: str) -> None:
        self._manager = manager
        self._holder = holder
        self._checked: float | None = None

    def node(self, node_id: str) -> dict[str, Any]:
        return self._manager.node(node_id)

    def update_node(self, node_id: str, version: int, spec: dict[str, Any]) -> None:
        if self._checked is None or not 0 <= time.time() - self._checked < self.CHECK_AGAIN_S:
            self._check()
        self._manager.update_node(node_id, version, spec)

    def _check(self) -> None:
        cluster, dummy = self._manager.cluster()
        lease = read(cluster["Spec"])
        if lease is None or lease.holder != self._holder:
            now = "%s has it now" % lease.holder if lease else "nobody has it now"
            raise SwarmError("The node was not updated, because %s no longer has the lease of this swarm: %s. Run this again." % (self._holder, now))
        self._checked = time.time()


def acquire(before: Lease | None, now: int, want: Mapping[str, Any], leader: str = BID) -> Lease:
    """Return the lease after ``holder`` tried to acquire it; ``before`` itself if another run has the lease."""
    is_own = before is not None and before.holder == want["holder"]
    if is_in_force(before, now) and not is_own and not want["force"] and before.holder not in want["takeover"]:
        return before
    since = before.since if is_own and before.since is not None and before.leader != BID else now
    ttl = min(want["ttl"], LONGEST_S)
    return Lease(want["holder"], since, now + ttl, ttl, leader)


def release(before: Lease | None, want: Mapping[str, Any]) -> Lease | None:
    """Return the lease after ``holder`` released its own lease."""
    return None if before and before.holder == want["holder"] else before


class LeaseChange(NamedTuple):
    """The labels of a swarm before and after a change."""

    before: Lease | None
    after: Lease | None
    now: int
    was: Isolation
    is_now: Isolation
    queues_before: str  # the label, or ''
    queues: str


def acquire_or_release(manager: Manager, want: Mapping[str, Any], check_mode: bool) -> LeaseChange:
    """Acquire or release the lease. A release needs one update. An acquisition needs two updates, and the first update decides which run gets the
    lease."""
    first_read: list[Lease | None] = []  # before this call wrote anything

    def attempt() -> LeaseChange:
        cluster, clock = manager.cluster()
        first_read.append(read(cluster["Spec"]))
        current = ClusterAtLeaderTime(cluster, seconds(clock), BID)
        if want["state"] == "present" and not check_mode:
            current = _acquire_if_free(manager, current, want)
        return _write_result(manager, current, want, check_mode)._replace(before=first_read[0])

    return until_written(attempt)


def _acquire_if_free(manager: Manager, current: ClusterAtLeaderTime, want: Mapping[str, Any]) -> ClusterAtLeaderTime:
    """Acquire the lease if no other run has it. The returned time is always the leader's time."""
    lease = read(current.cluster["Spec"])
    if lease and lease.holder == want["holder"]:
        return _write_and_read_back(manager, current.cluster, current.cluster["Spec"])
    if lease:
        current = _read_with_leader_time(manager, current.cluster)
        lease = read(current.cluster["Spec"])
    after = acquire(lease, current.now, want)
    return current if after == lease else _write_and_read_back(manager, current.cluster, write(current.cluster["Spec"], after))


def _write_result(manager: Manager, current: ClusterAtLeaderTime, want: Mapping[str, Any], check_mode: bool) -> LeaseChange:
    spec, now = current.cluster["Spec"], current.now
    before, was = read(spec), isolation.read(spec)
    after = release(before, want) if want["state"] == "absent" else acquire(before, now, want, current.leader)
    is_ours = after is None or after.holder == want["holder"]
    note = _note(want, now) if after is None else None  # while another run has the lease, do not change the note
    is_now = isolation.merged(was, want["isolation"], now) if want["isolation"] and is_ours else was
    wanted = isolation.write(spec, is_now) if is_now != was else spec
    if want["queues"] is not None and is_ours:
        wanted = _with_queues(wanted, want["queues"])
    if not check_mode and (after != before or note or wanted != spec):
        manager.update_cluster(current.cluster["Version"]["Index"], write(wanted, after, note))
    return LeaseChange(before, after, now, was, is_now, _queues_of(spec), _queues_of(wanted))


def _queues_of(spec: Mapping[str, Any]) -> str:
    return (spec.get("Labels") or {}).get(QUEUES) or ""


def _with_queues(spec: dict[str, Any], queues: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec with these queues. Without queues, the stamp of the manager that admits work is removed too."""
    before = spec.get("Labels") or {}
    labels = {key: value for key, value in before.items() if key != QUEUES and (queues or key != QUEUE_ROUND)}
    if queues:
        labels[QUEUES] = json.dumps(queues, sort_keys=True, separators=(",", ":"))
    return spec if labels == before else dict(spec, Labels=labels)


def _note(want: Mapping[str, Any], now: int) -> dict[str, Any] | None:
    hosts = want["outcomes"] if want["state"] == "absent" else None
    return {"ended": format_time(now), "hosts": hosts, "always": want["always"]} if hosts else hosts


def check(want: Mapping[str, Any]) -> None:
    """Raise SwarmError if the options do not describe a lease."""
    if not want["holder"]:
        raise SwarmError("holder is empty: name the run that acquires the lease, such as 'alice@controller pid 1234'.")
    if want["ttl"] < 1:
        raise SwarmError("ttl is %s: give the seconds after which the lease ends, such as 900." % want["ttl"])


def module_result(change: LeaseChange, want: Mapping[str, Any]) -> dict[str, Any]:
    """Return the module's result."""
    before, after, now, was, is_now, queues_before, queues = change
    acquired = want["state"] == "present" and after.holder == want["holder"]
    from_other = acquired and before is not None and before.holder != want["holder"]
    left = _remaining(before, now)
    return {
        "changed": after != before or bool(want["outcomes"] and after is None) or is_now != was or queues != queues_before,
        "acquired": acquired,
        "holder": after.holder if after else None,
        "since": format_time(after.since) if after else None,
        "expires_in": _remaining(after, now),
        "taken_from": before.holder if from_other else None,
        "taken_after": abs(left) if from_other and left is not None and left <= 0 else None,
        "isolation": is_now.level,
        "isolation_before": was.level,
        "queues": queues,
        "queues_before": queues_before,
        "diff": {"before": _shown(before, was, queues_before), "after": _shown(after, is_now, queues)},
    }


def _shown(lease: Lease | None, level: Isolation, queues: str) -> dict[str, Any]:
    shown: dict[str, Any] = {LABEL: dict(holder=lease.holder, since=format_time(lease.since), until=format_time(lease.until))} if lease else {}
    shown = {**shown, **({} if level == Isolation() else {isolation.LABEL: isolation.as_shown(level)})}
    return {**shown, **({QUEUES: queues} if queues else {})}
