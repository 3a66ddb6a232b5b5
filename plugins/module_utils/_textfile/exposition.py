# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes samples in Prometheus' text format (pure).

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format.
No library is used, because it would have to be installed on each manager.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Iterable, NamedTuple

# A hostile node must not fill the file with a long name.
LONGEST_VALUE = 128
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
_ESCAPED = str.maketrans(_ESCAPES)


class Metric(NamedTuple):
    """A gauge. ``labels`` have the same order as in the file. ``help`` is a sentence."""

    name: str
    labels: tuple[str, ...]
    help: str


class Sample(NamedTuple):
    """One value of a metric. ``labels`` are the values of its labels, in the metric's order."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


def text(samples: Iterable[Sample], metrics: Iterable[Metric]) -> str:
    """Return the content of the file. ``metrics`` are all metrics, in the order of the file.

    If two samples have the same labels, only the first sample is written, because node_exporter rejects duplicates.
    """
    lines: dict[str, dict[str, str]] = {}
    for sample in samples:
        lines.setdefault(sample.metric.name, {}).setdefault(_labels(sample), number(sample.value))
    output = []
    for metric in metrics:
        if metric.name in lines:
            output += ["# HELP %s %s" % (metric.name, _help(metric.help)), "# TYPE %s gauge" % metric.name]
            output += ["%s%s %s" % (metric.name, labels, value) for labels, value in sorted(lines[metric.name].items())]
    return "\n".join(output) + "\n" if output else ""


def _labels(sample: Sample) -> str:
    pairs = ['%s="%s"' % (name, escaped(value)) for name, value in zip(sample.metric.labels, sample.labels)]
    return "{%s}" % ",".join(pairs) if pairs else ""


def escaped(value: str) -> str:
    """Return a label's value, escaped for use between quotes.

    Characters that UTF-8 cannot encode, such as half a surrogate pair, become question marks.
    """
    return value[:LONGEST_VALUE].encode("utf-8", "replace").decode("utf-8").translate(_ESCAPED)


def _help(sentence: str) -> str:
    return sentence.replace("\\", "\\\\").replace("\n", "\\n")


def number(value: float) -> str:
    """Return the value as text. Whole numbers have no exponent, so that people can read a time in seconds."""
    return "%d" % value if value == int(value) else repr(float(value))
