# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Digests for the names of cached images and packages. They change with code and data, not with comments, docstrings or layout."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path


def digest(*parts: str) -> str:
    """Return a short digest of these texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def content(path: Path) -> str:
    """Return the code of a Python file without comments and docstrings, and any other file as it is."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
