# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on a host, a node or a service. It decides the exit status of a run, and the colour of a row.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from enum import Enum


class Verdict(str, Enum):
    """The result of a run for a host. The values are printed under the table, before the names of the hosts."""

    DONE = "done"  # exit status 0
    WAITING = "waiting"  # exit status 75, unless a host is untouched or failed
    UNTOUCHED = "untouched"  # exit status 2, like a failed host
    FAILED = "failed"  # exit status 2
