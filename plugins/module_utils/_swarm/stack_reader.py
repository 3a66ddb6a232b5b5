# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks a stack file with Docker's own reader, 'docker stack config' of Docker 23.0 and newer, before anything is made.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import subprocess
from typing import Sequence

COMMAND = ("docker", "stack", "config", "--compose-file", "-")
LIMIT_S = 30
# Docker 20.10 has no such command, and says that its first option is unknown.
_ABSENT = ("unknown flag", "unknown shorthand flag", "is not a docker command", "unknown command")


def refusal(text: str, command: Sequence[str] = COMMAND) -> str:
    """Why Docker cannot read it; the text may have values of the file. Empty if Docker can read it, or has no such reader."""
    try:
        done = subprocess.run(
            list(command), input=text.encode("utf-8"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    said = " ".join(done.stderr.decode("utf-8", "replace").split())
    return "" if not done.returncode or any(words in said for words in _ABSENT) else said or "no reason given"
