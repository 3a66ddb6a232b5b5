# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._config import daemon_json, engine_labels
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import ConfigError

KEY = "fleet.gpu-swarm.health"
FILES = {
    "none": None,
    "empty": b"",
    "an object": b"{}\n",
    "in one line": b'{ "log-opts": {"max-size": "10m"},   "debug":false}',
    "with labels": b'{\n  "labels": ["rack=r1",\n    "row=2"],\n  "debug": true\n}\n',
    "with an empty list": b'{"labels": []}',
    "CRLF": b'{\r\n   "log-driver": "local",\t"labels": [ "rack=r1" ]\r\n}',
    "a mark": b'\xef\xbb\xbf{"debug": true}',
}


def labels(content):
    return json.loads(content.decode("utf-8-sig")).get("labels")


@pytest.mark.parametrize("name", FILES)
def test_a_label_is_added_and_removed(name):
    original = FILES[name]
    others = (daemon_json.parse(original, "f").get("labels")) or []
    content = engine_labels.set_label(original, "f", KEY, "ok")
    assert labels(content) == [*others, f"{KEY}=ok"]
    assert engine_labels.set_label(content, "f", KEY, "ok") == content
    changed = engine_labels.set_label(content, "f", KEY, "fault xid=79")
    assert labels(changed) == [*others, f"{KEY}=fault xid=79"]
    assert engine_labels.read_label(changed, "f", KEY) == "fault xid=79"
    assert labels(engine_labels.without_label(changed, "f", KEY)) == others
    taken = engine_labels.undo_label(changed, "f", KEY, original)
    if others:
        assert taken == original
    assert daemon_json.parse(taken, "f") == daemon_json.parse(original, "f")
    assert engine_labels.undo_label(engine_labels.without_label(changed, "f", KEY), "f", KEY, original) == taken


def test_later_labels_of_others_stay():
    content = engine_labels.set_label(b"{}", "f", KEY, "ok")
    content = content.replace(b'health=ok"', b'health=ok", "rack=r1"')
    assert labels(engine_labels.undo_label(content, "f", KEY, b"{}")) == ["rack=r1"]


def test_without_the_label_nothing_changes():
    content = FILES["with labels"]
    assert engine_labels.read_label(content, "f", KEY) is None
    assert engine_labels.without_label(content, "f", KEY) == content
    assert engine_labels.undo_label(content, "f", KEY, content) == content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"labels": "rack=r1"}', "labels is a string"),
        (b'{"labels": ["rack=r1", 1]}', "labels is a list"),
        (b'{"labels": {"rack": "r1"}}', "labels is an object"),
        (b'{"labels": [], "labels": []}', "labels occurs more than once"),
        (b'{"labels": [', "it is not JSON"),
    ],
)
def test_labels_that_dockerd_would_refuse_stay_untouched(content, words):
    with pytest.raises(ConfigError, match=words):
        engine_labels.set_label(content, "f", KEY, "ok")


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (["-H", "fd://", "--debug"], []),
        (["--label=rack=r1"], ["--label"]),
        (["--label", "rack=r1", "--max-concurrent-downloads=3"], ["--label", "--max-concurrent-downloads"]),
        (["--authorization-plugin=opa"], ["--authorization-plugin"]),
        (["--labels-file=x"], []),
    ],
)
def test_flags_for_labels_are_lost_with_a_reload(flags, found):
    assert engine_labels.blocking_flags(flags) == found
