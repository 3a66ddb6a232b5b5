# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file, a function and a task file fit what a reader takes in at once."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "galaxy.yml").exists())
PLUGINS = sorted((ROOT / "plugins").rglob("*.py"))
TASK_FILES = sorted([*(ROOT / "playbooks/tasks").rglob("*.yml"), *(ROOT / "roles").glob("*/tasks/**/*.yml")])
FILE, FUNCTION, TASKS = 400, 40, 60


def lengths(paths):
    return {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}


def function_lengths():
    found = {}
    for path in PLUGINS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found[f"{path.relative_to(ROOT)}: {node.name}"] = node.end_lineno - node.lineno + 1
    return found


def beyond(lengths, limit):
    return {name: lines for name, lines in lengths.items() if lines > limit}


def test_no_plugin_is_longer_than_a_reader_keeps_in_mind():
    assert len(PLUGINS) > 100
    assert beyond(lengths(PLUGINS), FILE) == {}


def test_no_function_is_longer_than_a_screen():
    assert beyond(function_lengths(), FUNCTION) == {}


def test_no_task_file_is_longer_than_a_page():
    assert len(TASK_FILES) > 50
    assert beyond(lengths(TASK_FILES), TASKS) == {}
