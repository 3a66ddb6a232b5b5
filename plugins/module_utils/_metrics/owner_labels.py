# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The values of the label ``owner`` (pure). Anybody who may start services can write any number of owners, so the number of values is limited.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from .._textfile.exposition import LONGEST_VALUE
from .bounds import OTHERS, heaviest

# The most owners. All further owners share one value.
MOST_OWNERS = 50


def owner_labels(ledger: Mapping[str, Any]) -> dict[str, str]:
    """Return the value of the label ``owner`` for each service with allocated resources; '' for a service without an owner.

    The owners with the largest allocations keep their names.
    """
    owners = ledger.get("owners") or {}
    of_services: dict[str, str] = {}
    amounts: dict[tuple[str, str], int] = {}
    for service, kind, amount in allocations(ledger):
        owner = of_services[service] = (owners.get(service) or "")[:LONGEST_VALUE]
        amounts[owner, kind] = amounts.get((owner, kind), 0) + amount
    weights: dict[str, float] = {}
    for (owner, _kind), amount in amounts.items():
        weights[owner] = max(weights.get(owner, 0), amount)
    largest = {"", *heaviest(((owner, weight) for owner, weight in weights.items() if owner), MOST_OWNERS)}
    return {service: owner if owner in largest else OTHERS for service, owner in of_services.items()}


def allocations(ledger: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield the service, the kind and the amount of each allocated resource."""
    for record in ledger["nodes"]:
        for kind, entry in record["resources"].items():
            for item in entry["held"]:
                yield item["service"] or "", kind, item.get("amount", 1)
