# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Only well-formed findings of a node are accepted. A node may answer anything."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import allocation_findings
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.allocation_findings import Finding

CARD = "GPU-00000000-1111-2222-3333-444444444444"
TASK, HOLDER = "os4h3yhd38lmqy77fykgvxym7", "sznzfnmgku8fpv6rmqqbwynu1"
GOOD = ["used-by-another", CARD, TASK, HOLDER, "python3", 1764000000]


def test_a_finding_is_read_as_it_was_written():
    assert allocation_findings.as_lists(allocation_findings.valid_findings(json.loads(json.dumps([GOOD])))) == [GOOD]
    mig = ["outside", CARD.replace("GPU", "MIG"), "", "", "alice (python3)", 0]
    assert allocation_findings.valid_findings([mig, GOOD, mig]) == [Finding(*GOOD), Finding(*mig)]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, "hidden"), (0, ""), (0, None), (1, "GPU-1"), (1, CARD + "\n"), (1, CARD.upper()), (2, "A"), (2, "x" * 33), (2, "a b"), (2, 5),
        (3, "../x"), (3, None), (4, None), (4, ["x"]), (5, -1), (5, True), (5, "5"), (5, 1.5), (5, 10**12),
    ],
)  # fmt: skip
def test_invalid_findings_are_skipped(place, value):
    assert allocation_findings.valid_findings([[*GOOD[:place], value, *GOOD[place + 1 :]], GOOD]) == [Finding(*GOOD)]


@pytest.mark.parametrize("value", [None, 5, "x", {}, {"a": 1}, [5], [[]], [GOOD[:-1]], [GOOD + ["more"]], ["abcdef"]])
def test_other_values_are_no_finding(value):
    assert allocation_findings.valid_findings(value) == []


@pytest.mark.parametrize("name", ["idle", "not-held"])
def test_a_finding_about_a_task_names_it(name):
    assert allocation_findings.valid_findings([[name, CARD, "", "", "x", 1]]) == []


def test_texts_are_printable_and_short_and_the_number_of_findings_is_limited():
    (one,) = allocation_findings.valid_findings([[*GOOD[:4], "\x1b[2K\n" + "\u202e" * 500, 1]])
    assert (one.by.isprintable(), len(one.by), one.by[:8]) == (True, 64, "\\x1b[2K\\")
    many = [["outside", CARD, "", "", f"user {place}", 1] for place in range(10000)]
    assert len(allocation_findings.valid_findings(many)) == allocation_findings.MAX_FINDINGS
    assert allocation_findings.valid_findings([*many[:5], GOOD])[0] == Finding(*GOOD)


ONE = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(GOOD)
ANY = st.recursive(ONE, lambda more: st.lists(more) | st.dictionaries(st.text(), more))


@given(ANY | st.lists(st.tuples(*[st.sampled_from(GOOD) | st.text()] * 5, st.integers() | st.floats())))
def test_any_answer_of_a_node_is_a_finding_or_skipped(value):
    for one in allocation_findings.valid_findings(value):
        assert allocation_findings.valid_findings([list(one)]) == [one]
        assert one.by.isprintable()
        assert len(one.by) <= 64
