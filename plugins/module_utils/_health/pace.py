# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a verdict counts, and when it is written (pure): each write is an update of the node, at which swarm's managers check its tasks.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from .label import FAULT, UNKNOWN, UNWATCHED, Label

POLL_S = 10
# The second of two equal reads comes sooner.
CONFIRM_S = 2
# A fault is written at once. What takes it away waits for two minutes, so that a card that comes and goes is written once a minute.
CALM_S = 120
# Another card's fault, while one is shown, waits no longer than that minute: whoever returned the node for the first does not know of it.
ANOTHER_S = 60
# Where the errors that the driver logged are kept, below what the watcher has on a node, with the boot that they are of.
EVENTS = "events.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Settled(NamedTuple):
    """The verdict that counts, and the newest one: it counts once two reads in a row agree on it."""

    verdict: Label | None = None
    newest: Label | None = None

    @property
    def wait_s(self) -> int:
        return POLL_S if self.verdict == self.newest else CONFIRM_S


def settle(before: Settled, newest: Label, certain: bool = False) -> Settled:
    """``certain``: the reading already took long, so no second read has to agree."""
    return Settled(newest if certain or newest == before.newest else before.verdict, newest)


def wanted(verdict: Label, before: Label | None, drift: str | None, now: float) -> Label:
    """The label for a verdict, with the time since which it is one. ``before`` is the label that was wanted last, and not what the managers
    see: the end of a fault may wait for tasks, and a card that is lost again meanwhile is another fault, for which its node is paused anew."""
    plain = verdict._replace(drift=drift)
    if verdict.card is None and verdict.reason is None:
        return plain
    same = before is not None and before.without_place().of_cards._replace(since=None) == verdict
    return plain._replace(since=before.since if same and before.since else int(now))


def due(shown: Label | None, label: Label, since_write_s: float | None) -> bool:
    """Whether the label is to be written now."""
    if label == shown:
        return False
    if shown is None or shown.state in (UNWATCHED, UNKNOWN) or since_write_s is None:
        return True
    if label.state == FAULT and shown.state != FAULT:
        return True
    return since_write_s >= (ANOTHER_S if _is_of_another(shown, label) else CALM_S)


def _is_of_another(shown: Label, label: Label) -> bool:
    """Whether it reports a fault of a card that has none in what is shown."""
    return label.state == FAULT and (label.card != shown.card or label.cards > shown.cards)


def urgent(shown: Label | None, label: Label) -> bool:
    """Whether it reports a fault that is not shown yet, or one anew: worth an update of the node at which an old leader may stop a task."""
    return label.state == FAULT and (shown is None or label.without_place().of_cards != shown.without_place().of_cards)


# -- errors that the driver logged -----------------------------------------------------------------------------------------


def kept(stored: Mapping[str, Any], boot: str) -> list[dict[str, Any]]:
    """The errors that still count: those of this boot."""
    return [dict(one) for one in stored.get("events") or []] if stored.get("boot") == boot else []


def with_event(events: Sequence[Mapping[str, Any]], uuid: str, xid: int, state: str) -> list[dict[str, Any]]:
    """The errors with one more; of each card and number one."""
    one = {"uuid": uuid, "xid": xid, "state": state}
    return [dict(other) for other in events if (other["uuid"], other["xid"]) != (uuid, xid)] + [one]
