# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.owned_labels import (
    KEEP,
    REMOVE,
    SET,
    add_maintained,
    compute,
    maintained,
    mark,
    normalise,
)

PREFIX = "gpu-swarm."
RECORD = "gpu-swarm.labels"
DEVICE = "gpu-swarm.device.rdma"


@pytest.mark.parametrize(
    ("now", "wanted", "labels", "clashes"),
    [
        ({}, {}, {}, []),
        ({}, {"a": "1"}, {"a": "1", RECORD: "a"}, []),
        ({"x": "bob"}, {"b": "1", "a": "1"}, {"x": "bob", "a": "1", "b": "1", RECORD: "a,b"}, []),
        ({"a": "1", RECORD: "a"}, {"a": "2"}, {"a": "2", RECORD: "a"}, []),
        ({"a": "1", "x": "bob", RECORD: "a"}, {}, {"x": "bob"}, []),
        ({"a": "1", "b": "1", RECORD: "a,b"}, {"b": "1"}, {"b": "1", RECORD: "b"}, []),
        ({"a": "1"}, {"a": "1"}, {"a": "1"}, []),
        ({"a": "1", "b": "1", RECORD: "b"}, {"a": "1"}, {"a": "1"}, []),
        ({RECORD: "a,b"}, {"a": "1"}, {"a": "1", RECORD: "a"}, []),
        ({RECORD: ""}, {}, {}, []),
        ({"a": "bob", "b": "bob"}, {"a": "1", "b": "1"}, {"a": "bob", "b": "bob"}, ["a", "b"]),
        ({"a": ""}, {"a": "1"}, {"a": ""}, ["a"]),
        ({DEVICE: "true", RECORD: DEVICE}, {}, {}, []),
    ],
    ids=[
        "nothing",
        "new",
        "beside others'",
        "changed",
        "all recorded ones away",
        "some recorded ones away",
        "equal but not recorded",
        "equal but not recorded, and recorded ones away",
        "taken away by hand",
        "empty record",
        "clash",
        "clash with an empty value",
        "a device that the node no longer has",
    ],
)
def test_labels_are_computed(now, wanted, labels, clashes):
    assert compute(now, wanted, PREFIX) == (labels, clashes)


def test_recorded_but_unknown_labels_stay():
    now = {"cpu.a": "1", "cpu.b": "bob", "gpu.c": "1", RECORD: "cpu.a,gpu.c"}
    assert compute(now, {}, PREFIX, ["cpu."]) == ({"cpu.a": "1", "cpu.b": "bob", RECORD: "cpu.a"}, [])
    assert compute(now, {"cpu.a": "2"}, PREFIX, ["cpu."])[0]["cpu.a"] == "2"
    assert compute(now, {}, PREFIX, []) == ({"cpu.b": "bob"}, [])


keys = st.sampled_from(["a", "b", "c", "gpu.model"])
dicts = st.dictionaries(keys, st.sampled_from(["1", "2"]))


@given(now=dicts, first=dicts, second=dicts)
def test_only_recorded_labels_are_removed_and_without_a_trace(now, first, second):
    labels, clashes = compute(now, first, PREFIX)
    if clashes:
        return
    assert first.items() <= labels.items()
    assert compute(labels, first, PREFIX) == (labels, [])
    changed, clashes = compute(labels, second, PREFIX)
    assert {key: value for key, value in changed.items() if key in now} == now
    assert clashes == compute(now, second, PREFIX)[1]
    assert compute(changed, {}, PREFIX) == (now, [])


@pytest.mark.parametrize(("value", "text"), [("H100", "H100"), ("", ""), (True, "true"), (False, "false"), (8, "8"), (9.0, "9.0")])
def test_values_become_strings(value, text):
    assert normalise({"gpu.x": value}, PREFIX, "n1") == {"gpu.x": text}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"a,b": "1"}, "'a,b'"),
        ({"": "1"}, "''"),
        ({"a b": "1"}, "'a b'"),
        ({"a=b": "1"}, "'a=b'"),
        ({"a\n": "1"}, "is not a valid key"),
        ({7: "1"}, "7"),
        ({"gpu-swarm.labels": "x"}, "own records"),
        ({"a": None}, "None"),
        ({"a": ["x"]}, "['x']"),
    ],
)
def test_invalid_labels_are_refused(labels, expected):
    with pytest.raises(GpuSwarmError) as caught:
        normalise(labels, PREFIX, "n1")
    assert expected in caught.value.message
    assert "n1" in caught.value.message


@pytest.mark.parametrize(
    ("before", "done", "after"),
    [
        (None, "a", "a"),
        ("a", "b", "a,b"),
        ("a,b", "a", "a,b"),
        ("0,1,2,3,4,5,6,7,8,9", "10", "1,2,3,4,5,6,7,8,9,10"),
    ],
)
def test_the_latest_maintenances_are_recorded(before, done, after):
    labels = {"a": "1", **({"gpu-swarm.maintained": before} if before else {})}
    noted = add_maintained(labels, done, PREFIX)
    assert noted == {"a": "1", "gpu-swarm.maintained": after}
    assert maintained(noted, PREFIX) == after.split(",")
    assert maintained({}, PREFIX) == []


def test_records_of_a_host_are_removed_with_its_mark():
    labels = {"a": "1", "gpu-swarm.host": "g1", "gpu-swarm.maintained": "x"}
    assert mark(labels, "g1", REMOVE, PREFIX) == {"a": "1"}
    assert mark(labels, "g1", SET, PREFIX) == mark(labels, "g1", KEEP, PREFIX) == labels


def test_consent_to_exclude_a_card_is_no_difference_in_the_next_run():
    now = {"fleet.gpu-swarm.left-out": "ok reason=lost gpu=5", "gpu-swarm.labels": "fleet.gpu-swarm.left-out"}
    assert compute(now, {"fleet.gpu-swarm.left-out": "fault reason=lost gpu=5"}, "gpu-swarm.") == (now, [])
    assert compute(now, {}, "gpu-swarm.") == ({}, [])
