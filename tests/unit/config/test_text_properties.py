# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No edit of daemon.json or config.toml loses a setting of the user."""

from __future__ import annotations

import json

import tomli
from dockerd_lab import document
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._config import daemon_json, runtime_toml, toml_statements
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import ConfigError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard import toolkit_config
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy import generic_resources

examples = settings(max_examples=100)

# --- daemon.json ----------------------------------------------------------------------------------------------------

PATH = "daemon.json"
KINDS = ["NVIDIA-GPU", "VRAM"]
OUR_KEYS = ("default-runtime", "runtimes", "node-generic-resources")

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**30), max_value=10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
other_entries = st.lists(
    st.sampled_from(["FPGA=a", "FPGA=b", "X=ü", "nvidia-gpu=old", "NVIDIA-GPU=GPU-1", "gpu=x"]), max_size=5
) | st.just(["SSD=1", "NVIDIA-GPU=4"])
other_runtimes = st.dictionaries(
    st.sampled_from(["kata", "runsc", "ü"]), st.dictionaries(st.sampled_from(["path", "runtimeArgs"]), st.just("x")), max_size=2
)
nvidia_entries = st.sampled_from(
    [{}, {"path": "nvidia-container-runtime"}, {"path": "/opt/guard", "args": []}, {"runtimeArgs": ["-x"]}]
)


@st.composite
def documents(draw):
    """Make a document with some of our keys and some other keys."""
    doc = dict(draw(st.dictionaries(st.text(max_size=12), json_values, max_size=5)))
    for key in (*OUR_KEYS, "node-generic-resource"):
        doc.pop(key, None)
    runtimes = draw(other_runtimes)
    if draw(st.booleans()):
        runtimes["nvidia"] = draw(nvidia_entries)
    owned = {
        "default-runtime": draw(st.sampled_from(["runc", "nvidia"])),
        "runtimes": runtimes,
        "node-generic-resources": draw(other_entries),
        "node-generic-resource": draw(other_entries),
    }
    members = [*doc.items(), *((key, owned[key]) for key in draw(st.sets(st.sampled_from(sorted(owned)))))]
    return dict(draw(st.permutations(members)))


@st.composite
def layouts(draw):
    """Choose how a document is written."""
    indent = draw(st.sampled_from([None, 0, 1, 4, "\t"]))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")])) if indent is None else None
    escape, eol = draw(st.booleans()), draw(st.sampled_from(["\n", "\r\n"]))
    start, end = draw(st.sampled_from(["", "\ufeff", "\n "])), draw(st.sampled_from(["", "\n", " \n\n"]))

    def write(doc):
        text = json.dumps(doc, indent=indent, separators=separators, ensure_ascii=escape) + end
        return start.encode() + text.replace("\n", eol).encode("utf-8", "surrogatepass")

    return write


wants = st.builds(
    daemon_json.Want,
    st.sampled_from([[], ["NVIDIA-GPU=GPU-1"], ["NVIDIA-GPU=GPU-1", "NVIDIA-GPU=GPU-2", "VRAM=8000"]]),
    st.just(KINDS),
    st.sampled_from([[], ["gpu=x"]]),
    st.sampled_from(["nvidia-container-runtime", None]),
    st.just(()),
)
moved = st.lists(st.sampled_from(["SSD=2", "FPGA=c", "nvidia-gpu=old", "Ω=ü"]), max_size=3)


def edit_json(content, want):
    return daemon_json.edit(content, PATH, want).content


def is_owned(entry, want):
    return entry.split("=")[0].upper() in KINDS or entry in want.written


def others(doc, want):
    """Return the document without the parts that an edit may change."""
    rest = {key: value for key, value in doc.items() if key not in (*OUR_KEYS, "node-generic-resource")}
    rest["runtimes"] = {key: value for key, value in doc.get("runtimes", {}).items() if key != "nvidia"}
    for key in ("node-generic-resources", "node-generic-resource"):
        rest[key] = [entry for entry in doc.get(key, []) if not is_owned(entry, want)]
    nvidia = doc.get("runtimes", {}).get("nvidia", {})
    rest["nvidia"] = {key: value for key, value in nvidia.items() if key != "path"}
    return rest


@examples
@given(documents(), layouts(), wants)
def test_json_edit_changes_only_our_parts(doc, write, want):
    before, after = document(write(doc)), document(edit_json(write(doc), want))
    assert others(after, want) == others(before, want)
    assert [key for key in after if key in before] == [key for key in before if key in after]
    owned = [entry for entry in after.get("node-generic-resources", []) if is_owned(entry, want)]
    assert owned == want.resources
    generic_resources.parse(after.get("node-generic-resources", []))
    if want.runtime_path:
        assert after["default-runtime"] == "nvidia"
        assert after["runtimes"]["nvidia"]["path"] in ("nvidia-container-runtime", "/opt/guard")


@examples
@given(documents(), layouts(), wants)
def test_editing_json_twice_changes_nothing_more(doc, write, want):
    once = edit_json(write(doc), want)
    assert edit_json(once, want) == once


@examples
@given(documents(), layouts(), wants)
def test_json_every_other_member_keeps_its_bytes(doc, write, want):
    content = write(doc)
    text, after = (part.decode("utf-8-sig") for part in (content, edit_json(content, want)))
    box, new = _json_box(text), _json_box(after)
    for item in box.items:
        if item.key not in (*OUR_KEYS, "node-generic-resource"):
            found = new.find(item.key)
            assert after[found.start : found.end] == text[item.start : item.end]
    assert after[: new.open] == text[: box.open]
    assert after[new.close :] == text[box.close :]


def _json_box(text):
    return daemon_json.json_text.scan(text)


@examples
@given(documents(), layouts(), wants)
def test_taking_out_of_json_restores_the_original(doc, write, want):
    content = write(doc)
    assert daemon_json.undo_edit(edit_json(content, want), PATH, content, want) == content


@examples
@given(documents(), layouts(), wants)
def test_taking_out_of_json_keeps_an_edit_elsewhere_to_the_byte(doc, write, want):
    assume(doc)
    assume("node-generic-resource" not in doc)  # an entry that is removed loses its position

    def theirs(content):
        return content.replace(b"{", b'{"their own key": [1 , 2],', 1)

    assume("their own key" not in doc)
    content = write(doc)
    assert daemon_json.undo_edit(theirs(edit_json(content, want)), PATH, content, want) == theirs(content)


@examples
@given(documents(), layouts(), layouts(), wants, st.data())
def test_taking_out_of_json_keeps_all_changes_of_others(doc, write, rewrite, want, data):
    """Others change, add and remove their values, and reformat the whole file."""
    content = write(doc)
    gone = data.draw(st.sets(st.sampled_from(sorted(doc)))) - {*OUR_KEYS, "node-generic-resource"} if doc else set()
    new = data.draw(st.dictionaries(st.text(max_size=4).map("their {}".format), json_values, max_size=3))
    entries = data.draw(st.lists(st.just("THEIRS=x"), max_size=1))
    runtimes = data.draw(st.dictionaries(st.just("theirs"), st.just({"path": "y"})))

    def theirs(document):
        result = {key: value for key, value in json.loads(json.dumps(document)).items() if key not in gone}
        result.update(new)
        if entries:
            result["node-generic-resources"] = [*result.get("node-generic-resources", []), *entries]
        if runtimes:
            result["runtimes"] = {**result.get("runtimes", {}), **runtimes}
        return result

    edited = rewrite(theirs(document(edit_json(content, want))))
    restored = daemon_json.undo_edit(edited, PATH, content, want)
    assert in_no_order(document(restored)) == in_no_order(theirs(document(content)))


def in_no_order(doc):
    """Sort the entries. Entries of several owners may change places, because dockerd ignores the order."""
    return {**doc, "node-generic-resources": sorted(doc.get("node-generic-resources", ["absent"]))}


@examples
@given(st.integers(min_value=1, max_value=150), wants)
def test_json_deep_nesting(depth, want):
    content = b'{"a": ' + b'[{"b":' * depth + b"1" + b"}]" * depth + b"}"
    assert edit_json(content, want).startswith(content[:-1])


@examples
@given(documents(), layouts(), wants, moved)
def test_json_entries_from_another_file_appear_once_and_are_removed_again(doc, write, want, moved):
    content, want = write(doc), want._replace(moved=moved)
    try:
        edited = edit_json(content, want)
    except ConfigError:
        assume(False)
    listed = document(edited).get("node-generic-resources", [])
    theirs = [one for one in dict.fromkeys(moved) if one not in ("nvidia-gpu=old",)]
    assert all(listed.count(one) >= 1 for one in theirs)
    assert all(listed.count(one) == 1 for one in theirs if one not in doc.get("node-generic-resources", []))
    assert edit_json(edited, want) == edited
    assert daemon_json.undo_edit(edited, PATH, content, want) == content


# --- config.toml ----------------------------------------------------------------------------------------------------

NAME = "DOCKER_RESOURCE_NVIDIA-GPU"
LINE = f'swarm-resource = "{NAME}"'

toml_values = st.sampled_from(
    [
        "1",
        '"ü # no comment"',
        "'a\"b'",
        '"a\\"b"',
        "nan",
        "1979-05-27",
        "[]",
        "[ # [\n  'x]', # swarm-resource = 1\n\n  [2]\n]",
        "{ a = '}', b = [1] }",
        '"""\nswarm-resource = "X"\n[nvidia-container-runtime]\nmode = 1\n"""',
        "'''\n#swarm-resource = 1\n[t]\n''''",
        '"""a\\"""b\\\n  c""""',
    ]
)
fillers = st.sampled_from(["", "# comment ü", "  # [x]", "#swarm-resource = \"X\"", "\t"])


@st.composite
def toml_texts(draw, recipes=True):
    """Make a config.toml. With ``recipes``, our lines are also in the places where recipes add them."""
    tables = draw(st.lists(st.sampled_from(["nvidia-container-runtime", "a.b", '"x]y"', "'q'"]), unique=True, max_size=3))
    lines = []
    for number, table in enumerate([None, *tables]):
        if table:
            lines.append(f"[{table}] # {number}")
        for key in range(draw(st.integers(0, 3))):
            lines.append(draw(fillers))
            lines.append(f"{draw(st.sampled_from(['', '  ']))}key-{key} = {draw(toml_values)}{draw(st.sampled_from(['', ' # c']))}")
        if table == "nvidia-container-runtime" and draw(st.booleans()):
            lines.append('mode = "auto" # default')
        if recipes or not table:
            times = draw(st.integers(0, 2 if recipes else 1))
            lines += [draw(st.sampled_from(['swarm-resource = "X"', "'swarm-resource'=\"X,Y\" # y", LINE]))] * times
    eol = draw(st.sampled_from(["\n", "\r\n"]))
    return eol.join(line.replace("\n", eol) for line in lines) + draw(st.sampled_from(["", eol]))


toml_wants = st.builds(runtime_toml.Want, st.sampled_from([NAME, f"{NAME},OTHER", ""]), st.sampled_from([None, "legacy"]))


def edit_toml(content, want):
    return runtime_toml.edit(content, PATH, want, tomli.loads).content


def rest_of(doc):
    """Return the document without our keys. In the returned form, nan equals nan."""
    if isinstance(doc, dict):
        return {key: rest_of(value) for key, value in doc.items() if key != "swarm-resource"}
    return repr(doc)


def without_mode(doc):
    rest = rest_of(doc)
    rest.setdefault("nvidia-container-runtime", {}).pop("mode", None)
    return rest


@examples
@given(toml_texts(recipes=False), toml_wants)
def test_toml_edit_changes_only_our_parts(text, want):
    before, after = tomli.loads(text), tomli.loads(edit_toml(text.encode(), want).decode())
    assert after.get("swarm-resource", "") == want.swarm_resource
    if want.mode:
        assert after["nvidia-container-runtime"]["mode"] == "legacy"
        assert without_mode(after) == without_mode(before)
    else:
        assert rest_of(after) == rest_of(before)


@examples
@given(toml_texts(), toml_wants)
def test_after_a_recipe_toml_has_one_line_at_the_top(text, want):
    after = edit_toml(text.encode(), want).decode()
    assert tomli.loads(after).get("swarm-resource", "") == want.swarm_resource
    keys = [one for one in runtime_toml.toml_text.statements(after) if one.kind == "key" and one.name[-1] == "swarm-resource"]
    assert [one.table for one in keys] == ([()] if want.swarm_resource else [])
    assert edit_toml(after.encode(), want) == after.encode()


@examples
@given(toml_texts(), toml_wants)
def test_taking_out_of_toml_restores_the_original(text, want):
    content = text.encode()
    assert runtime_toml.undo_edit(edit_toml(content, want), PATH, content, want, tomli.loads) == content


@examples
@given(toml_texts(recipes=False), st.sampled_from([NAME, f"{NAME},OTHER"]))
def test_taking_out_of_toml_keeps_an_edit_elsewhere_to_the_byte(text, names):
    want, eol = runtime_toml.Want(names), "\r\n" if "\r\n" in text else "\n"

    def theirs(content):
        return f"# theirs{eol}their-key = 'ü'{eol}".encode() + content

    content = text.encode()
    restored = runtime_toml.undo_edit(theirs(edit_toml(content, want)), PATH, content, want, tomli.loads)
    assert restored == theirs(content)


@examples
@given(toml_texts(recipes=False), toml_wants)
def test_taking_out_of_toml_keeps_all_changes_of_others(text, want):
    content = text.encode()
    later = b"[their-table]\nx = 1\n"
    start = b"" if text.endswith("\n") or not text else b"\n"
    edited = edit_toml(content, want)
    edited += (b"" if edited.endswith(b"\n") or not edited else b"\n") + later
    restored = runtime_toml.undo_edit(edited, PATH, content, want, tomli.loads)
    expected = tomli.loads((content + start + later).decode())
    assert tomli.loads(restored.decode()).get("swarm-resource") == expected.get("swarm-resource")
    assert rest_of(tomli.loads(restored.decode())) == rest_of(expected)


@examples
@given(toml_texts(recipes=False))
def test_toml_edit_keeps_every_other_line(text):
    """Comments, order, blank lines and line endings are unchanged."""
    content = text.encode()
    assume("swarm-resource" not in tomli.loads(text))
    lines = edit_toml(content, runtime_toml.Want(NAME)).decode().splitlines()
    owned = [line for line in lines if line.strip() == LINE]
    assert len(owned) == 1
    lines.remove(owned[0])
    assert lines == text.splitlines()


BLANKS = st.text("ab,\u00fc \t#[]{}=.", max_size=4)
INSIDE = st.lists(st.one_of(BLANKS, st.sampled_from([r"\"", r"\\", r"\n", r"\u0041", r"\U0001F600", r"\t", r"\b"])), max_size=4).map("".join)
STRINGS = st.one_of(
    st.builds('"{}"'.format, INSIDE),
    st.builds("'{}'".format, BLANKS),
    st.builds('"""{}{}{}"""'.format, st.sampled_from(["", "\n", "\r\n"]), INSIDE, st.sampled_from(["", "\n[t]\nx = 1", "\\\n   c", "\\  \n\n d"])),
    st.builds("'''{}{}{}'''".format, st.sampled_from(["", "\n", "\r\n"]), BLANKS, st.sampled_from(["", "\nswarm-resource = 1", '"'])),
)


@examples
@given(STRINGS, st.sampled_from(["swarm-resource", '"swarm-resource"', "'swarm-resource'", '"swarm\\u002dresource"']), toml_texts(recipes=False))
def test_any_form_of_string_is_read_as_a_parser_reads_it(value, key, text):
    """The guard reads config.toml with this function, because not every Python has a TOML parser."""
    text = f"{key} = {value}\nother = {value}\n{text}" if "swarm-resource" not in tomli.loads(text) else text
    read = tomli.loads(text)["swarm-resource"]
    assert list(toolkit_config.listed_variables(text)) == list(dict.fromkeys(word.strip() for word in read.split(",") if word.strip()))


@examples
@given(toml_texts(recipes=False))
def test_every_key_is_found_with_its_text_and_inside_braces(text):
    text = f'top = {{a = "1", b = {{c = [1, {{d = 2}}], "e.f" = \'x,y\'}}, g.h = """\n}}"""}}\n{text}'
    found = {one.name: toml_statements.unquote(text[one.value_at : one.value_end]) for one in toml_statements.keys(text)}
    for name, value in _flat(tomli.loads(text)):
        if isinstance(value, str):
            assert found[name].replace("\r\n", "\n") == value, name
        else:
            assert name in found


def _flat(doc, before=()):
    for key, value in doc.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, (*before, key))
        elif not isinstance(value, dict):
            yield (*before, key), value


def test_headers_and_comments_are_no_keys():
    text = '# no-cgroups = true\n[nvidia-container-runtime] # mode = "csv"\n  # mode = "legacy"\nmode = "cdi" # or "auto"\n'
    found = [(one.name, toml_statements.unquote(text[one.value_at : one.value_end])) for one in toml_statements.keys(text)]
    assert found == [(("nvidia-container-runtime", "mode"), "cdi")]
