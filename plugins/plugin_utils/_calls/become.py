# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Explains why a module did not run because the task could not become root on the host (pure).

Ansible only says that it could not parse the result. The message of sudo is in ``module_stderr``.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any

# Messages of sudo, doas and su in the C locale, which Ansible sets. Also the messages of a shell that does not find these programs.
CAUSES = (
    (
        r"\b(sudo|doas|su): (?:command )?not found|\b(sudo|doas|su): No such file",
        "%s is not installed there. Install it, log in as root (ansible_user), or set another ansible_become_method.",
    ),
    (
        r"(sudo): (?:a (?:password|terminal) is required|no tty present|no password was provided|.*incorrect password)|(su|doas): Auth",
        "%s needs a password, but got none or a wrong one. Give it with -K or as ansible_become_password, or let the user become root without one.",
    ),
    (
        r"(sudo): sorry, you must have a tty",
        "%s requires a terminal (requiretty in sudoers), but pipelining opens none: set !requiretty for the user, or add -e ansible_pipelining=false",
    ),
    (
        r"is not in the (sudo)ers file|is not allowed to execute .* as root|may not run (sudo)|(doas): Operation not permitted",
        "%s does not let this user become root. Add the user to sudoers, or log in as another user (ansible_user).",
    ),
)


def explain_become_failure(answer: dict[str, Any], host: str) -> dict[str, Any]:
    """Return the answer. If the module did not run because the task could not become root on ``host``, the message of the answer says so."""
    if not answer.get("failed") or "module_stderr" not in answer:
        return answer
    output = f"{answer['module_stderr']}\n{answer.get('module_stdout') or ''}"
    for pattern, text in CAUSES:
        match = re.search(pattern, output)
        if match:
            program = next((group for group in match.groups() if group), "sudo")
            other_fields = {key: value for key, value in answer.items() if key != "exception"}  # Ansible would show the key exception instead of msg
            return {**other_fields, "msg": f"{host}: the task cannot become root: {text % program}"}
    return answer
