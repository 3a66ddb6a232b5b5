# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages of docs/fix/ quote only messages that the code has, and explain each state of a host, a task and a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import allocation_findings, label
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs import job_progress
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._placement.availability import why_closed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view import status
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.outcome import State
from tests import messages

ROOT = Path(__file__).resolve().parents[2]
PAGES = [path for path in sorted((ROOT / "docs" / "fix").glob("*.md")) if path.name != "known-issues.md"]
QUOTED = [quoted for page in PAGES for quoted in messages.quoted(page.read_text(encoding="utf-8"))]
MESSAGES = [message for heading, message in QUOTED if heading != messages.DOCKERS]


def under(title):
    return [message for heading, message in QUOTED if heading == title]


def test_each_message_of_troubleshooting_exists_in_the_code():
    assert len(MESSAGES) > 100
    assert messages.unknown(MESSAGES) == []


def test_a_message_that_the_code_does_not_print_is_found():
    invented = "the run stopped before this node, because … went home"
    assert messages.unknown([invented, MESSAGES[0]]) == [invented]


# --- each state has a row -----------------------------------------------------------------------------------------------

# The text of these states consists only of details.
ALL_DETAILS = {State.BY_HAND, State.NOT_CONVERGED}


@pytest.mark.parametrize("state", [state for state in State if state not in ALL_DETAILS], ids=lambda one: one.name)
def test_each_state_of_a_run_has_a_row(state):
    text = state.text.removeprefix("{}").strip()
    fixed = [message.strip(f" {messages.GAP}").partition(messages.GAP)[0].rstrip(" :") for message in under("States")]
    assert text
    assert any(part and text.startswith(part) for part in fixed), text


CLOSED = [
    {"state": state, "availability": availability, "set_by_run": False, "paused_for": paused_for}
    for state, availability, paused_for in [
        ("down", "active", None),
        ("unknown", "active", None),
        ("disconnected", "active", None),
        ("ready", "pause", None),
        ("ready", "drain", None),
        ("ready", "pause", "fault"),
    ]
]


def test_each_word_of_status_has_a_row():
    rows = under("What status shows")
    words = {status.ALLOCATED, status.FREE, status.FAULTY, status.NOT_ADVERTISED, *allocation_findings.NAMES, *label.STATES} - {label.OK}
    words |= {why_closed(record).partition(",")[0] for record in CLOSED}
    assert len(words) > 15
    assert sorted(words - set(rows)) == []


def test_each_bad_state_of_a_job_has_a_row():
    states = {job_progress.QUEUED, job_progress.STOPPING, job_progress.FAILED, job_progress.TIMED_OUT, job_progress.REFUSED_BY_GUARD}
    assert states - set(under("A job does not start, fails or does not end")) == set()
