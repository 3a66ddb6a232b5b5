# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The callback that makes ansible-playbook collect garbage less often. Ansible loads it with every playbook of the collection."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ANSIBLE_PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
CALLBACKS = Path(__file__).resolve().parents[2] / "playbooks" / "callback_plugins"
PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: "{{ lookup('searches') }}"
"""
# Runs in a process that Ansible forks for the task, like actions of modules.
LOOKUP = """
import gc
from ansible.plugins.lookup import LookupBase

class LookupModule(LookupBase):
    def run(self, terms, variables=None, **options):
        return ["threshold=%d frozen=%s" % (gc.get_threshold()[0], gc.get_freeze_count() > 10000)]
"""


# The threshold of this release of Python.
DEFAULT = "import gc; print(gc.get_threshold()[0])"


def without_more() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def played(folder: Path) -> str:
    (folder / "play.yml").write_text(PLAYBOOK)
    (folder / "lookup_plugins").mkdir()
    (folder / "lookup_plugins" / "searches.py").write_text(LOOKUP)
    done = subprocess.run(
        [ANSIBLE_PLAYBOOK, "-i", "localhost,", folder / "play.yml"],
        env={**without_more(), "ANSIBLE_HOME": str(folder / "home")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_processes_of_tasks_have_the_threshold(tmp_path: Path) -> None:
    (tmp_path / "callback_plugins").symlink_to(CALLBACKS)
    assert "threshold=50000 frozen=True" in played(tmp_path)


def test_other_playbooks_are_not_affected(tmp_path: Path) -> None:
    default = subprocess.run([sys.executable, "-c", DEFAULT], env=without_more(), capture_output=True, text=True, check=True).stdout.strip()
    assert default != "50000"
    assert f"threshold={default} frozen=False" in played(tmp_path)
