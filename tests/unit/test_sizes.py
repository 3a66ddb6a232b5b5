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
# More than that are a record. What only a test gives, to have time of its own, is not counted.
PARAMETERS, TIME = 5, {"self", "cls", "clock", "sleep"}


def lengths(paths):
    return {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}


def functions():
    for path in PLUGINS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{path.relative_to(ROOT)}: {node.name}", node


def function_lengths():
    return {name: node.end_lineno - node.lineno + 1 for name, node in functions()}


def parameters():
    given = {name: (node.args.posonlyargs + node.args.args + node.args.kwonlyargs) for name, node in functions()}
    return {name: len([one for one in all_of_it if one.arg not in TIME]) for name, all_of_it in given.items()}


def beyond(lengths, limit):
    return {name: lines for name, lines in lengths.items() if lines > limit}


def test_no_plugin_is_longer_than_a_reader_keeps_in_mind():
    assert len(PLUGINS) > 100
    assert beyond(lengths(PLUGINS), FILE) == {}


def test_no_function_is_longer_than_a_screen():
    assert beyond(function_lengths(), FUNCTION) == {}


def test_no_function_takes_more_than_a_caller_keeps_apart():
    assert beyond(parameters(), PARAMETERS) == {}


def test_no_task_file_is_longer_than_a_page():
    assert len(TASK_FILES) > 50
    assert beyond(lengths(TASK_FILES), TASKS) == {}
