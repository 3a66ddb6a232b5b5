# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shortens the reason why a host cannot be reached, for tables (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re

_HOST_KEY = re.compile(r"No \S+ host key is known for \S+|Host key for \S+ has changed")


def reason(message: str) -> str:
    """Return Ansible's message. For an unknown or changed host key, return one sentence instead of the many lines of ssh."""
    match = _HOST_KEY.search(message)
    if not match or "Host key verification failed" not in message:
        return message
    return (
        f"{match[0]}: nothing was sent there. If the key is the host's own, put it into known_hosts in place of the former key. "
        "If it is not, find out who answers at that address"
    )
