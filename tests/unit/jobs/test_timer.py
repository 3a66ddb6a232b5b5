# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The timer's files on a manager, and what it starts."""

from __future__ import annotations

import json
import os
import sys

import pytest
from swarm_api import node, service, task
from versioned_services import VersionedServices

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs import hourly, logs
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs.timer import Timer
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program import installer as program

SETTINGS = {
    "older_than": "1h", "keep_last": 0, "failed": False, "log_directory": "/x", "log_limit_mib": 1, "docker_socket": "/var/run/docker.sock",
}  # fmt: skip


class Machine:
    def __init__(self, root):
        self.root, self.state, self.commands, self.rc = root, root / "state", [], 0
        (root / "etc/systemd/system").mkdir(parents=True)

    def run(self, argv):
        if argv[1] == "show":
            return 0, "\n", ""
        self.commands.append(argv[1:])
        return self.rc, "", "it has no reason."

    def timer(self, **settings):
        return Timer(str(self.state), dict(SETTINGS, **settings), program.Machine(self.run, os.replace, str(self.root)))

    def files(self):
        return sorted(path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file() or path.is_symlink())


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_it_is_put_there_compared_and_removed_with_nothing_left(machine):
    before, timer = machine.files(), machine.timer()
    assert (timer.is_there(), timer.is_current()) == (False, False)
    timer.install()
    assert (timer.is_there(), timer.is_current()) == (True, True)
    assert machine.commands == [["reset-failed", "gpu-swarm-prune-jobs.timer"], ["restart", "gpu-swarm-prune-jobs.timer"]]
    assert not machine.timer(keep_last=3).is_current()
    unit = machine.root / "etc/systemd/system/gpu-swarm-prune-jobs.service"
    text = unit.read_text()
    machine.timer(keep_last=3).install()
    assert unit.read_text() == text  # systemd need not read it anew
    assert json.loads((machine.state / "prune-jobs/settings.json").read_text())["keep_last"] == 3
    timer.remove()
    assert (machine.files(), machine.state.exists(), timer.is_there()) == (before, False, False)


def test_saved_logs_stay(machine):
    timer = machine.timer()
    timer.install()
    (machine.state / "jobs").mkdir()
    timer.remove()
    assert [path.name for path in machine.state.iterdir()] == ["jobs"]


def test_one_that_does_not_start_is_said(machine):
    machine.rc = 1
    with pytest.raises(GpuSwarmError, match="gpu-swarm-prune-jobs.timer did not start: it has no reason"):
        machine.timer().install()




def once(service_id, name):
    one = service(service_id, name)
    one["Spec"].update(Mode={"Replicated": {"Replicas": 1}}, Labels={"gpu-swarm.job": name[:-2]})
    one["Spec"]["TaskTemplate"].update(RestartPolicy={"Condition": "none"}, ForceUpdate=0)
    return one


def starts(manager, monkeypatch, tmp_path):
    """As the timer does, on the manager n1."""
    manager.node_id = "n1"
    monkeypatch.setattr(hourly, "connect", lambda params: manager)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "current")])
    (tmp_path / "settings.json").write_text(json.dumps(dict(SETTINGS, log_directory=str(tmp_path))))


@pytest.mark.parametrize("leads", [True, False])
def test_only_the_leader_removes_what_is_over(leads, monkeypatch, tmp_path, capsys):
    manager = VersionedServices([once("s1", "train-1")], [task("t1", state="complete", restart="none")], nodes=[node("n1", leader=leads)])
    starts(manager, monkeypatch, tmp_path)
    assert hourly.main() == 0
    assert manager.removed == (["s1"] if leads else [])
    assert capsys.readouterr().out == ("removed train-1\n" if leads else "")


def test_what_stays_for_its_log_is_said_in_the_journal_and_nothing_else_that_stays(monkeypatch, tmp_path, capsys):
    def full(*_arguments):
        raise GpuSwarmError("no room\nfor it")

    tasks = [task("t1", state="complete", restart="none"), task("t2", service="s2", state="failed", restart="none")]
    manager = VersionedServices([once("s1", "train-1"), once("s2", "other-1")], tasks, nodes=[node("n1", leader=True)])
    starts(manager, monkeypatch, tmp_path)
    monkeypatch.setattr(logs, "save", full)
    assert (hourly.main(), manager.removed) == (0, [])
    assert tuple(capsys.readouterr()) == ("", "train-1 stays: no room\\nfor it\n")
