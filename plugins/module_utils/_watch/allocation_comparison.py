# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares processes on cards with what swarm gave to their tasks (pure). It stops no task and works without the guard.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, Mapping, NamedTuple, Sequence

from .._gpu.record import devices_of
from .._health.allocation_findings import IDLE, NOT_HELD, OUTSIDE, SEEN, USED_BY_ANOTHER, Finding, ordered, text_of
from .._policy.generic_resources import AMOUNT
from .container_files import Given

# After such a pause, a comparison says nothing about the time before it.
GAP_S = 300
_NAMED_BY_CARD = ("GPU-", "MIG-")


class Use(NamedTuple):
    """A process on a card."""

    card: str  # the UUID, of a MIG device too
    task: str  # the task's id; empty if the process belongs to none
    by: str


class Held(NamedTuple):
    """One resource that a task has, and its cards or MIG devices."""

    kind: str
    value: str
    devices: Sequence[str]


class Snapshot(NamedTuple):
    """Processes and allocations at one moment."""

    uses: Sequence[Use]
    held: Mapping[str, Sequence[Held] | None]  # by the ids of the running tasks; None if it is unknown what a task has
    advertised: Collection[str]  # cards and MIG devices
    known: Collection[str]  # cards and MIG devices whose processes are known
    given: Sequence[Use] = ()  # cards that dockerd gave to containers without a task, used or not


def holdings(given: Iterable[Given], inserted: Mapping[str, Any]) -> list[Held]:
    """Return the resources of a task that are cards. ``inserted`` is the node's record of what it advertises."""
    found = [Held(one.kind, one.value, _devices(one, inserted)) for one in given]
    return [one for one in found if one.devices]


def _devices(one: Given, inserted: Mapping[str, Any]) -> Sequence[str]:
    known = ((inserted.get("map") or {}).get(one.kind) or {}).get(AMOUNT if one.amount else one.value)
    if known:
        return tuple(known["devices"])
    if one.amount:  # an older record has no map, only the cards of all such kinds
        return tuple(inserted.get("gpus") or ()) if one.kind in (inserted.get("kinds") or ()) else ()
    return devices_of(one.value) if one.value.startswith(_NAMED_BY_CARD) else ()


def judge(
    uses: Iterable[Use], held: Mapping[str, Sequence[Held] | None], advertised: Collection[str], given: Iterable[Use] = ()
) -> set[Finding]:
    """Return the uses that differ from what was given. ``held`` is by task, None if unknown; ``given`` is for containers without a task."""
    holders: dict[str, list[str]] = {}
    for task in sorted(held):
        for device in dict.fromkeys(device for one in held[task] or () for device in one.devices):
            holders.setdefault(device, []).append(task)
    found: dict[tuple[str, ...], Finding] = {}
    for use in sorted(uses):
        if use.task and (held.get(use.task) is None or use.task in holders.get(use.card, ())):
            continue
        one = _finding(use, holders.get(use.card), use.card in advertised)
        if one:
            # If a task renames its processes, it stays one finding.
            found.setdefault((one.name, one.card, one.task, one.holder, "" if one.task else one.by), one)
    unused = [one for one in given if one.card in holders and not any(_is_by(use, one) for use in found.values())]
    return {*found.values(), *(Finding(SEEN, one.card, "", holders[one.card][0], one.by, 0) for one in unused)}


def _is_by(found: Finding, given: Use) -> bool:
    """Return whether a process of this container uses the card. The container's name comes first; a long one leaves no room for the process."""
    return found.card == given.card and not found.task and found.by.startswith(text_of(given.by + " ("))


def _finding(use: Use, holders: Sequence[str] | None, is_advertised: bool) -> Finding | None:
    if holders:
        return Finding(USED_BY_ANOTHER, use.card, use.task, holders[0], use.by, 0)
    if use.task:
        return Finding(NOT_HELD, use.card, use.task, "", use.by, 0)
    return Finding(OUTSIDE, use.card, "", "", use.by, 0) if is_advertised else None


class Comparison:
    """Findings over several snapshots."""

    def __init__(self, idle_after_s: float) -> None:
        self._idle_after_s = idle_after_s  # 0: an unused card is no finding
        self._compared: float | None = None
        self._before: set[Finding] = set()  # findings of the last snapshot
        self.settled = True  # whether the last two snapshots showed the same
        self._since: dict[Finding, int] = {}
        self._used: dict[tuple[str, str, str], tuple[float, int]] = {}  # by task, kind and value: the last use, or else when it was first seen

    def compare(self, snapshot: Snapshot, now: float, clock: int) -> list[Finding]:
        """Return the confirmed findings. ``now`` is a monotonic time, ``clock`` is in seconds since 1970."""
        if self._compared is None or now - self._compared > GAP_S:
            self._before, self._since, self._used = set(), {}, {}
        self._compared = now
        found = judge(snapshot.uses, snapshot.held, snapshot.advertised, snapshot.given)
        # A process may outlast its container by a moment: two snapshots in a row have to agree.
        agreed, self.settled, self._before = found & self._before, found == self._before, found
        self._since = {one: self._since.get(one, clock) for one in found}
        return ordered([*(one._replace(since=self._since[one]) for one in agreed), *self._idle(snapshot, now, clock)])

    def _idle(self, snapshot: Snapshot, now: float, clock: int) -> list[Finding]:
        used = {(use.task, use.card) for use in snapshot.uses}
        before, self._used, found = self._used, {}, []
        for task, several in snapshot.held.items():
            for one in several or ():
                key = (task, one.kind, one.value)
                busy = any((task, device) in used or device not in snapshot.known for device in one.devices)
                self._used[key] = last = (now, clock) if busy else before.get(key, (now, clock))
                if 0 < self._idle_after_s <= now - last[0]:
                    found.append(Finding(IDLE, one.devices[0], task, "", "", last[1]))
        return found
