# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the table of metrics in docs/reference/metrics.md from the code."""

from __future__ import annotations

from plugins.module_utils._metrics.metric_names import METRICS

from .blocks import table


def listed() -> str:
    rows = [(f"`{metric.name}`", ", ".join(f"`{label}`" for label in metric.labels) or "–", metric.help) for metric in METRICS]
    return table(("metric", "labels", "meaning"), rows)
