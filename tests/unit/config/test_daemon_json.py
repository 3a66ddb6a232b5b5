# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._config.daemon_json import Want, edit, parse, undo_edit
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import ConfigError

PATH = "/etc/docker/daemon.json"
BOTH = ["NVIDIA-GPU=GPU-a", "NVIDIA-GPU=GPU-b"]
WANT = Want(BOTH, ["NVIDIA-GPU"])

NEW = b"""\
{
    "default-runtime": "nvidia",
    "runtimes": {
        "nvidia": {
            "path": "nvidia-container-runtime"
        }
    },
    "node-generic-resources": [
        "NVIDIA-GPU=GPU-a",
        "NVIDIA-GPU=GPU-b"
    ]
}
"""


def edited(content, want=WANT):
    """Return the new content, after checks that hold for every edit."""
    result = edit(content, PATH, want).content
    assert edit(result, PATH, want).content == result
    assert undo_edit(result, PATH, content, want) == content
    return result


# --- reading, with dockerd's rules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "doc"),
    [
        (None, {}),
        (b"", {}),
        (b" \r\n\t", {}),
        (b"\xef\xbb\xbf", {}),
        (b'\xef\xbb\xbf{"debug": true}', {"debug": True}),
        (b"\xff\xfe" + '{"x": "ü"}'.encode("utf-16-le"), {"x": "ü"}),
        (b"\xfe\xff" + '{"x": "ü"}'.encode("utf-16-be"), {"x": "ü"}),
    ],
)
def test_a_document_is_parsed(content, doc):
    assert parse(content, PATH) == doc


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{\n  "debug": true,\n}', "line [23], column"),
        (b'{"debug": true} x', "Extra data at line 1, column 17"),
        (b'{"debug": NaN}', "NaN is not a JSON value"),
        (b"{'debug': true}", "line 1, column 2"),
        (b'[{"debug": true}]', "a list, but dockerd expects an object"),
        (b"null", "null, but dockerd expects an object"),
        (b"7", "a number, but dockerd expects an object"),
        (b'"x"', "a string, but"),
        (b'{"x": "\xff"}', "not utf-8 text .byte 7"),
        (b"[" * 200_000, "nested too deeply"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_file_that_dockerd_cannot_read_is_an_error(content, reason):
    for function in (parse, lambda content, path: edit(content, path, WANT)):
        with pytest.raises(ConfigError, match=f"^{PATH}: .*{reason}.*run this again"):
            function(content, PATH)


def test_a_syntax_error_does_not_show_the_content():
    with pytest.raises(ConfigError) as caught:
        parse(b'{"proxies": {"http-proxy": "http://user:hunter2@proxy"} oops', PATH)
    assert "hunter2" not in caught.value.message


# --- editing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [None, b"", b"\n", b"{}\n", b"{ }\n"])
def test_a_new_file(nothing):
    assert edited(nothing) == NEW


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            '{"a": 1}',
            '{"a": 1, "default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}},'
            ' "node-generic-resources": ["NVIDIA-GPU=GPU-a", "NVIDIA-GPU=GPU-b"]}',
            id="one line",
        ),
        pytest.param(
            '{"a":1,"b":[]}',
            '{"a":1,"b":[],"default-runtime":"nvidia","runtimes":{"nvidia":{"path":"nvidia-container-runtime"}},'
            '"node-generic-resources":["NVIDIA-GPU=GPU-a","NVIDIA-GPU=GPU-b"]}',
            id="minified",
        ),
        pytest.param(
            '{\n\t"a": 1e400\n}',
            '{\n\t"a": 1e400,\n\t"default-runtime": "nvidia",\n\t"runtimes": {\n\t\t"nvidia": {\n\t\t\t"path":'
            ' "nvidia-container-runtime"\n\t\t}\n\t},\n\t"node-generic-resources": [\n\t\t"NVIDIA-GPU=GPU-a",'
            '\n\t\t"NVIDIA-GPU=GPU-b"\n\t]\n}',
            id="tabs, no newline at the end, a number too big for Python",
        ),
        pytest.param(
            '{\r\n  "runtimes" : {\r\n    "runc2" : {"path" : "runc2"}\r\n  },\r\n  "ü" : "\\u00fc"\r\n}\r\n',
            '{\r\n  "runtimes" : {\r\n    "runc2" : {"path" : "runc2"},\r\n    "nvidia" : {\r\n      "path" :'
            ' "nvidia-container-runtime"\r\n    }\r\n  },\r\n  "ü" : "\\u00fc",\r\n  "default-runtime" : "nvidia",'
            '\r\n  "node-generic-resources" : [\r\n    "NVIDIA-GPU=GPU-a",\r\n    "NVIDIA-GPU=GPU-b"\r\n  ]\r\n}\r\n',
            id="CRLF, blanks before the colon, escapes",
        ),
        pytest.param(
            '{\n "node-generic-resources": [\n  "SSD=1",\n  "nvidia-gpu=GPU-old",\n  "FPGA=x",\n  "NVIDIA-GPU=GPU-b"\n ],'
            '\n "default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}\n}\n',
            '{\n "node-generic-resources": [\n  "SSD=1",\n  "NVIDIA-GPU=GPU-a",\n  "NVIDIA-GPU=GPU-b",\n  "FPGA=x"\n ],'
            '\n "default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}\n}\n',
            id="other entries keep their places, our entries move to the place of the first",
        ),
        pytest.param(
            '{"default-runtime": "runc", "runtimes": {}, "node-generic-resources": []}',
            '{"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}},'
            ' "node-generic-resources": ["NVIDIA-GPU=GPU-a", "NVIDIA-GPU=GPU-b"]}',
            id="empty values",
        ),
        pytest.param(
            '{"node-generic-resource": ["NVIDIA-GPU=GPU-x"], "a": {"default-runtime": "x"}}',
            '{"a": {"default-runtime": "x"}, "default-runtime": "nvidia", "runtimes": {"nvidia": {"path":'
            ' "nvidia-container-runtime"}}, "node-generic-resources": ["NVIDIA-GPU=GPU-a", "NVIDIA-GPU=GPU-b"]}',
            id="the singular key had only owned entries",
        ),
    ],
)
def test_edit_touches_only_our_keys(before, after):
    assert edited(before.encode()) == after.encode()


def test_nothing_to_change_gives_the_same_object():
    assert edit(NEW, PATH, WANT) == (NEW, [])
    assert edit(NEW, PATH, WANT).content is NEW


@pytest.mark.parametrize("bom", [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"])
def test_a_byte_order_mark_and_the_encoding_stay(bom):
    encoding = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}[bom]
    result = edited(bom + '{"ü": 1}'.encode(encoding))
    assert result.startswith(bom)
    assert result[len(bom) :].decode(encoding).startswith('{"ü": 1, "default-runtime"')


def test_a_megabyte_is_edited_in_time():
    doc = {f"key-{number}": "ü" * 50 for number in range(10_000)}
    content = json.dumps(doc, indent=2, ensure_ascii=False).encode()
    assert len(content) > 1_000_000
    result = edited(content)
    assert result.startswith(content[:-2])
    assert parse(result, PATH) == {**doc, **parse(NEW, PATH)}


@pytest.mark.parametrize(
    ("entry", "kept"),
    [
        ({"path": "/usr/bin/nvidia-container-runtime", "runtimeArgs": []}, True),
        ({"path": "nvidia-container-runtime", "args": ["x"]}, True),
        ({"path": "/opt/guard"}, True),
        ({"runtimeType": "io.containerd.runc.v2"}, True),
        ({"runtimeArgs": ["--debug"]}, False),
        ({"path": "", "x": 1}, False),
    ],
)
def test_the_users_runtime_stays(entry, kept):
    result = parse(edited(json.dumps({"runtimes": {"nvidia": entry}}).encode()), PATH)
    wanted = entry if kept else {**entry, "path": "nvidia-container-runtime"}
    assert result["runtimes"] == {"nvidia": wanted}


def test_a_runtime_that_is_not_nvidias_is_reported():
    notes = edit(b'{"runtimes": {"nvidia": {"path": "/opt/guard"}}}', PATH, WANT).notes
    assert notes == [f"{PATH}: runtimes.nvidia is {{'path': '/opt/guard'}}; it was not changed."]


def test_without_a_runtime_only_resources_are_set():
    want = WANT._replace(runtime_path=None)
    assert parse(edited(b"{}", want), PATH) == {"node-generic-resources": BOTH}


def test_our_resources_of_a_former_kind_are_removed():
    before = json.dumps({"node-generic-resources": ["GPU=GPU-a", "GPU=theirs", "SSD=1"]}).encode()
    result = parse(edited(before, WANT._replace(written=["GPU=GPU-a"])), PATH)
    assert result["node-generic-resources"] == [*BOTH, "GPU=theirs", "SSD=1"]


def test_without_resources_no_key_is_written():
    none = Want([], ["NVIDIA-GPU"])
    assert "node-generic-resources" not in parse(edited(b"{}", none), PATH)
    assert parse(edited(NEW, none), PATH)["node-generic-resources"] == []


def test_adoptions_are_reported():
    before = {"default-runtime": "runc", "node-generic-resources": ["nvidia-gpu=GPU-c143e771", *BOTH]}
    assert edit(json.dumps(before).encode(), PATH, WANT).notes == [
        f"{PATH}: default-runtime was 'runc'.",
        f"{PATH}: node-generic-resources listed 'nvidia-gpu=GPU-c143e771', which the policy decides.",
    ]


@pytest.mark.parametrize(
    ("value", "left"),
    [(["NVIDIA-GPU=x", "SSD=1"], ["SSD=1"]), (["SSD=1"], ["SSD=1"]), ("NVIDIA-GPU=x", "NVIDIA-GPU=x"), ([], [])],
)
def test_the_singular_key_is_read(value, left):
    before = json.dumps({"node-generic-resource": value}).encode()
    (note,) = edit(before, PATH, WANT).notes
    assert "dockerd ignores the key node-generic-resource." in note
    assert parse(edited(before), PATH)["node-generic-resource"] == left


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"default-runtime": 1}', "default-runtime is a number .1., but dockerd expects a string"),
        ('{"runtimes": ["nvidia"]}', "runtimes is a list"),
        ('{"runtimes": null}', "runtimes is null"),
        ('{"runtimes": {"nvidia": "x"}}', "runtimes.nvidia is a string .'x'., but dockerd expects an object"),
        ('{"runtimes": {"nvidia": {"path": []}}}', "runtimes.nvidia.path is a list"),
        ('{"node-generic-resources": "SSD=1"}', "node-generic-resources is a string .'SSD=1'., but dockerd expects a list"),
        ('{"node-generic-resources": {"SSD": 1}}', "node-generic-resources is an object"),
        ('{"node-generic-resources": [1]}', "an entry of node-generic-resources is a number .1."),
        ('{"node-generic-resources": ["SSD"]}', "'SSD' is not of the form KIND=value"),
        ('{"node-generic-resources": ["SSD=1", "SSD=a"]}', "the kind SSD mixes a number"),
        ('{"runtimes": {}, "a": 1, "runtimes": {}}', "runtimes occurs more than once"),
        ('{"runtimes": {"nvidia": {}, "nvidia": {}}}', "runtimes.nvidia occurs more than once"),
        ('{"runtimes": {"nvidia": {"path": "a", "runtimeArgs": [], "path": "b"}}}', "runtimes.nvidia.path occurs more than once"),
        ('{"runtimes": {"nvidia": {"path": "a", "Path": "b"}}}', "runtimes.nvidia.path occurs more than once"),
        ('{"runtimes": {"nvidia": {"PATH": "a"}}}', "dockerd reads runtimes.nvidia.PATH as runtimes.nvidia.path"),
        ('{"runtimes": {"nvidia": {"runtimeType": "a", "runtimetype": "b"}}}', "runtimes.nvidia.runtimeType occurs more than once"),
        ('{"node-generic-resources": [], "node-generic-resources": []}', "node-generic-resources occurs more"),
    ],
)
def test_values_that_cannot_be_merged_are_an_error(content, reason):
    with pytest.raises(ConfigError, match=f"^{PATH}: .*{reason}.*run this again"):
        edit(content.encode(), PATH, WANT)


def test_a_long_value_is_shortened_in_the_error():
    with pytest.raises(ConfigError) as caught:
        edit(json.dumps({"runtimes": ["x" * 5000]}).encode(), PATH, WANT)
    assert len(caught.value.message) < 250


def test_our_entries_replace_a_count_of_the_same_kind():
    assert parse(edited(b'{"node-generic-resources": ["nvidia-gpu=4"]}'), PATH)["node-generic-resources"] == BOTH


# --- taking out -----------------------------------------------------------------------------------------------------


FORMER = b"""\
{
  "default-runtime": "runc",
  "runtimes": {"nvidia": { "runtimeArgs": [] },  "kata": {"path": "kata"}},
  "node-generic-resources": [ "SSD=1",   "NVIDIA-GPU=GPU-old" ],
  "debug": false
}
"""


@pytest.mark.parametrize(
    ("original", "theirs"),
    [
        pytest.param(FORMER, (b'"debug": false', b'"debug": true'), id="another key changed"),
        pytest.param(FORMER, (b'{\n  "default', b'{\n  "log-level": "warn",\n  "default'), id="a key added in front"),
        pytest.param(FORMER, (b"false\n}", b'false,\n  "z": 1\n}'), id="a key added at the end"),
        pytest.param(b'{"a": 1}', (b'{"a": 1', b'{"b": 2, "a": 1'), id="our keys did not exist"),
        pytest.param(b'{"a": 1, "runtimes": { } }', (b'{"a": 1', b'{"b": 2, "a": 1'), id="empty runtimes"),
        pytest.param(b'{"a": 1, "runtimes": {"nvidia": {}} }', (b'{"a": 1', b'{"b": 2, "a": 1'), id="an empty entry"),
    ],
)
def test_edits_of_others_elsewhere_survive_to_the_byte(original, theirs):
    later = edit(original, PATH, WANT).content.replace(*theirs)
    assert later != edit(original, PATH, WANT).content
    assert undo_edit(later, PATH, original, WANT) == original.replace(*theirs)


def later(change, original=b'{"a": 1}'):
    """Return parse(take_out(...)) after someone changed the document that we had written."""
    doc = parse(edit(original, PATH, WANT).content, PATH)
    change(doc)
    return parse(undo_edit(json.dumps(doc).encode(), PATH, original, WANT), PATH)


def test_edits_of_our_keys_by_others_stay():
    assert later(lambda doc: doc.update({"default-runtime": "kata"})) == {"a": 1, "default-runtime": "kata"}
    assert later(lambda doc: doc.pop("default-runtime"), FORMER) == {
        key: value for key, value in parse(FORMER, PATH).items() if key != "default-runtime"
    }
    entry = {"path": "nvidia-container-runtime", "runtimeArgs": ["--x"]}
    assert later(lambda doc: doc["runtimes"].update(nvidia=entry)) == {"a": 1, "runtimes": {"nvidia": entry}}


def test_others_resources_survive():
    assert later(lambda doc: doc["node-generic-resources"].append("SSD=1")) == {"a": 1, "node-generic-resources": ["SSD=1"]}
    restored = later(lambda doc: doc["node-generic-resources"].remove("SSD=1"), FORMER)
    assert restored["node-generic-resources"] == ["NVIDIA-GPU=GPU-old"]
    assert "node-generic-resources" not in later(lambda doc: doc.pop("node-generic-resources"))


def test_others_runtimes_survive():
    kata = {"path": "kata"}
    assert later(lambda doc: doc["runtimes"].update(kata=kata)) == {"a": 1, "runtimes": {"kata": kata}}
    for original in (FORMER, b'{"runtimes": {"nvidia": {}}}'):
        former = parse(original, PATH)
        restored = later(lambda doc: doc["runtimes"].update(x=kata), original)
        assert restored == {**former, "runtimes": {**former["runtimes"], "x": kata}}


def test_the_singular_key_is_restored():
    original = b'{"node-generic-resource": ["NVIDIA-GPU=x"], "a": 1}'
    assert later(lambda doc: doc.update(b=2), original) == {**parse(original, PATH), "b": 2}


def test_after_two_edits_the_first_original_counts():
    first = edit(FORMER, PATH, WANT).content
    want = Want(["NVIDIA-GPU=GPU-a"], ["NVIDIA-GPU"], BOTH)
    assert undo_edit(edit(first, PATH, want).content, PATH, FORMER, want) == FORMER


@pytest.mark.parametrize("original", [None, b"", b" {\n}"])
def test_a_file_with_nothing_else_in_it_is_removed(original):
    first = edit(original, PATH, WANT).content
    want = Want(["GPU=GPU-a"], ["GPU"], BOTH)
    assert undo_edit(edit(first, PATH, want).content, PATH, original, want) == original


def test_a_removed_file_is_not_made_again():
    assert undo_edit(None, PATH, FORMER, WANT) is None
