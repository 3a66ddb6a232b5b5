# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the files of a Compose project on the controller.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from pathlib import Path

from ...module_utils._errors import GpuSwarmError

# The largest size of a file. Real Compose files are smaller, and configs and secrets must be smaller.
MAX_BYTES = 4_000_000


def decode(content: bytes, name: str, encoding: str = "utf-8") -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as problem:
        raise GpuSwarmError(f"{name} is not UTF-8 text. Save it as UTF-8.") from problem


class Folder:
    """The folder of a Compose file. Other paths are relative to it."""

    def __init__(self, compose: str) -> None:
        self.path = Path(compose).expanduser().absolute()
        self.name = self.path.name

    def text(self) -> str:
        content = self.read(self.name)
        if content is None:
            raise GpuSwarmError(f"The file {self.path} does not exist on this machine. Correct the path of the Compose file.")
        return decode(content, str(self.path), "utf-8-sig")

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        place = self.path.parent / Path(path).expanduser()
        try:
            with place.open("rb") as stream:
                content = stream.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as problem:
            raise GpuSwarmError(f"{place} cannot be read: {getattr(problem, 'strerror', None) or problem}. Make it readable.") from problem
        if len(content) > MAX_BYTES:
            raise GpuSwarmError(f"{place} has more than {MAX_BYTES} bytes. Use a volume instead.")
        return content
