# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages of docs/fix/ quote only messages that the code has, and explain each error and each state of a host, a task and a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import allocation_findings, label
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._placement.availability import why_closed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks import one_shot
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


# --- each error has a row -----------------------------------------------------------------------------------------------

# Errors of the user's own Compose file or rules begin with the place in it and say what to write there. One text explains all of them.
PLACES = {
    "plugins/plugin_utils/_stack/": ("stacks.md", "begins with a place in the file such as `services.train.gpus`"),
    "plugins/plugin_utils/_classes/": ("stacks.md", "begins with a place in the file such as `services.train.gpus`"),
    "plugins/module_utils/_policy/": ("settings.md", "Correct the rule and key that the message names."),
}
# Errors of these files are only shown inside another message, which has a row.
INSERTED = {
    "plugins/module_utils/_guard/task_record.py": "dockerd's record of the container cannot be read, so its task is unknown: …",
    "plugins/module_utils/_machine/signing_key.py": "… is not accepted as the repository's key: …",
    "plugins/module_utils/_openpgp.py": "… is not accepted as the repository's key: …",
}


def explains_itself(error):
    return error.path in INSERTED or any(error.path.startswith(place) and error.message.startswith(messages.GAP) for place in PLACES)


def test_each_error_has_a_row():
    errors = list(messages.errors_in(messages.code()))
    assert len(errors) > 350
    missing = [error for error in messages.without_row(errors, MESSAGES) if not explains_itself(error)]
    assert missing == [], "write a row in a page of docs/fix/"


def test_the_texts_that_explain_several_errors_are_in_the_pages():
    pages = {page.name: " ".join(page.read_text(encoding="utf-8").split()) for page in PAGES}
    assert [(page, text) for page, text in PLACES.values() if text not in pages[page]] == []
    assert [row for row in INSERTED.values() if row not in MESSAGES] == []


SOURCES = {
    "plugins/module_utils/a.py": """
TOO_OLD = "the toolkit of %s is too old"
class Lost(GpuSwarmError):
    pass
def check(name, errors, module):
    errors.add(f"{name} is misspelt")
    module.fail_json(msg="no card of %s answers" % name, changed=False)
    raise Lost("the node " + name + " is gone") if name else GpuSwarmError(TOO_OLD % name)
def again(problem):
    raise GpuSwarmError(problem.message, "not the message")
""",
    "playbooks/a.yml": """
- tasks:
    - block:
        - name: Check
          ansible.builtin.assert: {that: false, fail_msg: "{{ host }} has no room"}
        - ansible.builtin.fail: {msg: "{{ reason }}"}
""",
}


def test_errors_are_found_in_python_and_in_tasks():
    assert sorted(error.message for error in messages.errors_in(SOURCES)) == [
        "no card of … answers",
        "the node … is gone",
        "the toolkit of … is too old",
        "… has no room",
        "… is misspelt",
    ]


def test_an_error_without_a_row_is_found():
    errors = list(messages.errors_in(SOURCES))
    rows = ["the node … is gone", "the toolkit of …", "… has no room", "misspelt", "no card: …"]
    assert [error.message for error in messages.without_row(errors, rows)] == ["… is misspelt", "no card of … answers"]


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
    states = {one_shot.QUEUED, one_shot.STOPPING, one_shot.FAILED, one_shot.TIMED_OUT, one_shot.REFUSED_BY_GUARD}
    assert states - set(under("A job does not start, fails or does not end")) == set()
