# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the tables of metrics in docs/reference/metrics.md from the code."""

from __future__ import annotations

from collections.abc import Iterable

from plugins.module_utils._metrics.metric_names import METRICS
from plugins.module_utils._textfile.exposition import Metric
from plugins.module_utils._watch.card_metrics import METRICS as CARD_METRICS

from .blocks import table


def listed() -> str:
    return _table(METRICS)


def of_cards() -> str:
    return _table(CARD_METRICS)


def _table(metrics: Iterable[Metric]) -> str:
    rows = [(f"`{metric.name}`", ", ".join(f"`{label}`" for label in metric.labels) or "–", metric.help) for metric in metrics]
    return table(("metric", "labels", "meaning"), rows)
