# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._calls.become import explain_become_failure

NO_RESULT = {"failed": True, "msg": "Module result deserialization failed: No start of json char found", "module_stdout": "", "exception": "…"}


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("/bin/sh: 1: sudo: not found\n", "sudo is not installed there"),
        ("bash: line 1: sudo: command not found", "sudo is not installed there"),
        ("/bin/sh: 1: doas: not found", "doas is not installed there"),
        ("sudo: a password is required\n", "sudo needs a password"),
        ("sudo: a terminal is required to read the password; either use the -S option\nsudo: a password is required", "sudo needs a password"),
        ("Sorry, try again.\nsudo: no password was provided\nsudo: 1 incorrect password attempt\n", "sudo needs a password"),
        ("sudo: sorry, you must have a tty to run sudo\n", "sudo requires a terminal (requiretty"),
        ("su: Authentication failure", "su needs a password"),
        ("eve is not in the sudoers file.\n", "sudo does not let this user become root"),
        ("Sorry, user eve is not allowed to execute '/bin/sh -c x' as root on g1.", "sudo does not let this user become root"),
    ],
)
def test_the_message_says_why_nobody_could_become_root(said, text):
    answer = explain_become_failure({**NO_RESULT, "module_stderr": said}, "g1")
    assert answer["msg"].startswith(f"g1: the task cannot become root: {text}")
    assert "exception" not in answer
    assert answer["module_stderr"] == said


@pytest.mark.parametrize(
    "answer",
    [
        {"failed": True, "msg": "no GPU"},
        {**NO_RESULT, "module_stderr": "Traceback (most recent call last): …"},
        {**NO_RESULT, "module_stderr": ""},
        {"changed": False, "module_stderr": "sudo: not found"},
    ],
)
def test_other_answers_stay_as_they_are(answer):
    assert explain_become_failure(answer, "g1") == answer
