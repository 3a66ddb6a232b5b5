# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stamp says which manager admits work: ``<node id> <number>`` in a label of the swarm.

Only the service on the leader admits work. It writes the stamp at most once a minute. Another manager takes over if its own monotonic clock shows
that the stamp has not changed for three minutes. Before it admits work, it writes its own stamp. The update of the swarm has a version. So if two
managers write at the same time, swarm refuses one of them. A manager that can no longer write its stamp stops before the three minutes are over.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping

from .._swarm.manager import Manager, OutOfSequence
from .._swarm.owned_labels import QUEUE_ROUND

LABEL = QUEUE_ROUND
EVERY_S, STOPS_S, TAKES_OVER_S = 60.0, 150.0, 180.0


class Stamp:
    """Writes and checks the stamp for this process. ``clock`` is monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen, self._since = "", 0.0  # the last text in the label, and when this process first saw it
        self._own, self._written = "", 0.0  # the last text that this process wrote, and when it began to write

    def take(self, manager: Manager, cluster: Mapping[str, Any]) -> bool:
        """Return whether this manager admits work. Writes the stamp if that is due. ``cluster`` is the swarm as just read."""
        text, now = _text(cluster), self._clock()
        if text != self._seen:
            self._seen, self._since = text, now
        is_own = bool(text) and text.partition(" ")[0] == manager.node_id
        if text and text == self._own and now - self._written < EVERY_S:
            return True
        if text and not is_own and now - self._since < TAKES_OVER_S:
            return False
        return self._write(manager, cluster, "%s %d" % (manager.node_id, _number(text) + 1), now)

    def is_valid(self) -> bool:
        """Return whether no other manager can have taken over."""
        return bool(self._own) and self._clock() - self._written < STOPS_S

    def give_up(self, manager: Manager) -> None:
        """Remove the stamp if this manager wrote it, in this process or a former one. Then the next leader need not wait. Raises SwarmError."""
        cluster, _time = manager.cluster()
        if _text(cluster).partition(" ")[0] == manager.node_id:
            manager.update_cluster(cluster["Version"]["Index"], _with_text(cluster, ""))
        self._own = ""

    def _write(self, manager: Manager, cluster: Mapping[str, Any], text: str, now: float) -> bool:
        self._own = ""
        try:
            manager.update_cluster(cluster["Version"]["Index"], _with_text(cluster, text))
        except OutOfSequence:  # somebody else changed the swarm; the next round reads it again
            return False
        self._own = self._seen = text
        self._written = self._since = now
        return True


def _text(cluster: Mapping[str, Any]) -> str:
    return str((cluster["Spec"].get("Labels") or {}).get(LABEL) or "")


def _number(text: str) -> int:
    number = text.partition(" ")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0


def _with_text(cluster: Mapping[str, Any], text: str) -> dict[str, Any]:
    labels = {key: value for key, value in (cluster["Spec"].get("Labels") or {}).items() if key != LABEL}
    return dict(cluster["Spec"], Labels={**labels, LABEL: text} if text else labels)
