# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The width for the tables of this run.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os

from ...module_utils._view.fold import fold_text


def width(columns: int) -> int:
    """Return COLUMNS of the environment, or else ``columns``, the width that Ansible read. Ansible's width is at least 79 on a terminal, and 79 in a
    pipe or a log.

    An action cannot query the terminal, because Ansible runs it in a process without a terminal.
    """
    wanted = os.environ.get("COLUMNS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) else columns


def fit(text: str, columns: int) -> str:
    """Fold text that is printed during a run, so that its lines fit the terminal. Escape codes in the text have no effect."""
    return fold_text(text, width(columns))
