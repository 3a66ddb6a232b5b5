# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A manager that is not in the run freezes during a query. The test uses the real tasks, but with a shorter limit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ANSIBLE = os.environ.get("ANSIBLE_PLAYBOOK") or str(Path(sys.executable).parent / "ansible-playbook")
LIMIT = "timeout: 300"

PLAYBOOK = """
- hosts: nodes
  gather_facts: false
  vars:
    _gpu_swarm_unanswered: "{{ groups['swarm_managers'] }}"
    _gpu_swarm_external: []
    _gpu_swarm_socket: /nonexistent/docker.sock
  tasks:
    - ansible.builtin.include_tasks: query.yml
      run_once: true
    - ansible.builtin.debug:
        msg: "{{ ansible_play_hosts | join(',') }} {{ dict(answers | map(attribute='item') | zip(answers | map(attribute='msg'))) }}"
      vars: {answers: "{{ gpu_swarm_manager_answers.results }}"}
"""


def test_a_frozen_manager_fails_no_host(tmp_path):
    home = tmp_path / "collections" / "ansible_collections" / "fleet"
    home.mkdir(parents=True)
    (home / "gpu_swarm").symlink_to(ROOT)
    tasks = (ROOT / "playbooks/tasks/manager/query.yml").read_text()
    assert tasks.count(LIMIT) == 1
    (tmp_path / "query.yml").write_text(tasks.replace(LIMIT, "timeout: 3"))
    for words in last_messages(tmp_path, PLAYBOOK):
        assert words.startswith("g1,g2 {'frozen': ")
        assert "3 second" in words or "time frame (3)" in words


MANAGER_CALL = """
- hosts: nodes
  gather_facts: false
  tasks:
    - fleet.gpu_swarm.CALL
      delegate_to: frozen
      run_once: true
      failed_when: false
      register: answer
    - ansible.builtin.debug:
        msg: "{{ ansible_play_hosts | join(',') }} {{ answer.msg }}"
"""


@pytest.mark.parametrize("call", ["swarm_gpu_info:", pytest.param("swarm_lease: {ttl: 60}", marks=pytest.mark.long)])
def test_a_call_on_a_frozen_manager_fails_in_the_end(call, tmp_path):
    """In this test the call ends after 3 s. The limit is in the code, because a timeout of the task would fail the task on all hosts."""
    home = tmp_path / "collections" / "ansible_collections" / "fleet" / "gpu_swarm"
    for folder in ("meta", "plugins"):
        shutil.copytree(ROOT / folder, home / folder)
    delegation = home / "plugins" / "plugin_utils" / "_calls" / "delegation.py"
    limited = delegation.read_text().replace("MANAGER_LIMIT_S = 600.0", "MANAGER_LIMIT_S = 3.0")
    assert limited != delegation.read_text()
    delegation.write_text(limited)
    for words in last_messages(tmp_path, MANAGER_CALL.replace("CALL", call)):
        assert words.startswith("g1,g2 frozen gave no answer within 3 s: ")


def last_messages(tmp_path, playbook):
    """Return the message of this playbook's last task on g1 and g2. Another host answers nothing."""
    frozen = tmp_path / "python"
    frozen.write_text("#!/bin/sh\nexec sleep 120\n")
    frozen.chmod(0o755)
    hosts = ["[nodes]", "g1", "g2", "[all:vars]", "ansible_connection=local", f"ansible_python_interpreter={sys.executable}", "[swarm_managers]"]
    hosts += [f"frozen ansible_python_interpreter={frozen}"]
    (tmp_path / "hosts.ini").write_text("\n".join(hosts) + "\n")
    (tmp_path / "play.yml").write_text(playbook)
    environment = dict(
        os.environ,
        ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"),
        ANSIBLE_LOCAL_TEMP=str(tmp_path / "local"),
        ANSIBLE_REMOTE_TEMP=str(tmp_path / "remote"),
        ANSIBLE_PIPELINING="True",
        ANSIBLE_STDOUT_CALLBACK="ansible.builtin.json",
    )
    command = [ANSIBLE, "-i", str(tmp_path / "hosts.ini"), str(tmp_path / "play.yml")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "deprecated" not in done.stderr
    hosts = json.loads(done.stdout[done.stdout.index("{") :])["plays"][0]["tasks"][-1]["hosts"]
    assert set(hosts) == {"g1", "g2"}
    return [host["msg"] for host in hosts.values()]
