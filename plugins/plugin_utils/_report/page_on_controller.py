# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the page of the fleet to a file of the user, on the controller.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...module_utils._errors import GpuSwarmError
from ...module_utils._page.page import page
from ...module_utils._page.page_data import page_data
from ...module_utils._page.page_rows import no_rows
from ...module_utils._view.fleet_cards import cards
from .._page_template.page_template import page_template

# The template has this mark. A file without it is not a page, and may be the user's only copy of something else.
MARK = b'<meta name="generator" content="fleet.gpu_swarm">'
_HEAD_BYTES = 4096


def page_of(ledger: Mapping[str, Any], status: Mapping[str, Any], recorded: Mapping[str, Any], grafana_url: str, now: float) -> str:
    """Return the page. ``recorded`` is the answer of swarm_record, or has no rows. ``now`` is the time here, if the manager's time is unknown."""
    rows: dict[str, Any] = {name: recorded.get(name) for name in no_rows()}
    at, manager = recorded.get("now") or now, str(ledger.get("manager") or "")
    return page(page_template(), page_data(status, cards(ledger), at=at, manager=manager, grafana_url=grafana_url, **rows))


def write(path: str, text: str, *, check: bool) -> str:
    """Write the page so that a reader sees the old or the new page. Return a line for the user. Raises GpuSwarmError. ``check``: write nothing."""
    file = Path(path)
    try:
        _refuse_another_file(file)
        if not file.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if check:
            return f"{path}: would be written"
        new = file.with_name(f".{file.name}.new")
        new.unlink(missing_ok=True)  # a killed run left it behind
        with new.open("x", encoding="utf-8") as stream:
            stream.write(text)
        new.replace(file)
    except OSError as problem:
        raise GpuSwarmError(
            f"The page could not be written to {path}: {problem.strerror}. Name a file in a folder that exists, with -e to=."
        ) from problem
    return f"{path}: written, {len(text.encode()) / 1e6:.1f} MB. Open it in a browser."


def _refuse_another_file(file: Path) -> None:
    if not file.exists():
        return
    with file.open("rb") as stream:
        if MARK not in stream.read(_HEAD_BYTES):
            raise GpuSwarmError(f"{file} exists and is no page of a fleet, so it was not overwritten. Name another file with -e to=, or remove it.")
