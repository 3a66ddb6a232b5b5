# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds changed files, and the unit tests that depend on them."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from .model import ROOT

UNIT = "tests/unit/"
COLLECTION = "ansible_collections.fleet.gpu_swarm."
# A string of this form in a test is the name of a file, a folder or a module, and not a text.
NAMED = re.compile(r"[\w./*-]+")


def git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return [line for line in done.stdout.split("\0") if line] if done.returncode == 0 else []


def since(base: str) -> set[str]:
    """Return the files that differ from a commit, including untracked ones."""
    return {*git("diff", "--name-only", "--no-renames", "-z", base), *git("ls-files", "--others", "--exclude-standard", "-z")}


def changed() -> tuple[str, set[str]]:
    """Return the files changed since the branch left its upstream, or else since the last commit, or else in the last commit."""
    fork = [name.strip() for name in git("merge-base", "HEAD", "@{upstream}")]
    for base in (*fork, "HEAD", "HEAD^"):
        if found := since(base):
            return base[:12], found
    return "HEAD", set()


class Source:
    """A Python file: its imports, and the names in its strings."""

    def __init__(self, root: Path, path: str) -> None:
        self.path, self.file = path, root / path

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.file.read_bytes())))

    @cached_property
    def imports(self) -> list[str]:
        """Return dotted names. An imported name may be a module, or a name in a module."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                package = Path(self.path).parts[: -node.level] if node.level else ()
                start = ".".join((*package, *([node.module] if node.module else [])))
                found += [start, *(f"{start}.{alias.name}" for alias in node.names)]
        return found

    @cached_property
    def words(self) -> set[str]:
        strings = [node.value for node in self.nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        named = [text for text in strings if NAMED.fullmatch(text)]
        return {word for text in named for word in (text, *re.split(r"[./]", text), *text.split("/"))}


class Tree:
    """The Python files of a checkout, by the names under which they are imported."""

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        self.sources = {path: Source(root, path) for path in files if path.endswith(".py")}
        self.named: dict[str, set[str]] = {}
        for path in self.sources:
            parts = Path(path).with_suffix("").parts
            # pytest adds test folders to sys.path, so an import may use any end of the dotted name.
            for start in range(len(parts) if parts[0] == "tests" else 1):
                self.named.setdefault(".".join(parts[start:]).removesuffix(".__init__"), set()).add(path)

    def closure(self, path: str) -> set[str]:
        """Return a file, all its imports, and the conftest.py files of its folders."""
        found: set[str] = set()
        left = [path, *(name for folder in Path(path).parents if (name := str(folder / "conftest.py")) in self.sources)]
        while left:
            if (one := left.pop()) not in found:
                found.add(one)
                left += [file for name in self.sources[one].imports for file in self.named.get(name.removeprefix(COLLECTION), ())]
        return found

    def tests(self) -> list[str]:
        return sorted(path for path in self.sources if path.startswith(UNIT) and Path(path).name.startswith("test_"))

    def concerned(self, files: set[str]) -> list[str]:
        """Return the unit tests that import one of the files, or name the file or one of its folders."""
        return [test for test in self.tests() if self._concerns(self.closure(test), files)]

    def _concerns(self, closure: set[str], files: set[str]) -> bool:
        if closure & files:
            return True
        words = {word for path in closure if path.startswith(UNIT) for word in self.sources[path].words}
        return any(words & names(path) for path in files)


def names(path: str) -> set[str]:
    """Return the words in a test that may name a file, if the test does not import the file.

    Tests import utilities, or read their whole folder. For playbooks and roles, only the top folder counts, because a lower folder may be an everyday
    word such as tasks.
    """
    parts = Path(path).parts
    if parts[0] == "tests" and path.endswith(".py"):
        return set()
    folders = parts[:1] if parts[0] in ("playbooks", "roles") else parts[:-1]
    named = {*folders, path} - {"tests"}
    return named if "_utils" in path else named | {parts[-1], Path(path).stem}
