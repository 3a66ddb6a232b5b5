# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares processes on cards with the cards of their tasks (pure). The comparison stops no task and does not need the guard.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, Mapping, NamedTuple, Sequence

from .._gpu.record import devices_of
from .._health.allocation_findings import IDLE, NO_LOAD, NOT_HELD, OUTSIDE, SEEN, USED_BY_ANOTHER, Finding, most_important, short_text
from .._policy.generic_resources import AMOUNT
from .container_files import Assigned

# After a longer pause, earlier snapshots no longer count.
GAP_S = 300
_NAMED_BY_CARD = ("GPU-", "MIG-")


class Use(NamedTuple):
    """A process on a card."""

    card: str  # the UUID of the card or MIG device
    task: str  # the task's id; empty if the process belongs to no task
    by: str


class Held(NamedTuple):
    """One resource of a task, and its cards or MIG devices."""

    kind: str
    value: str
    devices: Sequence[str]


class Snapshot(NamedTuple):
    """Processes and allocations at one moment."""

    uses: Sequence[Use]
    held: Mapping[str, Sequence[Held] | None]  # {id of a running task: its resources}; None if a task's resources are unknown
    advertised: Collection[str]  # cards and MIG devices
    known: Collection[str]  # cards and MIG devices with known processes
    outside_swarm: Sequence[Use] = ()  # cards that containers without a task may use
    computed: Mapping[str, bool] = {}  # {card: whether it has computed since the last snapshot}; a missing card is unknown


def holdings(assigned: Iterable[Assigned], inserted: Mapping[str, Any]) -> list[Held]:
    """Return the resources of a task that are cards. ``inserted`` is the node's record of what it advertises."""
    resources = [Held(resource.kind, resource.value, _devices(resource, inserted)) for resource in assigned]
    return [resource for resource in resources if resource.devices]


def _devices(resource: Assigned, inserted: Mapping[str, Any]) -> Sequence[str]:
    mapped = ((inserted.get("map") or {}).get(resource.kind) or {}).get(AMOUNT if resource.amount else resource.value)
    if mapped:
        return tuple(mapped["devices"])
    if resource.amount:  # a record of an older release has no map, only the cards of all such kinds
        return tuple(inserted.get("gpus") or ()) if resource.kind in (inserted.get("kinds") or ()) else ()
    return devices_of(resource.value) if resource.value.startswith(_NAMED_BY_CARD) else ()


def find_differences(
    uses: Iterable[Use], held: Mapping[str, Sequence[Held] | None], advertised: Collection[str], outside_swarm: Iterable[Use] = ()
) -> set[Finding]:
    """Return the uses that differ from the allocations. ``held`` are the resources of each task, None if unknown. ``outside_swarm`` are cards that
    containers without a task may use."""
    holders: dict[str, list[str]] = {}
    for task in sorted(held):
        for device in dict.fromkeys(device for finding in held[task] or () for device in finding.devices):
            holders.setdefault(device, []).append(task)
    findings: dict[tuple[str, ...], Finding] = {}
    for use in sorted(uses):
        if use.task and (held.get(use.task) is None or use.task in holders.get(use.card, ())):
            continue
        finding = _finding(use, holders.get(use.card), use.card in advertised)
        if finding:
            # If a task renames its processes, report one finding only.
            findings.setdefault((finding.name, finding.card, finding.task, finding.holder, "" if finding.task else finding.by), finding)
    unused = [finding for finding in outside_swarm if finding.card in holders and not any(_is_by(use, finding) for use in findings.values())]
    return {*findings.values(), *(Finding(SEEN, finding.card, "", holders[finding.card][0], finding.by, 0) for finding in unused)}


def _is_by(finding: Finding, container: Use) -> bool:
    """Return whether a process of this container uses the card. Compare only the container's name, which is the first part of the text:
    if the name is long, the name of the process is cut off."""
    return finding.card == container.card and not finding.task and finding.by.startswith(short_text(container.by + " ("))


def _finding(use: Use, holders: Sequence[str] | None, is_advertised: bool) -> Finding | None:
    if holders:
        return Finding(USED_BY_ANOTHER, use.card, use.task, holders[0], use.by, 0)
    if use.task:
        return Finding(NOT_HELD, use.card, use.task, "", use.by, 0)
    return Finding(OUTSIDE, use.card, "", "", use.by, 0) if is_advertised else None


class _Moment(NamedTuple):
    """A moment of a comparison."""

    monotonic: float
    clock: int  # seconds since 1970


class Comparison:
    """Findings over several snapshots."""

    def __init__(self, idle_after_s: float) -> None:
        self._idle_after_s = idle_after_s  # 0: an unused card is no finding
        self._compared: float | None = None
        self._before: set[Finding] = set()  # findings of the last snapshot
        self.settled = True  # whether the last two snapshots showed the same findings
        self._since: dict[Finding, int] = {}
        # {(task, kind, value): when a process was there, and when a card computed, or else the first sight}
        self._used: dict[tuple[str, str, str], tuple[_Moment, _Moment]] = {}

    def compare(self, snapshot: Snapshot, now: float, clock: int) -> list[Finding]:
        """Return the confirmed findings. ``now`` is a monotonic time, ``clock`` is in seconds since 1970."""
        if self._compared is None or now - self._compared > GAP_S:
            self._before, self._since, self._used = set(), {}, {}
        self._compared = now
        findings = find_differences(snapshot.uses, snapshot.held, snapshot.advertised, snapshot.outside_swarm)
        # A process may end a moment after its container, so two snapshots in a row must agree.
        agreed, self.settled, self._before = findings & self._before, findings == self._before, findings
        self._since = {finding: self._since.get(finding, clock) for finding in findings}
        return most_important([*(finding._replace(since=self._since[finding]) for finding in agreed), *self._idle(snapshot, now, clock)])

    def _idle(self, snapshot: Snapshot, now: float, clock: int) -> list[Finding]:
        used = {(use.task, use.card) for use in snapshot.uses}
        before, self._used, findings = self._used, {}, []
        for task, resources in snapshot.held.items():
            for resource in resources or ():
                key, moment = (task, resource.kind, resource.value), _Moment(now, clock)
                has_process = any((task, device) in used or device not in snapshot.known for device in resource.devices)
                # A card that several tasks share computes for one of them, so none of them counts as idle. Unknown is not idle either.
                computes = any(snapshot.computed.get(device, True) for device in resource.devices)
                process, load = before.get(key, (moment, moment))
                self._used[key] = process, load = moment if has_process else process, moment if computes else load
                for name, last in ((IDLE, process), (NO_LOAD, load)):
                    if 0 < self._idle_after_s <= now - last.monotonic:
                        findings.append(Finding(name, resource.devices[0], task, "", "", last.clock))
                        break
        return findings
