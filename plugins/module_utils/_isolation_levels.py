# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The levels of isolation, from no guard to the strictest level. Labels, settings and reports contain these names.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

OFF, AUDIT, RESERVED, EXCLUSIVE = LEVELS = ("off", "audit", "reserved", "exclusive")
