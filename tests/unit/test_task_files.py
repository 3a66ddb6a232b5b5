# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A task file begins with the variables that it reads and sets. Variables are global to a host, and no other text names the file that sets them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "galaxy.yml").exists())
TASK_FILES = sorted([*(ROOT / "playbooks/tasks").rglob("*.yml"), *(ROOT / "roles").glob("*/tasks/**/*.yml")])
# Files that may pass variables to a task file.
CALLERS = sorted({*TASK_FILES, *(ROOT / "playbooks").glob("*.yml"), *(ROOT / "playbooks/plays").rglob("*.yml")})
# Files that may read what a task file sets.
READERS = ("playbooks/**/*.yml", "roles/**/*.yml", "roles/**/*.j2", "plugins/**/*.py", "molecule/**/*.yml")
SET_FACT = "ansible.builtin.set_fact"
# Other forms of a variable in a comment.
IN_WORDS = {"gpu_swarm_plan": "plan"}
# Exceptions, with the reason.
ALLOWED = {
    "playbooks/tasks/plan/reset.yml": "is a list of what it sets, and of nothing else",
}


def tasks(items):
    for task in items:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks(task.get(part, []))


def sets(text):
    """Return the variables that the tasks of a file set."""
    found = list(tasks(yaml.safe_load(text)))
    return {task["register"] for task in found if "register" in task} | {name for task in found for name in task.get(SET_FACT, {})}


def gives(found):
    """Return the variables that the tasks or plays of a file pass to the files that they call."""
    if isinstance(found, dict):
        yield from (name for name in found.get("vars") or () if name.startswith("_"))
    for part in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from gives(part)


def state(text):
    """Return the variables that a file sets or passes on, except its private variables."""
    return sets(text) | set(gives(yaml.safe_load(text)))


def comment(text):
    """Return the comment at the start of the file, before its first task."""
    lines = text.removeprefix("---\n").splitlines()
    end = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "\n".join(lines[:end])


def named(name, text):
    return re.search(rf"(?<!\w){name}(?!\w)", text) is not None


def read(text, own=()):
    """Return the text of a file without comments, and without the variables ``own`` that its tasks set."""
    bare = re.sub(r"^ *#.*$", "", text, flags=re.MULTILINE)
    return re.sub(rf"(?<!\w)({'|'.join(map(re.escape, own))})(?!\w)", "", bare) if own else bare


def unnamed(text, others):
    """Return the variables that the file sets but its first comment does not name, if another file without its own value reads them."""
    return sorted(name for name in sets(text) if any(named(name, other) for other in others) and not named(name, comment(text)))


def unread(text, others):
    """Return the variables that the file reads but its first comment does not name, if another file sets or passes them and this file does not."""
    bare, said = read(text), comment(text)
    return sorted(
        name
        for name in others - state(text)
        if named(name, bare) and not named(name, said) and not (name in IN_WORDS and named(IN_WORDS[name], said))
    )


@pytest.fixture(scope="module")
def readers():
    texts = {path: path.read_text(encoding="utf-8") for pattern in READERS for path in ROOT.glob(pattern)}
    return {
        path: read(text, {*re.findall(r"^ *register: (\w+)", text, re.MULTILINE), *(sets(text) if path in TASK_FILES else ())})
        for path, text in texts.items()
    }


def test_each_task_file_begins_with_a_comment():
    assert len(TASK_FILES) > 50
    without = {str(path.relative_to(ROOT)) for path in TASK_FILES if not comment(path.read_text(encoding="utf-8"))}
    assert without == set()


def test_the_comment_names_variables_that_others_read(readers):
    found = {}
    for path in TASK_FILES:
        missing = unnamed(path.read_text(encoding="utf-8"), [text for reader, text in readers.items() if reader != path])
        if missing and str(path.relative_to(ROOT)) not in ALLOWED:
            found[str(path.relative_to(ROOT))] = missing
    assert found == {}


def test_the_comment_names_variables_that_others_set_or_pass():
    of_roles = {name for path in (ROOT / "roles").glob("*/vars/*.yml") for name in yaml.safe_load(path.read_text(encoding="utf-8")) or ()}
    texts = {path: path.read_text(encoding="utf-8") for path in CALLERS}
    others = {name for path in TASK_FILES for name in sets(texts[path])} | {name for text in texts.values() for name in gives(yaml.safe_load(text))}
    assert {"gpu_swarm_plan", "gpu_swarm_connection_lost", "_gpu_swarm_step", "_gpu_swarm_maintain"} <= others - of_roles
    found = {str(path.relative_to(ROOT)): unread(texts[path], others - of_roles) for path in TASK_FILES}
    assert {path: missing for path, missing in found.items() if missing} == {}


def test_variables_of_other_files_are_found():
    text = "---\n# Reads a_b and the plan.\n# c\n- ping: {x: '{{ a_b ~ c_d ~ _e ~ gpu_swarm_plan }}'} # f\n  vars: {_g: '{{ _h }}'}\n  register: i\n"
    assert state(text) == {"_g", "i"}
    assert unread(text, {"a_b", "c_d", "_e", "f_g", "_g", "_h", "i", "gpu_swarm_plan"}) == ["_e", "_h", "c_d"]
    assert unread(text.replace(" and the plan", ""), {"gpu_swarm_plan"}) == ["gpu_swarm_plan"]


def test_variables_set_in_blocks_and_read_by_others_are_found():
    text = "---\n# Sets a_b.\n- block:\n    - ping:\n      register: a_b_c\n  rescue:\n    - ansible.builtin.set_fact: {a_b: 1, d: 2}\n"
    assert sets(text) == {"a_b", "a_b_c", "d"}
    assert comment(text) == "# Sets a_b."
    assert unnamed(text, ["x: '{{ a_b ~ a_b_c }}'"]) == ["a_b_c"]
    assert unnamed(text, [read("# of a_b_c\n- debug: {var: a_b_c.d}\n  register: a_b_c\n", {"a_b_c", "d"})]) == []


def test_every_exception_is_needed(readers):
    for name, reason in ALLOWED.items():
        path = ROOT / name
        assert reason
        assert unnamed(path.read_text(encoding="utf-8"), [text for reader, text in readers.items() if reader != path])
