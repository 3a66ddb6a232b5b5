# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A sentence that two files say has one place, where both take it from: else one of them is corrected, and the other stays."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "galaxy.yml").exists())
PLUGINS = sorted((ROOT / "plugins").rglob("*.py"))
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
# Fewer words are no sentence. What begins with a sign is the end of one, such as what helps.
WORDS = 6


def sentences(text):
    """The texts of Python code, but for docstrings and what is documentation of more than a line."""
    tree = ast.parse(text)
    docs = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, DOCUMENTED) and node.body and isinstance(node.body[0], ast.Expr)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs]
    found = {node.value.strip() for node in constants}
    return {one for one in found if len(one.split()) >= WORDS and "\n" not in one and (one[0].isalnum() or one[0] == "%")}


def twice(texts):
    """The sentences that more than one file says, by ``texts`` of files."""
    files = defaultdict(list)
    for name, text in texts.items():
        for sentence in sentences(text):
            files[sentence].append(name)
    return {sentence: names for sentence, names in files.items() if len(names) > 1}


def test_no_sentence_stands_in_two_files():
    assert len(PLUGINS) > 100
    assert twice({str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PLUGINS}) == {}


def test_a_sentence_that_stands_twice_is_found():
    code = 'def f(x):\n    """It says what f does here."""\n    raise Error(f"{x} is no text in UTF-8. Save it.", ". Save it, and run it again.")\n'
    few = "TEXT = 'these are too few words'\n"
    assert twice({"a.py": code + few, "b.py": code, "c.py": few}) == {"is no text in UTF-8. Save it.": ["a.py", "b.py"]}
