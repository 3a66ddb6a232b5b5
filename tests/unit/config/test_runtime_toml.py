# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib
import sys

import pytest
import tomli

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._config import runtime_toml
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._config.runtime_toml import Want, read_lines, undo_edit
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import ConfigError, GpuSwarmError

PATH = "/etc/nvidia-container-runtime/config.toml"
NAME = "DOCKER_RESOURCE_NVIDIA-GPU"
LINE = f'swarm-resource = "{NAME}"'
WANT = Want(NAME)

# The first lines of the file in the toolkit's package.
SHIPPED = """\
#accept-nvidia-visible-devices-as-volume-mounts = false
disable-require = false
supported-driver-capabilities = "compat32,compute,display,graphics,ngx,utility,video"
#swarm-resource = "DOCKER_RESOURCE_GPU"

[nvidia-container-cli]
#debug = "/var/log/nvidia-container-toolkit.log"
environment = []

[nvidia-container-runtime]
#debug = "/var/log/nvidia-container-runtime.log"
log-level = "info"
mode = "auto"
runtimes = ["runc", "crun"]

[nvidia-container-runtime.modes.cdi]
mode = "unrelated"
"""


def edit(content, want=WANT):
    return runtime_toml.edit(content, PATH, want, tomli.loads)


def edited(text, want=WANT):
    """Return the new text, after checks that hold for every edit."""
    content = text.encode()
    result = edit(content, want).content
    assert edit(result, want) == (result, [])
    assert undo_edit(result, PATH, content, want, tomli.loads) == content
    return result.decode()


# --- the line -------------------------------------------------------------------------------------------------------


def test_the_shipped_file_gets_the_line():
    default = '#swarm-resource = "DOCKER_RESOURCE_GPU"\n'
    assert edited(SHIPPED) == SHIPPED.replace(default, default + LINE + "\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("", f"{LINE}\n", id="empty file"),
        pytest.param("# (c)\n[t]\nx = 1\n", f"{LINE}\n# (c)\n[t]\nx = 1\n", id="no key at top level"),
        pytest.param("a = 1\nb = 2\n# on t\n[t]\n", f"a = 1\nb = 2\n{LINE}\n# on t\n[t]\n", id="after the last key"),
        pytest.param("a = 1", f"a = 1\n{LINE}", id="no newline at the end"),
        pytest.param("a = 1\r\n\r\n[t]\r\n", f"a = 1\r\n{LINE}\r\n\r\n[t]\r\n", id="CRLF"),
        pytest.param("  a = 1\n", f"  a = 1\n  {LINE}\n", id="indented"),
        pytest.param(
            '  # swarm-resource="x"\r\na = 1',
            f'  # swarm-resource="x"\r\n  {LINE}\r\na = 1',
            id="after the commented default",
        ),
        pytest.param("#swarm-resource = 1", f"#swarm-resource = 1\n{LINE}", id="after a commented default at the end"),
        pytest.param(
            "[t]\n#swarm-resource = 1\n", f"{LINE}\n[t]\n#swarm-resource = 1\n", id="a commented default in a table is ignored"
        ),
        pytest.param('swarm-resource = "X"  # mine\na = 1\n', f"{LINE}  # mine\na = 1\n", id="in place, comment kept"),
        pytest.param(
            "\"swarm-resource\"='X'\n'b' = 1\n", f"\"swarm-resource\"=\"{NAME}\"\n'b' = 1\n", id="quoted key"
        ),
        pytest.param(
            "'swarm-resource' = '''\nX\n[t]\n'''\na = 1\n", f"'swarm-resource' = \"{NAME}\"\na = 1\n", id="a string over several lines"
        ),
        pytest.param('swarm-resource = ["A", # x\n "B"]\n', f"{LINE}\n", id="a list over several lines"),
        pytest.param(
            "a = '''\nswarm-resource = 1\n[t]\n'''\n[t]\n", f"a = '''\nswarm-resource = 1\n[t]\n'''\n{LINE}\n[t]\n",
            id="the words inside a literal string",
        ),
        pytest.param(
            'a = """\n\\"""\n#swarm-resource = 1\n[t]\n""""\n', f'a = """\n\\"""\n#swarm-resource = 1\n[t]\n""""\n{LINE}\n',
            id="an escaped end of string and four quotes",
        ),
        pytest.param(
            "a = [ # [\n 1,\n 'x]', # swarm-resource = 1\n]\n[t]\n",
            f"a = [ # [\n 1,\n 'x]', # swarm-resource = 1\n]\n{LINE}\n[t]\n",
            id="a list with brackets in comments and strings",
        ),
        pytest.param('["a]b".c]\n[[d]]\n', f'{LINE}\n["a]b".c]\n[[d]]\n', id="quoted and nested headers"),
        pytest.param('ä = "ü"\n'.replace("ä", '"ä"'), f'"ä" = "ü"\n{LINE}\n', id="non-ASCII"),
        pytest.param("x = nan\nd = 1979-05-27T07:32:00Z\n", f"x = nan\nd = 1979-05-27T07:32:00Z\n{LINE}\n", id="nan"),
    ],
)
def test_the_line_stands_before_every_table(before, after):
    assert edited(before) == after


@pytest.mark.parametrize("written", [LINE, f"swarm-resource='{NAME}'", f'swarm-resource = """{NAME}"""'])
def test_a_correct_line_stays_as_it_is_written(written):
    content = f"a = 1\n{written} # mine\n".encode()
    result = edit(content)
    assert result == (content, [])
    assert result.content is content


def test_several_kinds_and_odd_characters():
    want = Want('DOCKER_RESOURCE_A,DOCKER_RESOURCE_"B\\')
    assert tomli.loads(edited("a = 1\n", want))["swarm-resource"] == want.swarm_resource


def test_no_kinds_no_line():
    assert edited(f"a = 1\n{LINE}\n[t]\n", Want("")) == "a = 1\n[t]\n"
    assert edited(SHIPPED, Want("")) == SHIPPED


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_a_megabyte_is_edited_in_time(eol):
    text = eol.join(["a = '''", "x" * 500_000, "[t]", "'''", *(f"# ü {number}" for number in range(60_000)), "[t]", ""])
    assert len(text) > 1_000_000
    assert edited(text) == text.replace(f"[t]{eol}'''{eol}", f"[t]{eol}'''{eol}{LINE}{eol}")


# --- leftovers of recipes ---------------------------------------------------------------------------------------------


def test_a_line_that_a_recipe_added_twice_becomes_one():
    content = 'swarm-resource = "DOCKER_RESOURCE_GPU"\n' * 2 + SHIPPED
    result = edit(content.encode())
    assert result.content.decode() == f"{LINE}\n" + SHIPPED
    assert result.notes == [f"{PATH}: swarm-resource occurred 2 times at the top level; one line was kept."]
    assert edited(content)


@pytest.mark.parametrize(
    ("before", "table"),
    [
        (SHIPPED + 'swarm-resource = "DOCKER_RESOURCE_GPU"\n', "nvidia-container-runtime.modes.cdi"),
        (SHIPPED + 'swarm-resource = "DOCKER_RESOURCE_GPU"', "nvidia-container-runtime.modes.cdi"),
        (SHIPPED + "\n[[list]]\n'swarm-resource' = 1\n", "list"),
        ("nvidia-container-cli.swarm-resource = 1\n" + SHIPPED.replace("[nvidia-container-cli]", "[x]"), "nvidia-container-cli"),
    ],
)
def test_a_line_in_a_table_is_removed_and_reported(before, table):
    result = edit(before.encode())
    assert tomli.loads(result.content.decode())["swarm-resource"] == NAME
    assert result.content.count(b"swarm-resource") == 2  # the commented default and the active one
    (note,) = result.notes
    assert f"was removed from the table [{table}], where it has no effect" in note
    assert edited(before)


# --- the mode -------------------------------------------------------------------------------------------------------

LEGACY = Want(NAME, "legacy")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param('[nvidia-container-runtime]\nmode = "auto" # x\n', '[nvidia-container-runtime]\nmode = "legacy" # x\n', id="in place"),
        pytest.param(
            '[nvidia-container-runtime]\na = 1\n#mode = "auto"\nb = 1\n',
            '[nvidia-container-runtime]\na = 1\n#mode = "auto"\nmode = "legacy"\nb = 1\n',
            id="after the commented default",
        ),
        pytest.param(
            "[nvidia-container-runtime]\n  a = 1\n[x]\n",
            '[nvidia-container-runtime]\nmode = "legacy"\n  a = 1\n[x]\n',
            id="after the header",
        ),
        pytest.param("[x]\na = 1", '[x]\na = 1\n\n[nvidia-container-runtime]\nmode = "legacy"\n', id="no such table"),
        pytest.param('[nvidia-container-runtime]\nmode = "legacy"\n', '[nvidia-container-runtime]\nmode = "legacy"\n', id="already legacy"),
    ],
)
def test_the_mode_is_set(before, after):
    assert edited(f"{LINE}\n" + before, LEGACY) == f"{LINE}\n" + after


def test_the_mode_is_found_as_a_dotted_key():
    before = 'nvidia-container-runtime.mode = "auto"\n'
    assert edited(before, LEGACY) == f'nvidia-container-runtime.mode = "legacy"\n{LINE}\n'


def test_only_the_mode_of_that_table():
    assert edited(SHIPPED, LEGACY).count('"legacy"') == 1


def test_values_are_read():
    assert read_lines(SHIPPED.encode()) == {"swarm_resource": None, "mode": "auto"}
    assert read_lines(edit(SHIPPED.encode(), LEGACY).content) == {"swarm_resource": NAME, "mode": "legacy"}
    assert read_lines(None) == read_lines(b"\xff[") == {"swarm_resource": None, "mode": None}


# --- taking out -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "original", [SHIPPED, SHIPPED.replace("#swarm-resource", "swarm-resource"), SHIPPED.replace("#swarm-resource", "'swarm-resource'")]
)
@pytest.mark.parametrize("want", [WANT, LEGACY, Want("")])
def test_edits_of_others_elsewhere_survive_to_the_byte(original, want):
    def theirs(text):
        return "# mine\n" + text.replace('log-level = "info"', 'log-level = "debug"') + "x = 'ü'"

    later = theirs(edit(original.encode(), want).content.decode()).encode()
    assert undo_edit(later, PATH, original.encode(), want, tomli.loads) == theirs(original).encode()


@pytest.mark.parametrize("line", ['swarm-resource = "THEIRS"', "# nothing"])
def test_edits_of_our_line_by_others_stay(line):
    later = edit(SHIPPED.encode()).content.replace(LINE.encode(), line.encode())
    assert undo_edit(later, PATH, SHIPPED.encode(), WANT, tomli.loads) == later


def test_a_table_that_we_added_is_removed():
    later = edit(b"a = 1\n", LEGACY).content + b"[z]\n"
    assert tomli.loads(undo_edit(later, PATH, b"a = 1\n", LEGACY, tomli.loads).decode()) == {"a": 1, "z": {}}


@pytest.mark.parametrize("theirs", [str, lambda text: text.replace("\n", "\r\n"), lambda text: text.partition("\n\n")[0]])
def test_a_commented_default_that_a_rewrite_dropped_is_restored(theirs):
    """When the package of the toolkit is upgraded, nvidia-ctk rewrites the file. It writes a commented default only for keys that are not set."""
    default = '#swarm-resource = "DOCKER_RESOURCE_GPU"'
    later = theirs(SHIPPED.replace(default, LINE)).encode()
    assert undo_edit(later, PATH, SHIPPED.encode(), WANT, tomli.loads) == theirs(SHIPPED).encode()


def test_after_two_edits_the_first_original_counts():
    first = edit(SHIPPED.encode()).content
    want = Want("DOCKER_RESOURCE_GPU", "legacy")
    assert undo_edit(edit(first, want).content, PATH, SHIPPED.encode(), want, tomli.loads) == SHIPPED.encode()


def test_a_removed_file_is_not_made_again():
    assert undo_edit(None, PATH, SHIPPED.encode(), WANT, tomli.loads) is None


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "does not exist. Install the NVIDIA Container Toolkit"),
        (b"a = \xff", "not UTF-8 text .byte 4"),
        (b"a = 1\nb\n", "not TOML: .*line 2"),
        (b"a = 1\na = 2\n", "not TOML: .*line 2"),
        (b"\n" * 6 + b"swarm-resource = [1", "not TOML: Unclosed array"),
        (b'a = """', "not TOML"),
        (b'{"a": 1}', "not TOML"),
        (b"swarm-resource.x = 1\n", "swarm-resource cannot be set in this layout"),
        (b'SWARM-RESOURCE = "A"\n', "it has SWARM-RESOURCE, which NVIDIA's tools read as swarm-resource. Write it in lower case"),
        (b'[NVIDIA-CONTAINER-RUNTIME]\nmode = "cdi"\n', "it has NVIDIA-CONTAINER-RUNTIME, which"),
        (b'[nvidia-container-runtime]\nMODE = "cdi"\n', "it has MODE, which"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(content, reason):
    with pytest.raises(ConfigError, match=f"^{PATH}: .*{reason}"):
        edit(content)


def test_a_layout_that_cannot_be_edited_is_an_error():
    with pytest.raises(ConfigError, match="cannot be set in this layout.*run this again"):
        edit(b'nvidia-container-runtime = {mode = "auto"}\n', LEGACY)


def test_an_edit_is_refused_if_a_parser_reads_it_differently():
    answers = iter([{"a": 1}, {"a": 2, "swarm-resource": NAME}])
    with pytest.raises(ConfigError, match="a parser reads the result differently"):
        runtime_toml.edit(b"a = 1\n", PATH, WANT, lambda text: next(answers))


# --- the parser -----------------------------------------------------------------------------------------------------


def _hide(monkeypatch, *names):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def test_tomli_is_used_if_the_standard_library_has_no_parser(monkeypatch):
    _hide(monkeypatch, "tomllib")
    assert runtime_toml.toml_parser() is importlib.import_module("tomli").loads


def test_without_a_parser_an_error_says_what_to_install(monkeypatch):
    _hide(monkeypatch, "tomllib", "tomli")
    with pytest.raises(GpuSwarmError, match="python3-tomli") as caught:
        runtime_toml.edit(b"a = 1\n", PATH, WANT)
    assert caught.value.details == {"missing": ["toml_parser"]}


IN_LEGACY_MODE = SHIPPED.replace('mode = "auto"', 'mode = "legacy"')


@pytest.mark.parametrize(
    ("text", "version", "enforces"),
    [
        (SHIPPED, "1.17.8", True),
        (SHIPPED, "1.18.0", False),
        (SHIPPED, "1.20.0", False),
        (IN_LEGACY_MODE, "1.20.0", True),
        (IN_LEGACY_MODE.replace("disable-require = false", "disable-require = true"), "1.20.0", False),
        (SHIPPED.replace('mode = "auto"', 'mode = "cdi"'), "1.17.8", False),
        ("", "1.17.8", True),
        (None, "1.20.0", False),
        (None, None, None),
        (IN_LEGACY_MODE, None, None),  # no container starts without a toolkit
    ],
)
def test_these_toolkits_refuse_images_that_require_another_driver(text, version, enforces):
    assert runtime_toml.enforces_requirements(None if text is None else text.encode(), version) is enforces
