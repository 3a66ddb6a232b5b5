# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the files that a text names, and the names that the text expects in these files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# `path/to/file.py` (`name`, `name`)
NAMED = re.compile(r"`([\w_][\w./*-]*\.(?:py|yml|md|svg|sh|j2|txt)|[\w.-]+(?:/[\w.*-]+)*/)`(?: \(((?:`[^`]+`(?:, )?)+)\))?")


def named(text: str) -> Iterator[tuple[str, list[str]]]:
    """Return each path in backticks, with the names in brackets after the path."""
    for path, names in NAMED.findall(text):
        yield path, re.findall(r"`([^`]+)`", names)


def present() -> list[str]:
    """Return the files of the repository, without build/ and hidden folders."""
    found = []
    for folder, inside, files in os.walk(ROOT):
        inside[:] = [name for name in inside if name not in ("build", "__pycache__") and not name.startswith(".")]
        found += [(Path(folder) / name).relative_to(ROOT).as_posix() for name in files]
    return found


def is_missing(path: str, files: list[str]) -> bool:
    """Return whether no file has this path. The path begins at the root, or is the end of a path, such as _gpu/nvml.py."""
    wanted = re.compile(rf"(?:.*/)?{re.escape(path).replace(re.escape('*'), '[^/]*')}{'.*' if path.endswith('/') else ''}")
    return not any(wanted.fullmatch(file) for file in files)


def missing_names(path: str, names: list[str]) -> list[str]:
    """Return the names that the file does not contain."""
    text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
    return [name for name in names if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
