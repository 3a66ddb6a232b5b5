# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._config import shm_size
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import ConfigError, GpuSwarmError

PATH = "/etc/docker/daemon.json"
SIZES = {"1g": 2**30, "1G": 2**30, "512m": 2**29, "512MiB": 2**29, "2gb": 2**31, "1048576": 2**20, "1048576b": 2**20, "1024k": 2**20, "1t": 2**40}
WRONG = ["1", "64", "1023k", "0", "-1g", "1gi", "1.5g", "1 g", "g", "1gbb", "lots", "8388608t", "9" * 40 + "g", "1g\n", "٣g", True, ["1g"], {"a": 1}]


@pytest.mark.parametrize("text", SIZES)
def test_sizes_of_docker_are_read(text):
    assert shm_size.parse_size(text) == SIZES[text]
    shm_size.check_size(text)


@pytest.mark.parametrize("value", WRONG, ids=lambda value: repr(value)[:20])
def test_other_values_are_an_error(value):
    assert shm_size.parse_size(value) is None
    with pytest.raises(GpuSwarmError, match="default_shm_size is .*, but must be a size of 1m or more. Write it as 1g or 512m"):
        shm_size.check_size(value)


@pytest.mark.parametrize("value", [None, "", 1048576, 2**40])
def test_nothing_and_a_number_are_accepted(value):
    shm_size.check_size(value)


# (before, after setting 1g)
EDITS = [
    (None, b'{\n    "default-shm-size": "1g"\n}\n'),
    (b"", b'{\n    "default-shm-size": "1g"\n}\n'),
    (b'{"a": 1}', b'{"a": 1, "default-shm-size": "1g"}'),
    (b'{"default-shm-size":\t"64M", "a": [ ]}', b'{"default-shm-size":\t"1g", "a": [ ]}'),
    (b'{"default-shm-size": 67108864}', b'{"default-shm-size": "1g"}'),
    (b'{"default-shm-size": null}', b'{"default-shm-size": "1g"}'),
]


@pytest.mark.parametrize(("before", "after"), EDITS)
def test_only_this_key_changes_and_its_original_returns(before, after):
    assert shm_size.set_size(before, PATH, "1g") == after
    assert shm_size.set_size(after, PATH, "1g") is after
    undone = shm_size.undo_size(after, PATH, {shm_size.ON_RECORD: ["1g"], **shm_size.replaced_by(before, PATH, {})})
    assert undone == before if before else undone.split() == [b"{}"]


@pytest.mark.parametrize("value", ["1G", "1gb", "1024m", "1073741824"])
def test_the_same_size_in_other_words_stays(value):
    content = b'{"default-shm-size": "%s"}' % value.encode()
    assert shm_size.set_size(content, PATH, "1g") is content


def test_a_value_that_somebody_changed_since_stays():
    changed = b'{"default-shm-size": "4g"}'
    assert shm_size.undo_size(changed, PATH, {shm_size.ON_RECORD: ["1g"]}) is changed
    assert shm_size.undo_size(None, PATH, {shm_size.ON_RECORD: ["1g"]}) is None


@pytest.mark.parametrize("content", [b'{"default-shm-size": "1g", "default-shm-size": "2g"}', b"[]", b"{"])
def test_a_file_with_two_values_or_of_another_form_is_an_error(content):
    with pytest.raises(ConfigError, match="/etc/docker/daemon.json: "):
        shm_size.set_size(content, PATH, "1g")
