# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Code on nodes runs on Python 3.8, which cannot evaluate ``list[str]``. Annotations are not evaluated. vermin does not find this."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLASSES = ("dict", "frozenset", "list", "set", "tuple", "type")


def evaluated(text: str) -> list[int]:
    """Return the lines that evaluate a class of Python itself with a type in brackets."""
    nodes = list(ast.walk(ast.parse(text)))
    annotations = [getattr(node, field, None) for node in nodes for field in ("annotation", "returns")]
    annotated = {id(part) for annotation in annotations if annotation for part in ast.walk(annotation)}
    subscripts = [node for node in nodes if isinstance(node, ast.Subscript) and id(node) not in annotated]
    return [node.lineno for node in subscripts if isinstance(node.value, ast.Name) and node.value.id in CLASSES]


def test_code_on_nodes_evaluates_no_class_with_a_type_in_brackets() -> None:
    files = [path for folder in ("modules", "module_utils") for path in sorted((ROOT / "plugins" / folder).rglob("*.py"))]
    assert len(files) > 200
    assert [f"{path.relative_to(ROOT)}:{line}" for path in files for line in evaluated(path.read_text(encoding="utf-8"))] == []


def test_only_annotations_may_have_them() -> None:
    assert evaluated("a: list[str] = []\ndef b(c: dict[str, int]) -> set[int]: ...") == []
    assert evaluated("a = list[str]()") == [1]
