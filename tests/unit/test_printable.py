# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import dataclass

import pytest
from fleet_lab import host, member, swarm

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._printable import printable, printable_lines
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.table import render
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._answers.answer import shown
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import Host
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.outcome import outcome_of
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.provision import plan

ERASE = "T4\x1b[2K\rready"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("2 × 80.0 GiB → größer", "2 × 80.0 GiB → größer"),
        (ERASE, "T4\\x1b[2K\\rready"),
        ("a\u202eb", "a\\u202eb"),  # the following text is read from right to left
        ("a\u2066b\u200b\ufeff", "a\\u2066b\\u200b\\ufeff"),
        ("\x9b2K", "\\x9b2K"),  # some terminals read this character as ESC [
        ("a\nok: [g1]", "a\\nok: [g1]"),
        ("a\u2028b\x7f", "a\\u2028b\\x7f"),
        ("a\udcffb", "a\\udcffb"),  # this character cannot be written
        ("", ""),
    ],
)
def test_other_bytes_are_shown_as_escapes(text, expected):
    assert printable(text) == expected
    assert printable(expected) == expected
    assert printable_lines(text) == expected.replace("\\n", "\n")


def test_a_table_has_a_line_for_each_row():
    assert render(["node", "model"], [["g1", ERASE], ["g2\nx", "T4"]], None).splitlines()[2:] == ["g1     T4\\x1b[2K\\rready", "g2\\nx  T4"]


def test_all_texts_and_keys_of_an_answer_are_printable():
    @dataclass(frozen=True)
    class Event:
        msg: str
        events: tuple = ()

    answer = {"gpus": [{"name": ERASE, "index": 0}], "labels": {ERASE: ERASE}, "msg": "a\n\x1bb", "warnings": [Event(ERASE, (Event("\x1b\n"),))]}
    expected = printable(ERASE)
    assert shown(answer) == {
        "gpus": [{"name": expected, "index": 0}],
        "labels": {expected: expected},
        "msg": "a\n\\x1bb",
        "warnings": [Event(expected, (Event("\\x1b\n"),))],
    }
    assert shown({"diff": {"before": "{\n\t\x1b}\n", "after": None}}) == {"diff": {"before": "{\n\t\\x1b}\n", "after": None}}


def test_reasons_from_other_actions_are_printable():
    assert outcome_of({"gpu_swarm_outcome": {"state": "failed", "reason": "apt: \x1b[2J"}}).reason == "apt: \\x1b[2J"
    steps = plan([Host("a", True, False, {"unreachable": True, "msg": "banner\x1b[2J"}), host()], swarm(member()))
    assert steps["a"].error == "unreachable: banner\\x1b[2J"
