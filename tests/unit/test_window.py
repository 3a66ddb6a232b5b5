# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A window has few tasks, because during each task every node of a batch is out of service.

In these windows ``provision`` changes the node but not its toolkit, and no task fails.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "galaxy.yml").exists())
OWN = "fleet.gpu_swarm."
BEGIN = "playbooks/tasks/window/main.yml"
CHANGE = {"{{ _gpu_swarm_change }}": "configure.yml"}  # provision sets these variables
STATIC, DYNAMIC = ("ansible.builtin.import_tasks",), ("ansible.builtin.include_tasks", "ansible.builtin.include_role")
# Tasks that such a window skips, with their purpose.
OTHERWISE = {
    "Record the result of the host": "a host that does not get through",
    "Wait until the tasks here have ended": "a drain for which the call does not wait that restarts dockerd",
    "Change packages": "another version of the toolkit, or another setting for the hold of its packages",
}
# Tasks that do something, and tasks that include a file.
TASKS, INCLUDES = 8, 2


def leads_to(path, task):
    """Return the task file that this task includes, from the root, or None."""
    for action in (*STATIC, *DYNAMIC):
        found = task.get(action)
        if isinstance(found, dict):
            return f"roles/{found['name'].removeprefix(OWN)}/tasks/{found['tasks_from']}.yml"
        if found:
            return str(((ROOT / path).parent / CHANGE.get(found, found)).resolve().relative_to(ROOT))
    return None


def walk(path, fails=False):
    """Yield the file, a task, and whether the task handles an error. The order is that of the run, with the included files."""
    yield from _walked(path, yaml.safe_load((ROOT / path).read_text(encoding="utf-8")), fails)


def _walked(path, tasks, fails):
    for task in tasks:
        if "block" in task:
            yield from _walked(path, task["block"], fails)
            yield from _walked(path, task.get("rescue", []), True)
            continue
        yield path, task, fails
        if leads_to(path, task) and task["name"] not in OTHERWISE:
            yield from walk(leads_to(path, task), fails)


@pytest.fixture(scope="module")
def window():
    return list(walk(BEGIN))


def done(window):
    return [task for _path, task, fails in window if not fails and task["name"] not in OTHERWISE and not any(action in task for action in STATIC)]


def test_the_number_of_tasks_in_a_window_does_not_grow(window):
    includes = [task["name"] for task in done(window) if any(action in task for action in DYNAMIC)]
    rest = [task["name"] for task in done(window) if not any(action in task for action in DYNAMIC)]
    assert "Advertise the GPUs" in rest
    assert (len(rest) <= TASKS, len(includes) <= INCLUDES) == (True, True), (rest, includes)


def test_every_skipped_task_exists_and_has_a_condition(window):
    without = {name for name in OTHERWISE if not any(task["name"] == name and "when" in task for _path, task, _fails in window)}
    assert without == set()
