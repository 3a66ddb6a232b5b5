# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Searches the code for the messages that pages quote."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GAP = "…"
# Messages of Docker are in no file of this collection.
DOCKERS = "Messages of Docker's scheduler"
CODE = ("plugins/**/*.py", "playbooks/**/*.yml", "playbooks/**/*.py", "roles/**/*.yml")


def quoted(text: str) -> Iterator[tuple[str, str]]:
    """Return (heading, message) for each message in the first column of a table."""
    heading = ""
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("| `"):
            yield from ((heading, message) for message in re.findall(r"`([^`]+)`", line.split(" | ")[0]))


def has_parts(pattern: str, text: str) -> bool:
    """Return whether a text has the fixed parts of a message, in their order."""
    start = 0
    for part in pattern.split(GAP):
        start = text.find(part.strip(), start)
        if start < 0:
            return False
        start += len(part.strip())
    return True


@functools.cache
def printed_texts() -> frozenset[str]:
    """Return every text that the code may print, with gaps for inserted values."""
    found: list[str] = []
    for pattern in CODE:
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            found += strings(text) if path.suffix == ".py" else [re.sub(r"\s+", " ", re.sub(r"\{\{.*?\}\}", GAP, text, flags=re.DOTALL))]
            if path.suffix == ".yml":  # texts inside templates
                found.append(re.sub(r"\s+", " ", text.replace("' ~ '", "").replace("'", "")))
    return frozenset(found)


def strings(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield re.sub(r"%[sdr]|\{\w*\}", GAP, node.value)


def unknown(messages: Iterable[str]) -> list[str]:
    """Return the messages that the code never prints."""
    texts = printed_texts()
    return [message for message in messages if not any(has_parts(message, text) for text in texts if _longest(message) in text)]


@functools.cache
def _longest(pattern: str) -> str:
    """Return the longest fixed part of a message. Few texts contain it, so most are ruled out quickly."""
    return max((part.strip() for part in pattern.split(GAP)), key=len)
