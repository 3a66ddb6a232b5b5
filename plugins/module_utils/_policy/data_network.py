# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The labels of a node with the interface and the address that the members of a gang use to reach each other on the host's network (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

ADDRESS, INTERFACE = "gpu-swarm.data-address", "gpu-swarm.data-interface"
