# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes what the cards are doing: to cards.json for ``gpu-swarm card`` and ``gpu-swarm top``, and to a file for node_exporter.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
from typing import Any, Mapping, Sequence

from .._errors import GpuSwarmError
from .._node import card_metrics_file
from .._node.watcher_state import CARDS
from .._program.clock import Clock
from .._program.lifetime import publish
from .._textfile import text_file
from . import card_metrics

VERSION = 1
# Everybody may read this file, because every user of the machine can query NVML. The folder's other files are readable for root only.
_MODE, _FOLDER_MODE = 0o644, 0o711


class CardReadings:
    """Writes both files. ``root`` is the machine's root directory."""

    def __init__(self, settings: Mapping[str, Any], root: str, clock: Clock) -> None:
        self._path = os.path.join(root, CARDS)
        self._folder = settings.get("textfile") or ""
        self._clock = clock
        self._failures: dict[str, str] = {}
        self._is_open = False  # whether other users can reach the file

    def write(self, cards: Sequence[Mapping[str, Any]]) -> list[str]:
        """Write the rows of _gpu/activity. Return each new failure as a line to log. A failure keeps nobody from watching the cards."""
        now = self._clock.time()
        failures = {self._path: self._write_json(cards, now)}
        if self._folder:
            failures[self._folder] = self._write_metrics(cards, now)
        before, self._failures = self._failures, failures
        return [failure for target, failure in failures.items() if failure and failure != before.get(target)]

    def _write_json(self, cards: Sequence[Mapping[str, Any]], now: float) -> str:
        failure = publish(self._path, {"version": VERSION, "at": int(now), "cards": list(cards)}, _MODE)
        if not failure and not self._is_open:
            # The unit says the same, but systemd may still use the unit of an older release.
            try:
                os.chmod(os.path.dirname(self._path), _FOLDER_MODE)
                self._is_open = True
            except OSError as problem:
                failure = "%s cannot be opened for other users: %s" % (os.path.dirname(self._path), problem.strerror)
        return "what the cards are doing cannot be written: %s" % failure if failure else ""

    def _write_metrics(self, cards: Sequence[Mapping[str, Any]], now: float) -> str:
        try:
            text_file.write(self._folder, card_metrics_file.NAME, card_metrics.rendered(cards, now))
        except GpuSwarmError as problem:
            card_metrics_file.remove(self._folder)  # node_exporter would go on showing old values as if they were new
            return problem.message
        return ""
