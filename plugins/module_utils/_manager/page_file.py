# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps the page of the fleet up to date in a directory that a web server may serve.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
from typing import Any

from .._errors import GpuSwarmError
from .._ledger.reading import Reading
from .._page.page import page
from .._page.page_data import page_data
from .._page.page_rows import no_rows, page_rows
from .._record.database import open_for_reading
from .fleet_view import FleetView
from .readings import AT_MOST_S, EVERY_S
from .shared_directories import write_file

NAME = "index.html"


class PageFile:
    """The page in ``directory``. ``template`` is the path of its template. ``record`` is the directory of the record, or ''."""

    def __init__(self, directory: str, template: str, record: str, view: FleetView, grafana_url: str) -> None:
        self._directory = directory
        self._template = template
        self._record = record
        self._view = view
        self._grafana_url = grafana_url
        self._last_at: float | None = None

    def observe(self, reading: Reading) -> list[str]:
        """Replace the page. Return why it lacks the record. Raises GpuSwarmError."""
        try:
            with open(self._template, encoding="utf-8") as stream:
                template = stream.read()
        except OSError as problem:
            raise GpuSwarmError(
                "The template of the page cannot be read: %s: %s. Run provision again." % (self._template, problem.strerror)
            ) from problem
        recorded, lines = self._recorded(reading.at)
        status, cards = self._view.of(reading)
        data = page_data(
            status,
            cards,
            at=reading.at,
            manager=reading.manager_hostname,
            grafana_url=self._grafana_url,
            interval=self._interval(reading),
            **recorded,
        )
        write_file(self._directory, NAME, page(template, data))
        return lines

    def _recorded(self, at: float) -> tuple[dict[str, Any], list[str]]:
        """Return the rows of the record, and why there are none."""
        if not self._record:
            return no_rows(), []
        try:
            with contextlib.closing(open_for_reading(self._record)) as db:
                return page_rows(db, at), []
        except GpuSwarmError as problem:
            return no_rows(), ["the page lacks usage and events: %s" % problem.message]

    def _interval(self, reading: Reading) -> float:
        """Return the time between two readings, as it was last time. It is longer in a large fleet."""
        usual = EVERY_S if reading.leads else AT_MOST_S
        passed = 0.0 if self._last_at is None else reading.at - self._last_at
        self._last_at = reading.at
        return min(max(usual, passed), AT_MOST_S)
