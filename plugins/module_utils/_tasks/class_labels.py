# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the label in which a service names the classes of nodes that it needs (pure).

Only the controller interprets these texts, because only the controller knows which image runs on which CPU.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

LABEL = "gpu-swarm.classes"


def needed_classes(services: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the texts of this label of the services, sorted and without repeats."""
    values = {(service["Spec"].get("Labels") or {}).get(LABEL) for service in services}
    return sorted(text for text in values if isinstance(text, str) and text)
