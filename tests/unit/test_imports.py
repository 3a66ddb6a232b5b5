# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each file of tests can be read, moved and removed alone. If two of these files need the same code, a third file without tests contains it."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def imported(path: Path) -> list[str]:
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return [name for node in nodes for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])]


def test_nothing_imports_a_file_of_tests() -> None:
    files = [path for folder in ("tests", "molecule") for path in (TESTS.parent / folder).rglob("*.py")]
    assert len(files) > 200
    found = {str(path.relative_to(TESTS)): name for path in files for name in imported(path) if name.rpartition(".")[2].startswith("test_")}
    assert found == {}
