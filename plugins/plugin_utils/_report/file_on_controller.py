# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes a file of the user on the controller: a page of the fleet, or a saved ledger.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple

from ...module_utils._errors import GpuSwarmError

_HEAD_BYTES = 4096


class Kind(NamedTuple):
    """A kind of file. A file without the mark at its begin is another kind of file, and may be the user's only copy of something else."""

    noun: str
    mark: bytes
    next_step: str


def write(path: str, text: str, kind: Kind, *, check: bool) -> str:
    """Write the file so that a reader sees the old or the new content. Return a line for the user. Raises GpuSwarmError. ``check``: write nothing."""
    file = Path(path)
    try:
        _refuse_another_file(file, kind)
        if not file.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if check:
            return f"{path}: would be written"
        new = file.with_name(f".{file.name}.new")
        new.unlink(missing_ok=True)  # a killed run left it behind
        with new.open("x", encoding="utf-8") as stream:
            stream.write(text)
        new.replace(file)
    except OSError as problem:
        raise GpuSwarmError(
            f"The {kind.noun} could not be written to {path}: {problem.strerror}. Name a file in a folder that exists, with -e to=."
        ) from problem
    return f"{path}: written, {len(text.encode()) / 1e6:.1f} MB. {kind.next_step}."


def _refuse_another_file(file: Path, kind: Kind) -> None:
    if not file.exists():
        return
    with file.open("rb") as stream:
        if kind.mark not in stream.read(_HEAD_BYTES):
            raise GpuSwarmError(
                f"{file} exists and is no {kind.noun} of a fleet, so it was not overwritten. Name another file with -e to=, or remove it."
            )
