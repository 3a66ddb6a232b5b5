# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible accepts the tasks of docs/examples/, and each task has a time limit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ANSIBLE = os.environ.get("ANSIBLE_PLAYBOOK") or str(Path(sys.executable).parent / "ansible-playbook")
EXAMPLES = sorted((ROOT / "docs/examples").glob("*.yml"))
# Tasks on the controller cannot hang.
AT_ONCE = {"ansible.builtin.assert"}
KEYWORDS = {"name", "timeout", "register", "when", "changed_when", "vars"}


def test_ansible_accepts_all_examples(tmp_path):
    home = tmp_path / "collections" / "ansible_collections" / "fleet"
    home.mkdir(parents=True)
    (home / "gpu_swarm").symlink_to(ROOT)
    play = {"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.import_tasks": str(path)} for path in EXAMPLES]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections"), "ANSIBLE_LOCALHOST_WARNING": "false"}
    command = [ANSIBLE, "--syntax-check", "-i", "g1,", str(tmp_path / "play.yml")]
    run = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_each_task_has_a_limit(path):
    for task in yaml.safe_load(path.read_text(encoding="utf-8")):
        (module,) = task.keys() - KEYWORDS
        assert module in AT_ONCE or task["timeout"] > 0, task["name"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_each_example_begins_with_its_command(path):
    assert "fleet.gpu_swarm.maintain --limit " in path.read_text(encoding="utf-8")
    assert f"maintain_tasks={path.name}" in path.read_text(encoding="utf-8")
