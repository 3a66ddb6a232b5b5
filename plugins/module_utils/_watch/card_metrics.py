# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the cards of a node are doing, as metrics for node_exporter (pure). docs/reference/metrics.md lists the same metrics.

Private to this collection; it may change without notice. The names, labels and values of the metrics are what users build on.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from .._textfile import exposition
from .._textfile.exposition import Metric, Sample

READ = Metric("gpu_swarm_cards_read_timestamp_seconds", (), "When the watcher read the cards, by the clock of the node.")
_OF_CARD = ("UUID",)
THROTTLED = Metric("gpu_swarm_card_throttled", (*_OF_CARD, "reason"), "A reason for which the clock of a card is low at present.")
# The last two values are the key in cards.json, and the factor for the unit of the metric.
_VALUES = (
    (Metric("gpu_swarm_card_temperature_celsius", _OF_CARD, "Temperature of a card."), "temperature_c", 1),
    (Metric("gpu_swarm_card_power_watts", _OF_CARD, "Power that a card draws."), "power_w", 1),
    (Metric("gpu_swarm_card_power_limit_watts", _OF_CARD, "Power limit of a card."), "power_limit_w", 1),
    (
        Metric("gpu_swarm_card_utilisation_ratio", _OF_CARD, "Part of the last moment in which a card computed, from 0 to 1."),
        "utilisation_percent",
        0.01,
    ),
    (Metric("gpu_swarm_card_memory_used_bytes", _OF_CARD, "Used memory of a card or MIG device."), "memory_used_mib", 1 << 20),
    (Metric("gpu_swarm_card_memory_size_bytes", _OF_CARD, "Memory of a card or MIG device."), "memory_mib", 1 << 20),
    (Metric("gpu_swarm_card_sm_clock_hertz", _OF_CARD, "Clock of the multiprocessors of a card."), "sm_clock_mhz", 1000000),
    (Metric("gpu_swarm_card_processes", _OF_CARD, "Number of processes on a card or MIG device."), "processes", 1),
)
METRICS = (READ, *(metric for metric, _key, _factor in _VALUES), THROTTLED)


def rendered(cards: Iterable[Mapping[str, Any]], now: float) -> str:
    """Return the content of the file. ``cards`` are rows of _gpu/activity. Values that NVML does not report have no line."""
    return exposition.text(_samples(cards, now), METRICS)


def _samples(cards: Iterable[Mapping[str, Any]], now: float) -> Iterator[Sample]:
    yield Sample(READ, (), now)
    for card in cards:
        for metric, key, factor in _VALUES:
            if card[key] is not None:
                yield Sample(metric, (card["uuid"],), round(card[key] * factor, 3))
        for reason in card["throttle"] or ():
            yield Sample(THROTTLED, (card["uuid"], reason), 1)
