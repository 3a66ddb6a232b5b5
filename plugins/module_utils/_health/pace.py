# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides when a verdict is confirmed and when the label is written (pure). Each write updates the node. After an update, swarm's managers check the
node's tasks.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from .label import FAULT, UNKNOWN, UNWATCHED, Label

POLL_S = 10
# A changed verdict is confirmed by a second read after this time (seconds).
CONFIRM_S = 2
# A fault is written at once. The end of a fault is written after two minutes, so that an unstable card causes at most one write a minute.
CALM_S = 120
# While a fault is shown, a fault of another card is written after only one minute, so that the person who fixes the first card sees it.
ANOTHER_S = 60
# The watcher's file with the errors that the driver logged since the boot.
EVENTS = "events.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Settled(NamedTuple):
    """The confirmed verdict and the newest verdict. A new verdict is confirmed after two equal reads in a row."""

    verdict: Label | None = None
    newest: Label | None = None

    @property
    def wait_s(self) -> int:
        return POLL_S if self.verdict == self.newest else CONFIRM_S


def settle(before: Settled, newest: Label, certain: bool = False) -> Settled:
    """Return the state after a read. ``certain``: the read already took a long time, so no second read is needed."""
    return Settled(newest if certain or newest == before.newest else before.verdict, newest)


def wanted_label(verdict: Label, before: Label | None, drift: str | None, now: float) -> Label:
    """Return the label for a verdict, with its start time.

    ``before`` is the previous wanted label, not the label that the managers see. The end of a fault may wait until tasks end. If the card is lost
    again meanwhile, this is a new fault, and the node is paused again.
    """
    plain = verdict._replace(drift=drift)
    if verdict.card is None and verdict.reason is None:
        return plain
    same = before is not None and before.without_place().of_cards._replace(since=None) == verdict
    return plain._replace(since=before.since if same and before.since else int(now))


def is_due(shown: Label | None, label: Label, since_write_s: float | None) -> bool:
    """Return whether the label must be written now."""
    if label == shown:
        return False
    if shown is None or shown.state in (UNWATCHED, UNKNOWN) or since_write_s is None:
        return True
    if label.state == FAULT and shown.state != FAULT:
        return True
    return since_write_s >= (ANOTHER_S if _is_of_another(shown, label) else CALM_S)


def _is_of_another(shown: Label, label: Label) -> bool:
    """Return whether the label reports a fault of a card that the shown label does not contain."""
    return label.state == FAULT and (label.card != shown.card or label.cards > shown.cards)


def is_urgent(shown: Label | None, label: Label) -> bool:
    """Return whether the label reports a new fault. Such a label is written even if an old leader may stop a task of the node because of the
    update."""
    return label.state == FAULT and (shown is None or label.without_place().of_cards != shown.without_place().of_cards)


# -- errors that the driver logged -----------------------------------------------------------------------------------------


def events_of_boot(stored: Mapping[str, Any], boot: str) -> list[dict[str, Any]]:
    """Return the stored errors if they are from this boot."""
    return [dict(event) for event in stored.get("events") or []] if stored.get("boot") == boot else []


def add_event(events: Sequence[Mapping[str, Any]], uuid: str, xid: int, state: str) -> list[dict[str, Any]]:
    """Return the errors with a further error. Each card has at most one error of each number."""
    event = {"uuid": uuid, "xid": xid, "state": state}
    return [dict(other) for other in events if (other["uuid"], other["xid"]) != (uuid, xid)] + [event]
