# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The code blocks of the pages can be parsed, and all names in them exist. settings/test_blocks.py tests the blocks with YAML."""

from __future__ import annotations

import configparser
import contextlib
import io
import json
import re
import shlex
import subprocess
import textwrap
import tomllib
from pathlib import Path

import pytest
from ansible.cli import CLI
from ansible.cli.adhoc import AdHocCLI
from ansible.cli.doc import DocCLI
from ansible.cli.galaxy import GalaxyCLI
from ansible.cli.playbook import PlaybookCLI

from plugins.module_utils._metrics import metric_names

ROOT = Path(__file__).resolve().parents[2]
PAGES = [path for pattern in ("*.md", "docs/**/*.md", "roles/*/README.md") for path in sorted(ROOT.glob(pattern)) if path.name != "CHANGELOG.md"]
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
BLOCKS = [
    (f"{path.relative_to(ROOT)}-{number}", language, textwrap.dedent(text))
    for path in PAGES
    for number, (_indent, language, text) in enumerate(BLOCK.findall(path.read_text(encoding="utf-8")))
]
COMMANDS = [(name, text) for name, language, text in BLOCKS if language == "console"]
PROGRAMS = {"ansible": AdHocCLI, "ansible-doc": DocCLI, "ansible-galaxy": GalaxyCLI, "ansible-playbook": PlaybookCLI}
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
PLAYBOOKS = {path.stem for path in ROOT.glob("playbooks/*.yml")}
ROLES = {path.name for path in ROOT.glob("roles/*")}
PLUGINS = {path.stem for kind in ("modules", "filter", "callback") for path in ROOT.glob(f"plugins/{kind}/*.py")}
NAME = re.compile(r"(?<![\w/.-])fleet\.gpu_swarm\.([a-z]\w*)")


def commands(text: str) -> list[str]:
    """Return the commands of a console block. A command follows a prompt of a user or of root. A backslash continues it on the next line."""
    return [match.replace("\\\n", " ") for match in re.findall(r"^[$#] ((?:.*\\\n)*.*)$", text, re.MULTILINE)]


def wrong_in(command: str) -> list[str]:
    """Return the errors of a command: errors of its syntax, and names that do not exist."""
    checked = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
    if checked.returncode:
        return [checked.stderr.strip()]
    found = []
    for part in re.split(r"\s(?:&&|\|\||[|;])\s", re.sub(r"\s# .*", "", command)):
        words = shlex.split(part)
        while words and (words[0] == "sudo" or re.match(r"\w+=", words[0])):
            words.pop(0)
        if not words:
            continue
        if words[0] in PROGRAMS:
            found += _refused(PROGRAMS[words[0]], words)
        if words[0] == "ansible-playbook":
            found += [word for word in words if (name := NAME.fullmatch(word)) and name[1] not in PLAYBOOKS]
        elif words[0] == "make":
            found += [f"make {word}" for word in words[1:] if "=" not in word and word not in TARGETS]
    return found


def _refused(program: type[CLI], words: list[str]) -> list[str]:
    """Return the error of Ansible's own parser of options."""
    options = words[: next((place for place, word in enumerate(words) if re.match(r"[<>]|2>", word)), len(words))]
    cli = program(options)
    cli.init_parser()
    error = io.StringIO()
    with contextlib.redirect_stderr(error):
        try:
            cli.parser.parse_args(options[1:])
        except SystemExit:
            return [error.getvalue().strip().splitlines()[-1]]
    return []


def test_what_is_wrong_in_a_command_is_found() -> None:
    assert commands("$ a \\\n  b\nan answer\n# c\n") == ["a    b", "c"]
    assert wrong_in("ansible-playbook -i inventory.yml fleet.gpu_swarm.provision --check | tee log") == []
    assert wrong_in("X=1 make docs && ansible -i i.yml all -m ping > out    # an answer") == []
    (unclosed,) = wrong_in("echo 'a")
    assert "unexpected EOF" in unclosed
    assert wrong_in("make nothing ARGS=-x") == ["make nothing"]
    assert wrong_in("sudo ansible-playbook -i i.yml fleet.gpu_swarm.gpu_info") == ["fleet.gpu_swarm.gpu_info"]
    (option,) = wrong_in("ansible-playbook --chek site.yml")
    assert "--chek" in option


@pytest.mark.parametrize(("name", "text"), COMMANDS, ids=[name for name, _text in COMMANDS])
def test_commands_of_a_console_are_right(name: str, text: str) -> None:
    found = commands(text)
    assert found, f"{name} has no line that begins with a prompt; is it a block of text?"
    assert [f"{command}: {error}" for command in found for error in wrong_in(command)] == []


@pytest.mark.parametrize(("name", "language", "text"), BLOCKS, ids=[name for name, _language, _text in BLOCKS])
def test_other_blocks_parse(name: str, language: str, text: str) -> None:
    """If a page gets a block of another language, this test needs a check for it."""
    if language == "ini":
        configparser.ConfigParser(interpolation=None).read_string(text)
    elif language == "json":
        json.loads(text)
    elif language == "toml":
        tomllib.loads(text)
    elif language == "promql":
        known = {metric.name for metric in metric_names.METRICS}
        assert set(re.findall(r"\bgpu_swarm_\w+", text)) - known == set()
    else:
        assert language in {"console", "yaml", "text"}, f"no check for this language in {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_of_the_collection_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert set(NAME.findall(text)) - PLAYBOOKS - ROLES - PLUGINS == set()
    assert {target for target in re.findall(r"`make ([a-z][a-z-]+)", text) if target not in TARGETS} == set()
