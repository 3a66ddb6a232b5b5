# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes on cards compared with what swarm gave to their tasks (pure), without anything in the way of a task: also where no guard is.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, Mapping, NamedTuple, Sequence

from .._gpu.record import devices_of
from .._health.allocation_findings import IDLE, NOT_HELD, OUTSIDE, SEEN, USED_BY_ANOTHER, Finding, ordered, text_of
from .._policy.generic_resources import AMOUNT
from .container_files import Given

# What is compared so late says nothing of the time before.
GAP_S = 300
_NAMED_BY_CARD = ("GPU-", "MIG-")


class Use(NamedTuple):
    """A process on a card."""

    card: str  # the UUID, of a MIG device too
    task: str  # its id, empty for what is of no task
    by: str


class Held(NamedTuple):
    """One thing that a task has, and the cards or MIG devices that it stands for."""

    kind: str
    value: str
    devices: Sequence[str]


class Snapshot(NamedTuple):
    """What there is at one moment."""

    uses: Sequence[Use]
    held: Mapping[str, Sequence[Held] | None]  # by the ids of the tasks that run; None where nobody knows what one has
    advertised: Collection[str]  # cards and MIG devices
    known: Collection[str]  # those of which the processes are known
    given: Sequence[Use] = ()  # what dockerd gave containers that are of no task, whether they use it or not


def holdings(given: Iterable[Given], inserted: Mapping[str, Any]) -> list[Held]:
    """Of what swarm gave a task, that which stands for cards. ``inserted`` is what the node has on record of what it advertises."""
    found = [Held(one.kind, one.value, _devices(one, inserted)) for one in given]
    return [one for one in found if one.devices]


def _devices(one: Given, inserted: Mapping[str, Any]) -> Sequence[str]:
    known = ((inserted.get("map") or {}).get(one.kind) or {}).get(AMOUNT if one.amount else one.value)
    if known:
        return tuple(known["devices"])
    if one.amount:  # a record of before there was a map has no more than the cards of all such kinds
        return tuple(inserted.get("gpus") or ()) if one.kind in (inserted.get("kinds") or ()) else ()
    return devices_of(one.value) if one.value.startswith(_NAMED_BY_CARD) else ()


def judge(
    uses: Iterable[Use], held: Mapping[str, Sequence[Held] | None], advertised: Collection[str], given: Iterable[Use] = ()
) -> set[Finding]:
    """What is used otherwise than it was given. ``held`` is by task; None where nobody knows what it has. ``given``: of what is no task."""
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
            # A task that changes the names of its processes is still one finding.
            found.setdefault((one.name, one.card, one.task, one.holder, "" if one.task else one.by), one)
    unused = [one for one in given if one.card in holders and not any(_is_by(use, one) for use in found.values())]
    return {*found.values(), *(Finding(SEEN, one.card, "", holders[one.card][0], one.by, 0) for one in unused)}


def _is_by(found: Finding, given: Use) -> bool:
    """Whether it is of a process of this container: its name comes first, and a long one leaves no room for that of the process."""
    return found.card == given.card and not found.task and found.by.startswith(text_of(given.by + " ("))


def _finding(use: Use, holders: Sequence[str] | None, is_advertised: bool) -> Finding | None:
    if holders:
        return Finding(USED_BY_ANOTHER, use.card, use.task, holders[0], use.by, 0)
    if use.task:
        return Finding(NOT_HELD, use.card, use.task, "", use.by, 0)
    return Finding(OUTSIDE, use.card, "", "", use.by, 0) if is_advertised else None


class Comparison:
    """What was found from snapshot to snapshot."""

    def __init__(self, idle_after_s: float) -> None:
        self._idle_after_s = idle_after_s  # 0: what is held and not used is no finding
        self._compared: float | None = None
        self._before: set[Finding] = set()  # what the last snapshot showed
        self.settled = True  # whether the last two snapshots showed the same
        self._since: dict[Finding, int] = {}
        self._used: dict[tuple[str, str, str], tuple[float, int]] = {}  # by task, kind and value: when it was used last, or seen first

    def compare(self, snapshot: Snapshot, now: float, clock: int) -> list[Finding]:
        """The findings that count. ``now`` runs evenly, ``clock`` is in seconds since 1970."""
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
