# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a reader of one node's window opens, and which tasks such a window is, do not grow (docs/ARCHITECTURE.md, step by step).

The node is changed by ``provision``, its toolkit stays as it is, and nothing goes wrong. What goes wrong is read too, in the files, and is no task.
"""

from __future__ import annotations

import re
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
    "Keep what becomes of the host": "a host that does not get through",
    "Wait until it has ended here": "a drain for which the call does not wait that restarts dockerd",
    "Change packages": "another version of the toolkit, or another setting for the hold of its packages",
}
# Task files; modules, actions and filters of this collection that these call; and what decides, by the page. Then tasks that do something, and
# those that read a file in.
FILES, TASKS, INCLUDES = 12, 8, 2
PAGE, HEADING = "docs/ARCHITECTURE.md", "## One node's window, step by step"


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


def of_collection(text):
    """The modules, actions and filters that a task file calls: the first file of each that a reader opens."""
    actions = re.findall(rf"^ *{re.escape(OWN)}(\w+):$", text, re.MULTILINE) + re.findall(r"_gpu_swarm_module: (\w+)", text)
    filters = re.findall(rf"\| *{re.escape(OWN)}(\w+)", text)
    found = [next(path for kind in ("action", "modules") if (path := ROOT / f"plugins/{kind}/{name}.py").exists()) for name in actions]
    return {str(path.relative_to(ROOT)) for path in found} | {f"plugins/filter/{name}.py" for name in filters}


def deciders():
    """What of plugin_utils/ the table of the page names, where it says what decides at a step."""
    text = (ROOT / PAGE).read_text(encoding="utf-8").partition(HEADING)[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if re.match(r"\| \d", line)]
    assert [row[0] for row in rows] == [str(number + 1) for number in range(len(rows))]
    named = {name for row in rows for name in re.findall(r"`(?:plugins/plugin_utils/)?(_\w+/\w+\.py)`", row[3])}
    found = {f"plugins/plugin_utils/{name}" for name in named if (ROOT / "plugins/plugin_utils" / name).exists()}
    others = {name for name in named if (ROOT / "plugins/module_utils" / name).exists()}
    assert len(found) + len(others) == len(named)
    return found


def opened(window):
    files = dict.fromkeys(path for path, _task, _fails in window)
    return [*files, *sorted({one for path in files for one in of_collection((ROOT / path).read_text(encoding="utf-8"))} | deciders())]


def done(window):
    return [task for _path, task, fails in window if not fails and task["name"] not in OTHERWISE and not any(action in task for action in STATIC)]


def test_what_a_reader_of_a_window_opens_does_not_grow(window):
    files = opened(window)
    assert [path for path in files if not (ROOT / path).exists()] == []
    assert {BEGIN, "plugins/action/host_outcome.py", "plugins/action/swarm_batch.py", "plugins/plugin_utils/_fleet/workload.py"} < set(files)
    assert len(files) <= FILES, files


def test_the_tasks_of_a_window_do_not_grow(window):
    includes = [task["name"] for task in done(window) if any(action in task for action in DYNAMIC)]
    rest = [task["name"] for task in done(window) if not any(action in task for action in DYNAMIC)]
    assert "Advertise the GPUs" in rest
    assert (len(rest) <= TASKS, len(includes) <= INCLUDES) == (True, True), (rest, includes)


def test_what_a_window_skips_is_there_and_has_a_condition(window):
    without = {name for name in OTHERWISE if not any(task["name"] == name and "when" in task for _path, task, _fails in window)}
    assert without == set()
