# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the owners of services (pure). Private to this collection; it may change without notice."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

# The label of services that names their owner.
OWNER = "gpu-swarm.owner"


def owners_of(services: Iterable[Mapping[str, Any]], label: str = OWNER) -> dict[str, str]:
    """Return the owners of services by service name. Services without an owner are not listed."""
    labels = {service["Spec"]["Name"]: service["Spec"].get("Labels") or {} for service in services}
    return {name: own_labels[label] for name, own_labels in labels.items() if own_labels.get(label)}
