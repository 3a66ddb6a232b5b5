# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A loop in a loop needs another variable. Otherwise Ansible warns on each host ("already in use"), and the inner loop replaces the outer item."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).parents[3]
TASK_FILES = sorted([*CHECKOUT.glob("roles/*/tasks/**/*.yml"), *CHECKOUT.glob("playbooks/tasks/**/*.yml")])
INCLUDES = ("ansible.builtin.include_tasks", "ansible.builtin.import_tasks")
ROLES = ("ansible.builtin.include_role", "ansible.builtin.import_role")


def tasks_in(tasks):
    for task in tasks or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_in(task.get(part))


def variable(task):
    """Return the variable of the task's loop, or None."""
    return task.get("loop_control", {}).get("loop_var", "item") if "loop" in task else None


def reached(path, task):
    """Yield the task files that a task includes. If the name of the file is a list or a choice, yield all these files."""
    for key in INCLUDES:
        if key in task:
            named = task[key] if isinstance(task[key], str) else task[key]["file"]
            words = f"{named} {task.get('loop', '')}" if "item" in named else named
            yield from (path.parent / name for name in re.findall(r"[\w./-]+\.yml", words))
    for key in ROLES:
        if key in task:
            role, entry = task[key]["name"].rpartition(".")[2], task[key].get("tasks_from", "main")
            yield from CHECKOUT.glob(f"roles/{role}/tasks/{entry.removesuffix('.yml')}.yml")


def inner(path, seen=()):
    """Return the variables of all loops in a task file and in the files that it includes."""
    if path in seen or not path.is_file():
        return
    for task in tasks_in(yaml.safe_load(path.read_text())):
        if variable(task):
            yield variable(task)
        for file in reached(path, task):
            yield from inner(file, (*seen, path))


def clashes(path):
    for task in tasks_in(yaml.safe_load(path.read_text())):
        if variable(task) and variable(task) in {one for file in reached(path, task) for one in inner(file)}:
            yield task["name"]


@pytest.mark.parametrize("path", TASK_FILES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_no_loop_uses_the_variable_of_an_outer_loop(path):
    assert list(clashes(path)) == []


def test_a_loop_in_a_loop_is_found(tmp_path):
    (tmp_path / "inner.yml").write_text(yaml.safe_dump([{"block": [{"name": "each", "loop": [1], "debug": {}}]}]))
    (tmp_path / "between.yml").write_text(yaml.safe_dump([{"name": "on", INCLUDES[1]: "inner.yml"}]))
    outer = {"name": "all", INCLUDES[0]: "{{ item }}", "loop": ["between.yml"]}
    (tmp_path / "outer.yml").write_text(yaml.safe_dump([outer, {**outer, "name": "fine", "loop_control": {"loop_var": "_file"}}]))
    assert list(clashes(tmp_path / "outer.yml")) == ["all"]
