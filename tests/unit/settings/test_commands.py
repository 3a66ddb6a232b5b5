# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All names on the pages exist: playbooks on a command line, their short settings, settings, and keys of policies and job files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs.job_options import JOB_OPTIONS
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.declaration import FACTS, PREFIXES
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.roles import declared_settings
from tests.pages import settings

CHECKOUT = Path(__file__).parents[3]
DECLARED = declared_settings(settings.ROLES)
PAGES = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md"), *CHECKOUT.glob("roles/*/README.md"), *CHECKOUT.glob("docs/examples/*.yml")])
TEXTS = {str(path.relative_to(CHECKOUT)): path.read_text(encoding="utf-8") for path in PAGES if path.name != "CHANGELOG.md"}
PLAYBOOKS = {path.stem for path in CHECKOUT.glob("playbooks/*.yml")}
COMMAND = re.compile(r"fleet\.gpu_swarm\.(?P<playbook>\w+)(?P<rest>(?:[ ]+(?!fleet\.)[^\s`;|\[#]+)*)")
EXTRA = re.compile(r"(?:-e|--extra-vars)[ ]+'?(\w+)=")
# Variables of Ansible, and of the tasks of an example.
OTHERS = {"ansible_pipelining", "old_card"}


def short_of(playbook: str) -> dict[str, str]:
    """Return the settings behind the short names of a playbook."""
    places = [CHECKOUT / "playbooks" / f"{playbook}.yml", CHECKOUT / "playbooks/tasks" / f"{playbook}.yml"]
    found = [short for place in places if place.exists() for short in _short(yaml.safe_load(place.read_text(encoding="utf-8")))]
    more = {"plan": "status_plan"} if playbook == "status" else {}  # this variable selects the plays before settings are checked
    return {key: setting for short in found for key, setting in short.items()} | more


def _short(node: Any) -> Iterator[dict[str, str]]:
    if isinstance(node, dict):
        yield from [node["short"]] if isinstance(node.get("short"), dict) else ()
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _short(value)


def unknown_words(text: str) -> list[str]:
    """Return the words in the commands of a text that no playbook knows."""
    found = []
    for line in re.sub(r"\\\n[ #]*", " ", text).splitlines():
        for command in COMMAND.finditer(line):
            names = EXTRA.findall(command["rest"])
            if names and command["playbook"] not in PLAYBOOKS:
                found.append(command["playbook"])
            known = {*DECLARED, *OTHERS, *short_of(command["playbook"])}
            found += [f"{command['playbook']} -e {name}" for name in names if name not in known]
    return found


@pytest.mark.parametrize("page", TEXTS)
def test_everything_on_a_command_line_exists(page: str) -> None:
    assert unknown_words(TEXTS[page]) == []


def test_a_missing_setting_is_found() -> None:
    text = "`fleet.gpu_swarm.deploy -e compose=c.yml \\\n  --check -e stak=x`, fleet.gpu_swarm.job -e compose=c.yml, fleet.gpu_swarm.undo -e job=a"
    assert unknown_words(text) == ["deploy -e stak", "job -e compose", "undo", "undo -e job"]
    assert sum(len(EXTRA.findall(command["rest"])) for text in TEXTS.values() for command in COMMAND.finditer(text)) > 40


def test_a_short_name_has_its_setting() -> None:
    assert {setting for playbook in PLAYBOOKS for setting in short_of(playbook).values()} - set(DECLARED) == set()


@pytest.mark.parametrize("page", sorted({*TEXTS} - {"docs/ARCHITECTURE.md"}))  # this page is about names in the code
def test_names_on_a_page_that_look_like_settings_are_settings(page: str) -> None:
    """Names of files and roles are exceptions, and so are common prefixes of several settings, for example gpu_node_label_*."""
    named = re.findall(rf"(?<![\w./-])(?:{'|'.join(PREFIXES)})[a-z_]*[a-z](?![\w./*-])", TEXTS[page])
    assert set(named) - set(DECLARED) - set(FACTS) == set()


@pytest.mark.parametrize(("page", "playbook"), [("docs/run/compose.md", "deploy"), ("docs/run/jobs.md", "job")])
def test_a_table_of_a_command_line_is_complete(page: str, playbook: str) -> None:
    """This checks the first table of the page."""
    table = TEXTS[page].partition("| `-e` | |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)=", table, re.MULTILINE)
    assert len(rows) > 5
    assert set(rows) - set(short_of(playbook)) - set(DECLARED) == set()


def test_the_table_of_a_job_s_file_has_all_of_its_keys() -> None:
    rows = TEXTS["docs/run/jobs.md"].partition("## What is in the file")[2].partition("\n## ")[0]
    named = {key for row in re.findall(r"^\| ((?:`[\w-]+`(?:, )?)+) \|", rows, re.MULTILINE) for key in re.findall(r"[\w-]+", row)}
    assert {key.replace("-", "_") for key in named} == set(JOB_OPTIONS)
