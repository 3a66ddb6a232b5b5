# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each field of the records that several rooms share has a description."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PLUGINS = next(folder for folder in Path(__file__).resolve().parents if (folder / "galaxy.yml").exists()) / "plugins"
RECORDS = {
    "Decision": "module_utils/_node/decision.py",
    "Observation": "module_utils/_node/observation.py",
    "Host": "plugin_utils/_fleet/model.py",
    "Step": "plugin_utils/_fleet/model.py",
    "PlannedWork": "plugin_utils/_fleet/model.py",
    "PlannedFault": "plugin_utils/_fleet/model.py",
    "Target": "plugin_utils/_fleet/model.py",
    "Removal": "plugin_utils/_fleet/model.py",
}


def without_text(source: str, name: str) -> list[str]:
    """Return the fields of a record without a comment beside or above them, and without a mention in its docstring."""
    lines = source.splitlines()
    (record,) = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name]
    said = re.findall(r"``(\w+)``", ast.get_docstring(record) or "")
    fields = {node.target.id: node for node in record.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    return [
        field
        for field, node in fields.items()
        if field not in said and "  # " not in lines[node.end_lineno - 1] and not lines[node.lineno - 2].lstrip().startswith("# ")
    ]


@pytest.mark.parametrize(("name", "path"), RECORDS.items(), ids=RECORDS)
def test_each_field_has_a_text(name: str, path: str) -> None:
    assert without_text((PLUGINS / path).read_text(encoding="utf-8"), name) == []


def test_fields_without_a_text_are_found() -> None:
    source = 'class A:\n    """Of ``b``."""\n\n    b: int\n    c: int\n    d: int = 1  # of it\n    # Of more.\n    e: str\n'
    assert without_text(source, "A") == ["c"]
