# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one exception that domain code raises and a module's main() turns into fail_json.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any

# Why a text cannot be read that Python's parsers give up on.
TOO_DEEP = "it is nested too deeply"


class GpuSwarmError(Exception):
    """Something that the user must know.

    The message is the whole text for the user: it names the file and the value, says what is wrong with it, and ends
    with the remedy. ``details`` are extra return values for ``fail_json`` (plain data).
    """

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class ConfigError(GpuSwarmError):
    """A configuration file that cannot be taken as it is; nothing was changed."""
