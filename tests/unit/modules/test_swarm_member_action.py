# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a failed join with Ansible. Checks the message, and that the token appears nowhere, not even in the failed task."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TOKEN = "SWMTKN-1-a-token-of-a-test"
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - block:
        - name: Join
          fleet.gpu_swarm.swarm_member:
            {state: joined, role: worker, manager: m1, managers: [192.0.2.1], join_token: "{{ token }}", docker_socket: /nowhere/docker.sock}
      rescue:
        - ansible.builtin.debug: {msg: "{{ ansible_failed_task }}"}
        - ansible.builtin.debug: {msg: "{{ ansible_failed_result.msg }}"}
"""


def test_a_failed_join_shows_its_token_nowhere(tmp_path):
    for part in ("meta", "plugins"):
        shutil.copytree(ROOT / part, tmp_path / "collections" / "ansible_collections" / "fleet" / "gpu_swarm" / part)
    (tmp_path / "hosts.ini").write_text(f"w1 ansible_connection=local ansible_python_interpreter={sys.executable}\n")
    (tmp_path / "play.yml").write_text(PLAY)
    environment = dict(
        os.environ,
        ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"),
        ANSIBLE_LOCAL_TEMP=str(tmp_path / "local"),
        ANSIBLE_REMOTE_TEMP=str(tmp_path / "remote"),
        ANSIBLE_STDOUT_CALLBACK="ansible.builtin.json",
    )
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(tmp_path / "hosts.ini"), str(tmp_path / "play.yml")]
    done = subprocess.run([*command, "-e", f"token={TOKEN}"], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tasks = json.loads(done.stdout[done.stdout.index("{\n") :])["plays"][0]["tasks"]
    task, message = (one["hosts"]["w1"]["msg"] for one in tasks[-2:])
    assert "swarm_member" in str(task), "the test looks at the task that failed"
    assert "w1 could not join the swarm of m1 as worker: its swarm state is now unknown" in message
    assert TOKEN not in done.stdout + done.stderr
