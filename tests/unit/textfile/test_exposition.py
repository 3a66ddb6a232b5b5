# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text format: Prometheus can read any name of a node or service."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._metrics.metric_names import METRICS, NODE_DRIFT, PENDING, SNAPSHOT
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._textfile.exposition import LONGEST_VALUE, Sample, escaped, number, text


def parsed(*samples):
    return [(one.name, one.labels, one.value) for family in text_string_to_metric_families(text(samples, METRICS)) for one in family.samples]


@given(st.text(max_size=LONGEST_VALUE), st.floats(allow_nan=False, allow_infinity=False))
def test_written_metrics_can_be_read_back(name, value):
    readable = name.encode("utf-8", "replace").decode()
    assert parsed(Sample(PENDING, (name,), value)) == [(PENDING.name, {"service": readable}, pytest.approx(value))]


@pytest.mark.parametrize(
    ("value", "written"),
    [('a"b', r"a\"b"), ("a\\b", r"a\\b"), ("a\nb", r"a\nb"), ("\\n", r"\\n"), ("é", "é"), ("\ud800", "?"), ("x" * 500, "x" * LONGEST_VALUE)],
)
def test_a_value_of_a_label(value, written):
    assert escaped(value) == written


@pytest.mark.parametrize(("value", "written"), [(0, "0"), (1795225452.0, "1795225452"), (0.25, "0.25"), (-3, "-3"), (math.pi, "3.141592653589793")])
def test_a_number_has_no_exponent(value, written):
    assert number(value) == written


def test_metrics_keep_their_order_and_of_two_equal_samples_the_first_counts():
    services = [Sample(PENDING, (name,), value) for name, value in (("b", 1), ("a", 2), ("b", 3))]
    made = text([*services, Sample(NODE_DRIFT, ("g1", "n1"), 1), Sample(SNAPSHOT, (), 5)], METRICS)
    assert [line for line in made.splitlines() if not line.startswith("#")] == [
        "gpu_swarm_snapshot_timestamp_seconds 5",
        'gpu_swarm_node_drift{node="g1",node_id="n1"} 1',
        'gpu_swarm_pending_tasks{service="a"} 2',
        'gpu_swarm_pending_tasks{service="b"} 1',
    ]


def test_no_metrics_make_an_empty_file():
    assert text([], METRICS) == ""
