# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of modules that release a lease.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from .._isolation_levels import LEVELS

LEASE_END_OPTIONS = dict(
    outcomes=dict(type="dict"),
    always=dict(type="bool", default=False),
    isolation=dict(
        type="dict",
        options=dict(
            level=dict(type="str", choices=list(LEVELS)),
            nodes=dict(type="dict"),
            listed=dict(type="list", elements="str"),
            found=dict(type="dict"),
            whole=dict(type="bool", default=False),
            allocation_findings=dict(type="dict"),
        ),
    ),
    queues=dict(type="dict"),
)
