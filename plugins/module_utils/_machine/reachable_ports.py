# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds which TCP ports of other machines this machine can reach.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

POLL_S = 0.2
MIN_TIMEOUT_S = 0.5  # the shortest limit of a try, because the last try may begin shortly before the deadline


def find_reachable(addresses: list[str], timeout_s: float) -> list[str]:
    """Return the addresses that accept a connection, such as ``10.0.0.5:2377`` or ``[fd00::1]:2377``.

    Try all addresses at the same time. Repeat until an address accepts or ``timeout_s`` is over.
    """
    deadline = time.monotonic() + timeout_s
    while addresses:
        remaining_s = deadline - time.monotonic()
        with ThreadPoolExecutor(len(addresses)) as pool:
            answers = list(pool.map(partial(_accepts, timeout_s=max(remaining_s, MIN_TIMEOUT_S)), addresses))
        reachable = [address for address, answer in zip(addresses, answers) if answer]
        if reachable or remaining_s <= POLL_S:
            return reachable
        time.sleep(POLL_S)
    return []


def _accepts(address: str, timeout_s: float) -> bool:
    host, _colon, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
    except (OSError, ValueError):  # ValueError: the port is not a number
        return False
    return True
