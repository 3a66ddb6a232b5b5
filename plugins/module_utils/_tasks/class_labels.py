# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which classes of nodes services need (pure), as labels of these services say.

What they say is understood on the controller only, which knows what a CPU runs.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

LABEL = "gpu-swarm.classes"


def needed(services: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the services' labels say, each text once."""
    found = {(service["Spec"].get("Labels") or {}).get(LABEL) for service in services}
    return sorted(text for text in found if isinstance(text, str) and text)
