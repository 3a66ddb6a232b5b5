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
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.parts import CODE, ManagerService
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.manager_seen import JOBS, PAUSE, UNIT, manager_seen
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program import code
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program import installer as program

SETTINGS = {"limit": 20, "metrics_directory": ""}
REMOVAL = {"older_than": "1h", "keep_last": 0, "failed": False, "log_directory": "/x", "log_limit_mib": 1}


class Part:
    def __init__(self, name, settings, it):
        self.name, self.settings, self.it = name, settings, it

    def is_there(self):
        return self.it.has(self.name)

    def is_current(self):
        return self.it.is_current(self.name, self.settings)

    def install(self):
        self.it.install(self.name, self.settings)

    def remove(self):
        self.it.remove(self.name)


class Machine:
    def __init__(self, root):
        self.root, self.state, self.commands, self.rc, self.shows = root, root / "state", [], 0, {}
        (root / "etc/systemd/system").mkdir(parents=True)

    def run(self, argv):
        if argv[1] == "show":
            return 0, self.shows.get(argv[3], "") + "\n", ""
        self.commands.append(argv[1:])
        return self.rc, "", "it has no reason.\n"

    def part(self, name=PAUSE, **settings):
        """One part of the service, with these settings."""
        it = ManagerService(str(self.state), "/var/run/docker.sock", program.Machine(self.run, os.replace, str(self.root)))
        wanted = dict(SETTINGS if name == PAUSE else dict(REMOVAL, log_directory=str(self.root / "logs")), **settings)
        return Part(name, wanted, it)

    def files(self):
        return sorted(path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file() or path.is_symlink())

    def running(self, pid):
        folder = self.root / "run/gpu-swarm-manager"
        folder.mkdir(parents=True)
        (folder / "status.json").write_text(json.dumps({"pid": pid}))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_installed_compared_and_removed_without_a_trace(machine):
    before = machine.files()
    part = machine.part()
    assert [part.is_there(), part.is_current()] == [False, False]
    part.install()
    assert machine.commands[-1] == ["restart", "gpu-swarm-manager.service"]
    assert not any("daemon-reload" in command for command in machine.commands)
    assert manager_seen(str(machine.state), str(machine.root)) == {"version": CODE.name(), "settings": SETTINGS, "running": False}
    part.remove()
    assert (machine.files(), machine.state.exists(), part.is_there()) == (before, False, False)
    assert manager_seen(str(machine.state), str(machine.root)) is None


def test_the_metrics_go_with_it_and_with_their_directory(machine, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "gpu-swarm.prom").write_text('gpu_swarm_info{swarm="c1",source="reactor"} 1\n')
        (folder / "other.prom").touch()
    machine.part(metrics_directory=str(old)).install()
    unit, link = machine.root / "etc/systemd/system/gpu-swarm-manager.service", machine.state / "manager/metrics"
    text, written = unit.read_text(), unit.stat()
    assert f'ReadWritePaths="-{link}"\n' in text
    assert link.resolve() == old
    machine.part(metrics_directory=str(new)).install()
    assert (unit.read_text(), unit.stat(), link.resolve()) == (text, written, new)  # systemd need not read it anew
    assert [path.name for path in old.iterdir()] == ["other.prom"]
    assert (new / "gpu-swarm.prom").exists()
    machine.part().remove()  # it knows what it was installed with
    assert [path.name for path in new.iterdir()] == ["other.prom"]


def test_without_a_directory_it_writes_nowhere(machine):
    machine.part(metrics_directory="/srv/some").install()
    machine.part().install()
    assert not (machine.state / "manager/metrics").is_symlink()
    machine.part().install()


@pytest.mark.parametrize(("gpus", "needs", "done"), [(False, "yes", True), (False, "no", False), (True, "yes", False)])
def test_a_unit_that_changed_is_read_anew_where_no_container_can_lose_a_gpu(machine, gpus, needs, done):
    if gpus:
        (machine.root / "dev").mkdir()
        (machine.root / "dev/nvidiactl").touch()
    machine.shows["NeedDaemonReload"] = needs
    machine.part().install()
    assert machine.commands == [*([["daemon-reload"]] if done else []), ["reset-failed", UNIT], ["restart", UNIT]]


def test_what_others_keep_there_stays(machine):
    machine.state.mkdir()
    (machine.state / "record.json").write_text("{}")
    machine.part().install()
    machine.part().remove()
    assert machine.files() == ["state/record.json"]


def test_current_while_it_runs_with_these_settings(machine):
    part = machine.part()
    part.install()
    start = machine.state / "manager/current"
    here = [sys.executable, "-c", "input(input)", str(start)]
    with subprocess.Popen(here, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.read(1)  # it has begun
        machine.running(process.pid)
        assert part.is_current()
        assert not machine.part(limit=50).is_current()
        (machine.state / "manager/settings.json").write_text('{"limit": ')
        assert not part.is_current()
        part.install()
        assert part.is_current()
        (machine.root / "etc/systemd/system/gpu-swarm-manager.service").write_text("[Unit]\n")
        assert not part.is_current()
    part.install()
    assert not part.is_current()


def test_another_version_replaces_the_one_before(machine, monkeypatch):
    machine.part().install()
    first = os.readlink(machine.state / "manager/current")
    monkeypatch.setattr(code, "START", code.START + "# newer\n")
    machine.part().install()
    assert os.readlink(machine.state / "manager/current") == CODE.name() != first
    assert sorted(path.name for path in (machine.state / "manager").iterdir()) == [CODE.name(), "current", "settings.json"]


@pytest.mark.parametrize("state", ["active", "deactivating", "activating"])
def test_one_that_does_not_stop_is_an_error_and_stays(machine, state):
    machine.part().install()
    before, machine.rc, machine.shows["ActiveState"] = machine.files(), 1, state
    with pytest.raises(GpuSwarmError, match=f"{UNIT} did not stop: it has no reason. .* nothing of it was removed"):
        machine.part().remove()
    assert machine.files() == before


@pytest.mark.parametrize("state", ["inactive", "failed", ""])
def test_one_that_systemd_does_not_know_or_that_has_ended_is_removed(machine, state):
    """As after a run that was killed while it removed it."""
    before = machine.files()
    machine.part().install()
    machine.rc, machine.shows["ActiveState"] = 5, state
    machine.part().remove()
    assert machine.files() == before


def test_one_that_does_not_start_is_an_error(machine):
    machine.rc = 1
    with pytest.raises(GpuSwarmError, match="did not start: it has no reason"):
        machine.part().install()


def test_parts_come_and_go_and_the_service_goes_with_the_last(machine):
    before = machine.files()
    machine.part(PAUSE).install()
    machine.part(JOBS).install()
    assert [machine.part(name).is_there() for name in (PAUSE, JOBS)] == [True, True]
    assert (machine.root / "logs").is_dir()
    assert machine.part(JOBS).is_current()
    assert not machine.part(JOBS, keep_last=3).is_current()
    assert manager_seen(str(machine.state), str(machine.root))["settings"] == SETTINGS
    machine.part(PAUSE).remove()
    assert machine.commands[-1] == ["restart", UNIT]
    assert [machine.part(name).is_there() for name in (PAUSE, JOBS)] == [False, True]
    assert manager_seen(str(machine.state), str(machine.root)) is None
    machine.part(JOBS).remove()
    assert machine.files() == before
    assert (machine.root / "logs").is_dir()  # what it saved is the user's


def test_a_setting_of_a_part_changes_no_unit(machine):
    machine.part(JOBS).install()
    unit = machine.root / "etc/systemd/system" / UNIT
    text, written = unit.read_text(), unit.stat()
    assert f'ReadWritePaths="-{machine.state}/manager/logs"\n' in text
    machine.part(JOBS, log_directory=str(machine.root / "home/logs")).install()
    assert (unit.read_text(), unit.stat()) == (text, written)
    assert os.readlink(machine.state / "manager/logs") == str(machine.root / "home/logs")


def test_services_that_it_replaces_are_stopped_and_removed_before_it_starts(machine):
    former = ("gpu-swarm-react.service", "gpu-swarm-prune-jobs.timer")
    for name, home in zip(former, ("react", "prune-jobs"), strict=True):
        (machine.root / "etc/systemd/system" / name).touch()
        (machine.state / home / "code-1").mkdir(parents=True)
    machine.part().install()
    assert [command for command in machine.commands if command[0] in ("stop", "restart")] == [*(["stop", name] for name in former), ["restart", UNIT]]
    assert not [path for path in machine.files() if "react" in path or "prune-jobs" in path if "/gpu_swarm/" not in path]
