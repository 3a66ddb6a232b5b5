# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A window takes few tasks: each costs every node of a batch time, and the nodes are out of service meanwhile.

The node is changed by ``provision``, its toolkit stays as it is, and nothing goes wrong.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "galaxy.yml").exists())
OWN = "fleet.gpu_swarm."
BEGIN = "playbooks/tasks/window/main.yml"
CHANGE = {"{{ _gpu_swarm_change }}": "configure.yml"}  # as provision sets it
STATIC, DYNAMIC = ("ansible.builtin.import_tasks",), ("ansible.builtin.include_tasks", "ansible.builtin.include_role")
# The tasks that such a window skips, with what they are for.
OTHERWISE = {
    "Record the result of the host": "a host that does not get through",
    "Wait until the tasks here have ended": "a drain for which the call does not wait that restarts dockerd",
    "Change packages": "another version of the toolkit, or another setting for the hold of its packages",
}
# Tasks that do something, and tasks that read a file in.
TASKS, INCLUDES = 8, 2


def leads_to(path, task):
    """The task file that this task reads in, from the root; None where it does not."""
    for action in (*STATIC, *DYNAMIC):
        found = task.get(action)
        if isinstance(found, dict):
            return f"roles/{found['name'].removeprefix(OWN)}/tasks/{found['tasks_from']}.yml"
        if found:
            return str(((ROOT / path).parent / CHANGE.get(found, found)).resolve().relative_to(ROOT))
    return None


def walked(path, fails=False):
    """(the file, a task of it, whether that is for what went wrong), in their order, with those of the files that they read in."""
    yield from _walked(path, yaml.safe_load((ROOT / path).read_text(encoding="utf-8")), fails)


def _walked(path, tasks, fails):
    for task in tasks:
        if "block" in task:
            yield from _walked(path, task["block"], fails)
            yield from _walked(path, task.get("rescue", []), True)
            continue
        yield path, task, fails
        if leads_to(path, task) and task["name"] not in OTHERWISE:
            yield from walked(leads_to(path, task), fails)


@pytest.fixture(scope="module")
def window():
    return list(walked(BEGIN))


def done(window):
    return [task for _path, task, fails in window if not fails and task["name"] not in OTHERWISE and not any(action in task for action in STATIC)]


def test_the_tasks_of_a_window_do_not_grow(window):
    includes = [task["name"] for task in done(window) if any(action in task for action in DYNAMIC)]
    rest = [task["name"] for task in done(window) if not any(action in task for action in DYNAMIC)]
    assert "Advertise the GPUs" in rest
    assert (len(rest) <= TASKS, len(includes) <= INCLUDES) == (True, True), (rest, includes)


def test_what_a_window_skips_is_there_and_has_a_condition(window):
    without = {name for name in OTHERWISE if not any(task["name"] == name and "when" in task for _path, task, _fails in window)}
    assert without == set()
