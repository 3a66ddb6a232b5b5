# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Node labels that are true of a node's GPUs (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

MIXED = "mixed"


def node_labels(gpus):
    """``gpu.count``, ``gpu.model`` and ``gpu.architecture`` of the GPUs that a node advertises; {} where it has none."""
    if not gpus:
        return {}
    labels = {
        "gpu.count": str(len(gpus)),
        "gpu.model": _common(gpu.get("model") for gpu in gpus),
        "gpu.architecture": _common(gpu.get("architecture") for gpu in gpus),
    }
    return {key: value for key, value in labels.items() if value is not None}


def _common(values):
    """The one value that all agree on, else ``mixed``; None where nobody knows."""
    known = set(values)
    return known.pop() if len(known) == 1 else MIXED
