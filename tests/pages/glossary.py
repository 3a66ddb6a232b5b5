# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/GLOSSARY.md: its last column has the words that its terms take the place of, and that texts do not use."""

from __future__ import annotations

import re

# What is quoted is somebody else's word: code, and what is made of code.
QUOTED = re.compile(r"```.*?```|`[^`]*`|<!-- python -m tests\.pages.*?<!-- end -->", re.DOTALL)


def replaced(glossary: str) -> dict[str, str]:
    """Each word that is not used, with the term that takes its place."""
    rows = [line.strip("| ").split(" | ") for line in glossary.splitlines() if line.startswith("| **")]
    return {word.strip(): re.sub(r"\*\*|\(.*", "", row[0]).strip() for row in rows if len(row) == 3 for word in row[2].split(",")}


def used(text: str, words: dict[str, str]) -> list[str]:
    plain = QUOTED.sub(" ", text)
    return [f"{word}: say {term}" for word, term in words.items() if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", plain, re.IGNORECASE)]
