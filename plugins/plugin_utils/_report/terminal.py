# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How wide the tables of this run may be.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os


def width(columns: int) -> int:
    """The environment's COLUMNS, else ``columns``: what Ansible has from the terminal, and 79 in a pipe, a log or a terminal of fewer.

    An action cannot look itself: Ansible runs it in a process without a terminal.
    """
    wanted = os.environ.get("COLUMNS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) else columns
