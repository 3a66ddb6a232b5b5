# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a project on the controller: the Compose file, and what lies beside it.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from pathlib import Path

from ...module_utils._errors import GpuSwarmError

# No Compose file is as large, and no config or secret may be.
MOST_BYTES = 4_000_000


def decoded(content: bytes, name: str, encoding: str = "utf-8") -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as problem:
        raise GpuSwarmError(f"{name} is no text in UTF-8. Save it as that.") from problem


class Folder:
    """That of a Compose file, by whose path others are."""

    def __init__(self, compose: str) -> None:
        self.path = Path(compose).expanduser().absolute()
        self.name = self.path.name

    def text(self) -> str:
        content = self.read(self.name)
        if content is None:
            raise GpuSwarmError(f"There is no file {self.path} on this machine. Fix the path of the Compose file.")
        return decoded(content, str(self.path), "utf-8-sig")

    def read(self, path: str) -> bytes | None:
        """A file beside it; None where there is none."""
        place = self.path.parent / Path(path).expanduser()
        try:
            with place.open("rb") as stream:
                content = stream.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as problem:
            raise GpuSwarmError(f"{place} cannot be read: {getattr(problem, 'strerror', None) or problem}. Fix that.") from problem
        if len(content) > MOST_BYTES:
            raise GpuSwarmError(f"{place} has more than {MOST_BYTES} bytes. Mount a volume instead.")
        return content
