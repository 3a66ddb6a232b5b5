# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interprets dockerd's error about an image that it cannot read from its registry (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

# The registry does not answer, or dockerd itself did not ("no answer within").
UNREACHABLE = (
    "no answer within", "timeout", "timed out", "deadline exceeded", "no such host", "connection refused", "no route to host", "server misbehaving",
)  # fmt: skip
# The registry requires a login, or another one.
REFUSALS = ("unauthorized", "authentication required", "access denied", "access to the resource is denied", "no basic auth credentials", "forbidden")


def classify_error(words: str) -> tuple[str | None, bool]:
    """(the error, if the registry refuses the image, else ''; whether a registry answers)"""
    low = words.lower()
    if any(one in low for one in REFUSALS):
        return words, True
    return None, not any(one in low for one in UNREACHABLE)
