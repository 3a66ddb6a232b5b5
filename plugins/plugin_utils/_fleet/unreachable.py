# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a host cannot be reached, as a table shows it (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re

_HOST_KEY = re.compile(r"No \S+ host key is known for \S+|Host key for \S+ has changed")


def reason(message: str) -> str:
    """Ansible's message; for an unknown or changed host key, one sentence in place of ssh's screen of text."""
    found = _HOST_KEY.search(message)
    if not found or "Host key verification failed" not in message:
        return message
    return (
        f"{found[0]}: nothing was sent there. If the key that it shows is the host's own, put it into known_hosts in place of the former one; "
        "if not, find out who answers at that address"
    )
