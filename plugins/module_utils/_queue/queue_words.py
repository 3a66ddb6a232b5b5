# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The words for the states of work, and for the reasons why work waits (pure).

This file imports no other code, because most commands need only these words.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

# The states in the label of a service. People see admitted work as starting, running or lost, and work that cannot be queued as refused.
WAITING, ADMITTED, OVER, HELD = "waiting", "admitted", "over", "held"
STARTING, RUNNING, LOST, UNQUEUED = "starting", "running", "lost", "refused"
# The order in which people see the states.
SHOWN = (RUNNING, STARTING, LOST, WAITING, UNQUEUED, HELD, OVER)
UNKNOWN = ""  # the name of one row for all queues that the swarm does not have

# One word for each reason, for metrics and tests.
NO_QUEUE, GANG, TOO_LARGE, NEVER, CLOSED, UNLABELLED = "no-queue", "gang", "larger-than-cap", "fits-nowhere", "nodes-closed", "no-data-address"
CAP, OWNER_CAP, NEXT, KEPT, MOVED, REFUSED, NO_ROOM = "cap", "owner-cap", "next", "kept-for-next", "kept-for-run", "refused-there", "no-room"
ROUND, BEHIND, PULLS = "next-round", "behind", "pulls-image"
# Reasons that the view of the queues adds to those of ``admit``.
MAY_START, TAKEN_BACK, NOT_SERVED, CANNOT_QUEUE = "may-start", "taken-back", "not-served", "cannot-be-queued"
