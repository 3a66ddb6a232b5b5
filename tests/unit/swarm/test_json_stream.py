# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.json_stream import objects

VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(st.lists(st.dictionaries(st.text(), VALUES)), st.integers(1, 40), st.integers(1, 60), st.sampled_from([None, 1]), st.booleans())
def test_the_stream_gives_the_same_as_json_however_it_is_split(listed, cut, piece, indent, ascii_only):
    body = (json.dumps(listed, indent=indent, ensure_ascii=ascii_only) + "\n").encode()
    chunks = [body[start : start + cut] for start in range(0, len(body), cut)]
    assert list(objects(chunks, piece)) == listed


@pytest.mark.parametrize("body", [b"[]", b"[]\n", b" [ ] ", b"null\n"])
def test_empty_lists_are_read(body):
    assert list(objects([body])) == []


@pytest.mark.parametrize(
    "body",
    [b"", b"[", b'[{"a":1}', b'[{"a":1},', b'[{"a":1},{"b":', b'{"message":"no"}', b"<html>", b"[1,2]", b'[{"a":1} x]', b'[{"a":\xff}]'],
)
def test_an_invalid_or_truncated_list_is_an_error(body):
    with pytest.raises(ValueError, match="not a list of objects|can't decode"):
        list(objects([body]))


def test_each_object_comes_before_the_next_is_read():
    read = []

    def chunks():
        for number in range(3):
            read.append(number)
            yield b'%s{"n": %d}' % (b"," if number else b"[", number)
        yield b"]"

    for number, value in enumerate(objects(chunks(), piece=1)):
        assert (value, read) == ({"n": number}, list(range(number + 1)))
