# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares the reader of unit files with systemd. tests/e2e/test_systemd_agreement.py makes systemd start the same files."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import flags as dockerd_flags
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import unit_text
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.flags import DROP_IN, ENVIRONMENT, UNIT, UnitFile

CASES = yaml.safe_load((Path(__file__).parents[1] / "data" / "units.yml").read_text(encoding="utf-8"))
BASE = "[Service]\nEnvironmentFile=-/etc/default/docker\nExecStart=/bin/false\n"


def files(case, comments_continue):
    found = [UnitFile("base", UNIT, BASE.encode(), False), UnitFile("drop-in", DROP_IN, case["drop_in"].encode(), True)]
    if "environment_file" in case:
        found.append(UnitFile("environment", ENVIRONMENT, case["environment_file"].encode(), True, comments_continue))
    return found


@pytest.mark.parametrize("release", ["before 254", "since 254"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_reader_agrees_with_systemd(case, release):
    expected = case["argv"][release] if isinstance(case["argv"], dict) else case["argv"]
    there = files(case, release == "before 254")
    texts = {one.path: one.content.decode() for one in there}
    assert dockerd_flags.command(there, texts)[1:] == expected
    if "environment" in case:
        variables = dockerd_flags.unit_command(there, texts)[1]
        assert {name: value.text for name, value in variables.items()} == case["environment"]


def lines(text):
    """Return the words of each command and of each variable."""
    for setting in unit_text.settings(text):
        if setting.name == "ExecStart":
            yield unit_text.words(setting)
        elif setting.name == "Environment":
            yield from (unit_text.words_of(variable) for variable in unit_text.variables(text, setting))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_word_can_be_removed_alone(case):
    text = case["drop_in"]
    for number, line in enumerate(lines(text)):
        for word in line:
            left = list(lines(unit_text.remove(text, line, [word])))
            assert [one.text for one in left[number]] == [one.text for one in line if one is not word]


def test_words_have_positions():
    text = "[Service]\nExecStart=/x \\\n  # no\n  --a 'b c'\n"
    (setting,) = unit_text.settings(text)
    assert [text[word.start : word.end] for word in unit_text.words(setting)] == ["/x", "--a", "'b c'"]


@pytest.mark.parametrize("rest", ['"fd://', "'fd:// --debug", 'x"y z'])
def test_a_command_ends_at_an_unclosed_quote(rest):
    """systemd does not start a unit with an unclosed quote."""
    (setting,) = (one for one in unit_text.settings(f"[Service]\nExecStart=/x -H {rest}\n") if one.name == "ExecStart")
    assert [word.text for word in unit_text.words(setting)] == ["/x", "-H"]
