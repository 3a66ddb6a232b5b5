# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a host cannot be reached, as it stands in a table (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re

_HOST_KEY = re.compile(r"No \S+ host key is known for \S+|Host key for \S+ has changed")


def reason(message: str) -> str:
    """What Ansible says of it; of a host key that is not the known one, of which ssh fills a screen, in a sentence."""
    found = _HOST_KEY.search(message)
    if not found or "Host key verification failed" not in message:
        return message
    return (
        f"{found[0]}: nothing was sent there. If the key that it shows is the host's own, put it into known_hosts in place of the former one; "
        "if not, find out who answers at that address"
    )
