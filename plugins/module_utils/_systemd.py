# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a service reports to systemd, which started it. Private to this collection: no stability is promised to others."""

from __future__ import annotations

import contextlib
import os
import socket


def notify(state: str) -> None:
    """systemd's own protocol; nothing where it did not start this."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stream:
            stream.connect("\0" + address[1:] if address.startswith("@") else address)
            stream.send(state.encode("ascii"))
