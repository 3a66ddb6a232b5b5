# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service's files on a manager: all of its code, nothing of an earlier one, and in the end nothing at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.react_seen import UNIT, react_seen
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program import code
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program import installer as program
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._react.install import CODE, Reactor

SETTINGS = {"limit": 20, "docker_socket": "/var/run/docker.sock", "metrics_directory": ""}


class Machine:
    def __init__(self, root):
        self.root, self.state, self.commands, self.rc, self.shows = root, root / "state", [], 0, {}
        (root / "etc/systemd/system").mkdir(parents=True)

    def run(self, argv):
        if argv[1] == "show":
            return 0, self.shows.get(argv[3], "") + "\n", ""
        self.commands.append(argv[1:])
        return self.rc, "", "it has no reason.\n"

    def reactor(self, **settings):
        return Reactor(str(self.state), dict(SETTINGS, **settings), program.Machine(self.run, os.replace, str(self.root)))

    def files(self):
        return sorted(path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file() or path.is_symlink())

    def running(self, pid):
        folder = self.root / "run/gpu-swarm-react"
        folder.mkdir(parents=True)
        (folder / "status.json").write_text(json.dumps({"pid": pid}))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_installed_compared_and_removed_without_a_trace(machine):
    before = machine.files()
    reactor = machine.reactor()
    assert [reactor.is_there(), reactor.is_current()] == [False, False]
    reactor.install()
    assert machine.commands[-1] == ["restart", "gpu-swarm-react.service"]
    assert not any("daemon-reload" in command for command in machine.commands)
    assert react_seen(str(machine.state), str(machine.root)) == {"version": CODE.name(), "settings": SETTINGS, "running": False}
    reactor.remove()
    assert (machine.files(), machine.state.exists(), reactor.is_there()) == (before, False, False)
    assert react_seen(str(machine.state), str(machine.root)) is None


def test_the_metrics_go_with_it_and_with_their_directory(machine, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "gpu-swarm.prom").write_text('gpu_swarm_info{swarm="c1",source="reactor"} 1\n')
        (folder / "other.prom").touch()
    machine.reactor(metrics_directory=str(old)).install()
    unit, link = machine.root / "etc/systemd/system/gpu-swarm-react.service", machine.state / "react/metrics"
    text, written = unit.read_text(), unit.stat()
    assert f"ReadWritePaths=-{link}\n" in text
    assert link.resolve() == old
    machine.reactor(metrics_directory=str(new)).install()
    assert (unit.read_text(), unit.stat(), link.resolve()) == (text, written, new)  # systemd need not read it anew
    assert [path.name for path in old.iterdir()] == ["other.prom"]
    assert (new / "gpu-swarm.prom").exists()
    machine.reactor().remove()  # it knows what it was installed with
    assert [path.name for path in new.iterdir()] == ["other.prom"]


def test_without_a_directory_it_writes_nowhere(machine):
    machine.reactor(metrics_directory="/srv/some").install()
    machine.reactor().install()
    assert not (machine.state / "react/metrics").is_symlink()
    machine.reactor().install()


@pytest.mark.parametrize(("gpus", "needs", "done"), [(False, "yes", True), (False, "no", False), (True, "yes", False)])
def test_a_unit_that_changed_is_read_anew_where_no_container_can_lose_a_gpu(machine, gpus, needs, done):
    if gpus:
        (machine.root / "dev").mkdir()
        (machine.root / "dev/nvidiactl").touch()
    machine.shows["NeedDaemonReload"] = needs
    machine.reactor().install()
    assert machine.commands == [*([["daemon-reload"]] if done else []), ["reset-failed", UNIT], ["restart", UNIT]]


def test_what_others_keep_there_stays(machine):
    machine.state.mkdir()
    (machine.state / "record.json").write_text("{}")
    machine.reactor().install()
    machine.reactor().remove()
    assert machine.files() == ["state/record.json"]


def test_current_while_it_runs_with_these_settings(machine):
    reactor = machine.reactor()
    reactor.install()
    start = machine.state / "react/current"
    here = [sys.executable, "-c", "input(input)", str(start)]
    with subprocess.Popen(here, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.read(1)  # it has begun
        machine.running(process.pid)
        assert reactor.is_current()
        assert not machine.reactor(limit=50).is_current()
        (machine.state / "react/settings.json").write_text('{"limit": ')
        assert not reactor.is_current()
        reactor.install()
        assert reactor.is_current()
        (machine.root / "etc/systemd/system/gpu-swarm-react.service").write_text("[Unit]\n")
        assert not reactor.is_current()
    reactor.install()
    assert not reactor.is_current()


def test_another_version_replaces_the_one_before(machine, monkeypatch):
    machine.reactor().install()
    first = os.readlink(machine.state / "react/current")
    monkeypatch.setattr(code, "START", code.START + "# newer\n")
    machine.reactor().install()
    assert os.readlink(machine.state / "react/current") == CODE.name() != first
    assert sorted(path.name for path in (machine.state / "react").iterdir()) == [CODE.name(), "current", "settings.json"]


@pytest.mark.parametrize("state", ["active", "deactivating", "activating"])
def test_one_that_does_not_stop_is_an_error_and_stays(machine, state):
    machine.reactor().install()
    before, machine.rc, machine.shows["ActiveState"] = machine.files(), 1, state
    with pytest.raises(GpuSwarmError, match=f"{UNIT} did not stop: it has no reason. .* nothing of it was removed"):
        machine.reactor().remove()
    assert machine.files() == before


@pytest.mark.parametrize("state", ["inactive", "failed", ""])
def test_one_that_systemd_does_not_know_or_that_has_ended_is_removed(machine, state):
    """As after a run that was killed while it removed it."""
    before = machine.files()
    machine.reactor().install()
    machine.rc, machine.shows["ActiveState"] = 5, state
    machine.reactor().remove()
    assert machine.files() == before


def test_one_that_does_not_start_is_an_error(machine):
    machine.rc = 1
    with pytest.raises(GpuSwarmError, match="did not start: it has no reason"):
        machine.reactor().install()
