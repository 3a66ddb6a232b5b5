# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page that the playbook status writes, made of a real ledger by real playbooks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docker_daemon import Daemon
from swarm_api import A, B, cluster, discrete, named, node, pending, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch

ROOT = Path(__file__).resolve().parents[3]
ANSIBLE = str(Path(sys.executable).parent / "ansible-playbook")
NOW = epoch("2026-11-20T12:00:00Z")
REPORT = """
- hosts: localhost
  gather_facts: false
  tasks:
    - fleet.gpu_swarm.report:
        of: status
        ledger: "{{ lookup('file', 'ledger.json') }}"
        recorded: "{{ lookup('file', 'recorded.json') }}"
        output: html
        grafana_url: https://grafana.example.com/
        to: "{{ playbook_dir }}/fleet.html"
"""
EVENT = {"since": NOW - 9, "at": NOW, "what": "fault", "hostname": "host-g1", "text": "lost"}
RECORDED = {
    "now": NOW + 5, "usage_rows": [{"name": "alice", "kind": "NVIDIA-GPU", "hours": 2.0, "cards": 2.0}],
    "usage_by_day": [{"day": "2026-11-20", "name": "alice", "cards": 2.0}], "events": [EVENT],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "collections/ansible_collections/fleet").mkdir(parents=True)
    (tmp_path / "collections/ansible_collections/fleet/gpu_swarm").symlink_to(ROOT)
    (tmp_path / "play.yml").write_text(REPORT)
    nodes = [node("g1", resources=named(A, B)), node("g2", resources=discrete(80))]
    tasks = [task("t1", "g1", named(A)), pending("p1", {"NVIDIA-GPU": 4})]
    read = ledger(Listed(nodes, tasks, [service()], NOW), "gpu-swarm.", ("*",))
    (tmp_path / "ledger.json").write_text(json.dumps({**read, "owners": {"train": "alice"}, "manager": "m1"}))
    (tmp_path / "recorded.json").write_text(json.dumps(RECORDED))
    return tmp_path


def play(folder, playbook="play.yml", *arguments):
    environment = {
        **os.environ, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "200", "PWD": str(folder), "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
    }  # fmt: skip
    inventory = ["-i", "localhost,"] if playbook == "play.yml" else ["-i", str(folder / "hosts")]
    return subprocess.run([ANSIBLE, *inventory, playbook, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def data_of(folder):
    text = (folder / "fleet.html").read_text()
    return json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)[0])


def test_status_writes_a_page_of_the_ledger_and_the_record(folder):
    done = play(folder)
    assert "fleet.html: written, 0.1 MB. Open it in a browser." in done.stdout, done.stdout + done.stderr
    data = data_of(folder)
    assert (data["at"], data["manager"], data["live"], data["grafana"]) == (NOW + 5, "m1", False, "https://grafana.example.com/")
    assert [one["name"] for one in data["nodes"]] == ["host-g1", "host-g2"]
    first, second, amount = data["cards"]
    assert (first[1], data["names"][first[4]], data["names"][first[6][0][4]]) == (A, "allocated", "train")
    assert (second[1], data["names"][second[4]], amount[1]) == (B, "free", "")
    assert [one["service"] for one in data["pending"]] == ["train"]
    assert (data["usage"][0]["hours"], data["days"]["hours"]) == (2.0, [[0, 0, 0, 0, 0, 0, 2.0]])
    assert data["events"] == [{"at": NOW - 9, "what": "fault", "node": "host-g1", "text": "lost"}]


def test_without_a_record_the_page_has_the_rest(folder):
    (folder / "recorded.json").write_text(json.dumps({"answered": False, "msg": "not recorded"}))
    play(folder)
    data = data_of(folder)
    assert (data["usage"], data["events"], len(data["nodes"])) == (None, None, 2)


def test_check_mode_writes_nothing(folder):
    assert "fleet.html: would be written" in play(folder, "play.yml", "--check").stdout
    assert not (folder / "fleet.html").exists()


def test_an_older_page_is_replaced_and_another_file_is_not(folder):
    play(folder)
    (folder / "recorded.json").write_text("{}")
    play(folder)
    assert data_of(folder)["events"] is None
    (folder / "fleet.html").write_text("my only copy")
    done = play(folder)
    assert done.returncode == 2
    assert "exists and is no page of a fleet, so it was not overwritten" in done.stdout
    assert (folder / "fleet.html").read_text() == "my only copy"
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_a_missing_folder_is_named(folder):
    (folder / "play.yml").write_text(REPORT.replace("/fleet.html", "/none/fleet.html"))
    for options in ((), ("--check",)):
        said = " ".join(play(folder, "play.yml", *options).stdout.split())
        assert "The page could not be written to" in said
        assert "No such file or directory. Name a file in a folder that exists, with -e to=." in said, said


def test_the_playbook_writes_the_page_of_a_manager_to_a_file_in_the_working_directory(folder):
    swarm = {"LocalNodeState": "active", "ControlAvailable": True, "NodeID": "m1", "Cluster": cluster()}
    answers = {"/_ping": (200, "OK"), "/info": {"Swarm": swarm, "SystemTime": "2026-11-20T12:00:00Z"}, "/nodes": [node("g1", resources=named(A))],
               "/tasks": [task("t1", "g1", named(A))], "/services": [service()]}  # fmt: skip
    socket = f"{folder}/docker.sock"
    local = f"ansible_connection=local ansible_python_interpreter={sys.executable} ansible_become=false gpu_node_docker_socket={socket}"
    (folder / "hosts").write_text(f"[swarm_managers]\nm1 {local}\n")
    manager = Daemon(socket, {"Api-Version": "1.41"}, answers)
    try:
        done = play(folder, "fleet.gpu_swarm.status", "-e", "output=html to=fleet.html")
    finally:
        manager.close()
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{folder}/fleet.html: written" in done.stdout
    data = data_of(folder)
    assert (data["manager"], [one["name"] for one in data["nodes"]]) == ("m1", ["host-g1"])


@pytest.mark.parametrize("arguments", ["output=html", "to=fleet.html", "output=html to=fleet.html what=free", "output=html to=fleet.html service=a"])
def test_a_page_needs_a_file_and_shows_the_whole_fleet(folder, arguments):
    (folder / "hosts").write_text("[swarm_managers]\nm1 ansible_host=192.0.2.1\n")
    done = play(folder, "fleet.gpu_swarm.status", "-e", arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "output=html writes the whole fleet to a file" in done.stdout
