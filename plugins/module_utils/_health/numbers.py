# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIA's numbers of errors (XIDs): which make a card unfit for work, and which say nothing about it (pure).

Sources: NVIDIA's catalogue (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), by its immediate action, and NVIDIA's
device plugin for Kubernetes (internal/rm/health.go) for those of an application. Apart from what is done with them: every call of a
module loads its defaults. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

# Immediate action RESET_GPU or RESTART_BM; 48 and 74 by their workflows, which begin with taking the card out of use.
FAULTS = (46, 48, 62, 64, 74, 79, 95, 119, 120, 140, 155, 156)
# The application's own, as the device plugin has them; and those of the catalogue for which nothing is to be done or the application to be
# restarted: 63 a row that was remapped, 92 many corrected errors, 93 wear, 94 a contained error, 121 and 157.
IGNORED = (13, 31, 43, 45, 63, 68, 92, 93, 94, 109, 121, 157)
