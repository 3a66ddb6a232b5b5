# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError, messages_of
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queues import (
    LONGEST_LABEL,
    MOST_QUEUES,
    Queue,
    check_queues,
    duration_s,
    from_label,
    shown_duration,
    to_label,
)

GPU = "NVIDIA-GPU"
RESEARCH = {"weight": 3, "max": {GPU: 24}, "per_owner": {GPU: 8}, "time_limit": "24h"}


def test_queues_are_read_from_the_setting():
    queues = check_queues(
        {"research": RESEARCH, "nightly": {"weight": 1, "priority": -10, "time_limit": "8h"}, "endless": {"time_limit": "none"}, "a": None}
    )
    assert queues == {
        "a": Queue("a", 1, {}, {}, 0, 86400),
        "endless": Queue("endless", time_limit_s=None),
        "nightly": Queue("nightly", 1, {}, {}, -10, 28800),
        "research": Queue("research", 3, {GPU: 24}, {GPU: 8}, 0, 86400),
    }
    assert list(queues) == sorted(queues)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ([], "gpu_swarm_queues is []. Write a dictionary"),
        (None, "gpu_swarm_queues is None."),
        ({"q%d" % number: {} for number in range(MOST_QUEUES + 1)}, "has 33 queues, and may have 32"),
        ({"Research": {}}, "'Research' is not a valid name of a queue"),
        ({"-a": {}}, "'-a' is not a valid name"),
        ({"a" * 33: {}}, "is not a valid name"),
        ({"a\n": {}}, "is not a valid name"),
        ({1: {}}, "1 is not a valid name"),
        ({"a": 3}, "the queue a is 3. Write a dictionary"),
        ({"a": {"wieght": 3}}, "the queue a has the option 'wieght'. The options are weight, max, per_owner, priority, time_limit"),
        ({"a": {"weight": 0}}, "weight of the queue a is 0. Write a number above 0"),
        ({"a": {"weight": -1}}, "weight of the queue a is -1."),
        ({"a": {"weight": 1001}}, "weight of the queue a is 1001."),
        ({"a": {"weight": True}}, "weight of the queue a is True."),
        ({"a": {"weight": "3"}}, "weight of the queue a is '3'."),
        ({"a": {"weight": float("nan")}}, "weight of the queue a is nan."),
        ({"a": {"max": 8}}, "max of the queue a is 8. Write amounts"),
        ({"a": {"max": {GPU: -1}}}, "max.NVIDIA-GPU of the queue a is -1."),
        ({"a": {"max": {GPU: True}}}, "max.NVIDIA-GPU of the queue a is True."),
        ({"a": {"per_owner": {GPU: 1.5}}}, "per_owner.NVIDIA-GPU of the queue a is 1.5."),
        ({"a": {"max": {"a b": 1}}}, "max of the queue a: 'a b' cannot be the name of a kind"),
        ({"a": {"max": {1: 1}}}, "1 cannot be the name of a kind"),
        ({"a": {"max": {"k%d" % number: 1 for number in range(9)}}}, "at most 8 resource kinds"),
        ({"a": {"priority": 1.0}}, "priority of the queue a is 1.0."),
        ({"a": {"priority": 1001}}, "priority of the queue a is 1001."),
        ({"a": {"time_limit": 24}}, "time_limit of the queue a is 24. Write a duration"),
        ({"a": {"time_limit": "24"}}, "time_limit of the queue a is '24'."),
        ({"a": {"time_limit": "0h"}}, "time_limit of the queue a is '0h'."),
        ({"a": {"time_limit": None}}, "time_limit of the queue a is None. Write a duration such as 90s, 30m, 24h or 7d, or none."),
    ],
)
def test_a_wrong_setting_is_one_clear_error(setting, words):
    with pytest.raises(GpuSwarmError) as raised:
        check_queues(setting)
    (message,) = messages_of(raised.value)
    assert words in message
    assert message.startswith("gpu_swarm_queues")


def test_all_errors_are_listed_at_once():
    with pytest.raises(GpuSwarmError) as raised:
        check_queues({"a": {"weight": 0, "priority": "high"}, "B": {}})
    assert len(messages_of(raised.value)) == 3


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("24h", 86400),
        ("7d", 604800),
        ("0s", None),
        ("h", None),
        ("1 h", None),
        ("-1h", None),
        ("1h\n", None),
        ("", None),
        (5, None),
    ],
)
def test_durations(text, seconds):
    assert duration_s(text) == seconds


@pytest.mark.parametrize(("seconds", "text"), [(90, "90s"), (1800, "30m"), (86400, "24h"), (172800, "2d"), (90000, "25h"), (1, "1s")])
def test_durations_are_shown_in_their_largest_unit(seconds, text):
    assert shown_duration(seconds) == text


def test_the_label_has_no_defaults():
    assert to_label(check_queues({"research": RESEARCH, "a": {}})) == (
        '{"a":{},"research":{"max":{"NVIDIA-GPU":24},"per_owner":{"NVIDIA-GPU":8},"weight":3}}'
    )


names = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,31}", fullmatch=True)
amounts = st.dictionaries(st.sampled_from([GPU, "VRAM", "NVIDIA-MIG-1g"]), st.integers(0, 10**6))
options = st.fixed_dictionaries(
    {},
    optional={
        "weight": st.integers(1, 1000) | st.floats(0.01, 1000),
        "max": amounts,
        "per_owner": amounts,
        "priority": st.integers(-1000, 1000),
        "time_limit": st.sampled_from(["none", "24h", "8h", "90s", "7d", "48h", "1441m"]),
    },
)


@given(st.dictionaries(names, options, max_size=MOST_QUEUES))
def test_the_label_is_read_back_as_it_was_written(setting):
    queues = check_queues(setting)
    text = to_label(queues)
    assert from_label(text) == queues
    assert to_label(from_label(text)) == text
    assert len(text) <= LONGEST_LABEL


def test_a_swarm_without_the_label_has_no_queues():
    assert from_label(None) == from_label("") == {}
    assert from_label("{}") == {}


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[]",
        "{",
        "[" * 100000,
        '{"a":{"weight":NaN}}',
        '{"a":{"weight":1e999}}',
        '{"A":{}}',
        '{"a":{"x":1}}',
        "x" * (LONGEST_LABEL + 1),
        "9" * 5000,
    ],
)
def test_an_unreadable_label_is_one_error_with_its_remedy(text):
    with pytest.raises(GpuSwarmError) as raised:
        from_label(text)
    assert raised.value.message.startswith("The label gpu-swarm.queues of the swarm is unreadable: ")
    assert raised.value.message.endswith(". Run provision to write it again.")
    assert "\n" not in raised.value.message
    assert len(raised.value.message) < 500


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(), lambda inner: st.dictionaries(st.text(max_size=9), inner)
    )
)
def test_any_label_is_read_or_refused(value):
    text = json.dumps(value)
    try:
        queues = from_label(text)
    except GpuSwarmError:
        return
    assert from_label(to_label(queues)) == queues


def test_the_longest_setting_fits_the_label():
    kinds = {"%s%d" % ("k" * 63, number): 10**6 for number in range(8)}
    queues = check_queues({"%s%02d" % ("q" * 30, number): {"max": kinds, "per_owner": kinds} for number in range(MOST_QUEUES)})
    with pytest.raises(GpuSwarmError, match="characters in the swarm, and may take"):
        to_label(queues)
