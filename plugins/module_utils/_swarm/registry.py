# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What dockerd says of a registry that it could not read an image from (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

# There is no registry, or dockerd itself has not answered for so long ("no answer within").
UNREACHABLE = (
    "no answer within", "timeout", "timed out", "deadline exceeded", "no such host", "connection refused", "no route to host", "server misbehaving",
)  # fmt: skip
# It wants another login, or one at all.
REFUSALS = ("unauthorized", "authentication required", "access denied", "access to the resource is denied", "no basic auth credentials", "forbidden")


def judged(words: str) -> tuple[str | None, bool]:
    """(these words, if the registry refuses the image; whether there is a registry that answers)"""
    low = words.lower()
    if any(one in low for one in REFUSALS):
        return words, True
    return None, not any(one in low for one in UNREACHABLE)
