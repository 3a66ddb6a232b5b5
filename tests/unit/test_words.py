# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Code uses the terms of docs/GLOSSARY.md: in names, messages, comments and documentation alike."""

from __future__ import annotations

import re

import pytest

from tests.pages import glossary, paths
from tests.pages.made import DOCS

# Files that are written in these terms, as patterns below the root of the collection. No pattern goes out again.
COVERED = (
    "plugins/**/*.py",
    "playbooks/*.yml",
    "playbooks/*/*.yml",
    "playbooks/tasks/*/*.yml",
    "roles/*/*/*.yml",
    "roles/*/*.md",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/[!G]*.md",  # but for the glossary itself
    "docs/examples/**/*.json",
    "docs/examples/**/*.py",
    "docs/examples/**/*.yml",
    "molecule/*/*.yml",
    "molecule/*/*.py",
    "molecule/*/tests/*.py",
    "playbooks/callback_plugins/*.py",
    "tests/*.py",
    "tests/alerts/*.py",
    "tests/alerts/*.yml",
    "tests/bench/**/*.py",
    "tests/chaos/*.py",
    "tests/e2e/*.py",
    "tests/galaxy/*.py",
    "tests/gpu/*.md",
    "tests/gpu/*.py",
    "tests/lab/**/*.py",
    "tests/pages/*.py",
    "tests/runner/*.py",
    "tests/release/*.py",
    "tests/unit/**/*.py",
)

# Tests of what finds the words: they have them as examples.
OF_THE_WORDS = ("tests/unit/test_texts.py", "tests/unit/test_words.py")

# Other forms of the glossary's words. There, they may be somebody else's: sudo asks for a password.
FORMS = {
    "ask": "query",
    "asks": "query",
    "asking": "query",
    "tell": "report",
    "telling": "report",
    "mends": "fix",
    "mending": "fix",
    "heed": "apply",
    "heeds": "apply",
    "heeded": "apply",
    "hands out": "advertise or allocated",
    "hand out": "advertise or allocated",
    "gave back": "return to service",
    "take back": "deprovision",
    "takes back": "deprovision",
    "a look": "observation",
    "connection held": "connection was not lost",
    "held open": "open",
    "hold up": "stop",
    "no longer hold": "be met",
    "swarm holds": "has",
    "or correct": "fix",
    "look again": "inspect",
    "looks again": "inspect",
}

# What is left out before words are looked for, with the reason: names and texts that are a contract, or somebody else's words.
ALLOWED = {
    '"ours"': "a key of record.json, which is on the nodes",
    "asks for a password": "sudo does",
    "asks for the unlock key": "Docker does",
    "ask_pass": "an option of Ansible",
    "ASK_PASS": "an option of Ansible",
    "ask_vault_pass": "an option of Ansible",
    "ASK_VAULT_PASS": "an option of Ansible",
    "prod@ask": "a vault id",
}


WORDS = {**glossary.replaced((DOCS / "GLOSSARY.md").read_text(encoding="utf-8")), **FORMS}
ANY = re.compile(rf"(?<![a-z])(?:{'|'.join(map(re.escape, sorted(WORDS, key=len, reverse=True)))})(?![a-z])", re.IGNORECASE)


def used(text: str) -> list[str]:
    """``line: word: say term`` for each of the words, also as a part of a name."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for phrase in ALLOWED:
            line = line.replace(phrase, " ")
        found += [f"{number}: {word}: say {WORDS[word.lower()]}" for word in ANY.findall(line.replace("_", " "))]
    return found


def covered(pattern: str) -> dict[str, str]:
    """The texts of the files by their names."""
    named = {str(file.relative_to(paths.ROOT)): file for file in sorted(paths.ROOT.glob(pattern))}
    return {name: file.read_text(encoding="utf-8") for name, file in named.items() if name not in OF_THE_WORDS}


@pytest.mark.parametrize("pattern", COVERED)
def test_code_uses_the_terms_of_the_glossary(pattern):
    texts = covered(pattern)
    assert texts
    found = {name: used(text) for name, text in texts.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_words_are_found_in_names_messages_and_comments():
    assert used("mine = self.told + is_ours(x)") == ["1: told: say report", "1: ours: say of this collection"]
    assert used("a\n'Mend that'  # given_back") == ["2: Mend: say fix", "2: given back: say return to service"]
    assert used("task, flask, hours, foretold, amended, stellar") == []


def test_no_exception_is_left_over():
    text = "\n".join(text for pattern in COVERED for text in covered(pattern).values())
    assert [phrase for phrase, reason in ALLOWED.items() if phrase not in text or not reason] == []
