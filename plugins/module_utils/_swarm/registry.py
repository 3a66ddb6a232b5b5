# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interprets dockerd's error about an image that it cannot read from its registry (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

# Errors that mean that the registry does not answer. "no answer within" means that dockerd itself did not answer.
UNREACHABLE = (
    "no answer within", "timeout", "timed out", "deadline exceeded", "no such host", "connection refused", "no route to host", "server misbehaving",
)  # fmt: skip
# Errors that mean that the registry requires a login, or refuses the login that was used.
REFUSALS = ("unauthorized", "authentication required", "access denied", "access to the resource is denied", "no basic auth credentials", "forbidden")


def classify_error(words: str) -> tuple[str | None, bool]:
    """Return (the registry's refusal or None, whether the registry answers)."""
    lower_case = words.lower()
    if any(phrase in lower_case for phrase in REFUSALS):
        return words, True
    return None, not any(phrase in lower_case for phrase in UNREACHABLE)
