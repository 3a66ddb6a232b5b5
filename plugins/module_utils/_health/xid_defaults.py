# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The defaults for NVIDIA's error numbers (XIDs): the numbers that are faults of a card, and the numbers that are ignored (pure).

Sources: the immediate actions in NVIDIA's catalogue (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), and NVIDIA's device
plugin for Kubernetes (internal/rm/health.go) for errors of applications. This file is separate because each call of a module loads these defaults.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

# Errors with the immediate action RESET_GPU or RESTART_BM. Also 48 and 74, because their workflows first take the card out of service.
FAULTS = (46, 48, 62, 64, 74, 79, 95, 119, 120, 140, 155, 156)
# Errors of applications, from the device plugin. Also errors for which the catalogue recommends no action or a restart of the application:
# 63 a remapped row, 92 many corrected errors, 93 wear, 94 a contained error, 121 and 157.
IGNORED = (13, 31, 43, 45, 63, 68, 92, 93, 94, 109, 121, 157)
