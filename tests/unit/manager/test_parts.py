# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service's files on a manager: all of its code, nothing of an earlier version, and nothing after the removal."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._files import digest
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager import installed_command
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.parts import CODE, ManagerService
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.shared_directories import SharedDirectories
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.manager_state import DIRECTORIES, JOBS, PAGE, PAUSE, RECORD, UNIT, manager_state
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program import code
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program import installer as program

SETTINGS = {"limit": 20, "metrics_directory": ""}
REMOVAL = {"older_than": "1h", "keep_last": 0, "failed": False, "log_directory": "/x", "log_limit_mib": 1}
TEMPLATE = "<!doctype html>"
PAGE_SETTINGS = {"grafana_url": "", "template": digest(TEMPLATE.encode())}


class Part:
    def __init__(self, name, settings, it):
        self.name, self.settings, self.it = name, settings, it

    def is_installed(self):
        return self.it.has(self.name)

    def is_current(self):
        return self.it.is_current({self.name: self.settings})

    def install(self):
        self.it.apply({self.name: self.settings})

    def remove(self):
        self.it.apply({self.name: None})

    def converge(self, check_mode=False):
        return self.it.converge({self.name: self.settings}, check_mode)


class Killed(BaseException):
    pass


class Machine:
    def __init__(self, root):
        self.root, self.state, self.commands, self.rc, self.shows = root, root / "state", [], 0, {}
        self.process = None  # the settings of the running process
        self.killed_at = None
        self.group = os.getgid()  # of the group docker
        (root / "etc/systemd/system").mkdir(parents=True)

    def run(self, argv):
        if argv[1] == "show":
            return 0, self.shows.get(argv[3], "") + "\n", ""
        self.commands.append(argv[1:])
        if len(self.commands) == self.killed_at:
            raise Killed
        if argv[-1] == UNIT and argv[1] in ("stop", "restart") and self.rc == 0:
            self._end()
            self.process = json.loads((self.state / "manager/settings.json").read_text()) if argv[1] == "restart" else None
            self.shows["ActiveState"] = "active" if self.process else "inactive"
        return self.rc, "", "it has no reason.\n"

    def _end(self):
        """Write metrics once more, because the process writes them until its end."""
        folder = (self.process or {}).get(PAUSE, {}).get("metrics_directory")
        if folder and os.path.isdir(folder):
            Path(folder, "gpu-swarm.prom").write_text('gpu_swarm_info{swarm="c1",source="reactor"} 1\n')

    def service(self, socket="/var/run/docker.sock"):
        return ManagerService(str(self.state), str(socket), program.Machine(self.run, os.replace, str(self.root)), TEMPLATE, lambda: self.group)

    def part(self, name=PAUSE, **settings):
        """Return one part of the service with these settings."""
        wanted = {PAUSE: SETTINGS, JOBS: dict(REMOVAL, log_directory=str(self.root / "logs")), RECORD: {}, PAGE: PAGE_SETTINGS}[name]
        return Part(name, {**wanted, **settings}, self.service())

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
    assert [part.is_installed(), part.is_current()] == [False, False]
    part.install()
    assert machine.commands[-1] == ["restart", "gpu-swarm-manager.service"]
    assert not any("daemon-reload" in command for command in machine.commands)
    assert manager_state(str(machine.state), str(machine.root)) == {
        "version": CODE.name(),
        "command": installed_command.CODE.name(),
        "settings": {PAUSE: SETTINGS},
        "running": False,
    }
    part.remove()
    assert (machine.files(), machine.state.exists(), part.is_installed()) == (before, False, False)
    assert manager_state(str(machine.state), str(machine.root)) is None


def test_the_metrics_file_is_removed_with_the_service_and_with_its_directory(machine, tmp_path):
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
    assert (unit.read_text(), unit.stat(), link.resolve()) == (text, written, new)  # the unit is unchanged, so systemd need not read it again
    assert [path.name for path in old.iterdir()] == ["other.prom"]
    assert (new / "gpu-swarm.prom").exists()
    machine.part().remove()  # the part finds its former settings
    assert [path.name for path in new.iterdir()] == ["other.prom"]


def test_without_a_directory_no_metrics_are_written(machine):
    machine.part(metrics_directory="/srv/some").install()
    machine.part().install()
    assert not (machine.state / "manager/metrics").is_symlink()
    machine.part().install()


@pytest.mark.parametrize(("gpus", "needs", "done"), [(False, "yes", True), (False, "no", False), (True, "yes", False)])
def test_a_changed_unit_is_reloaded_only_if_no_container_can_lose_a_gpu(machine, gpus, needs, done):
    if gpus:
        (machine.root / "dev").mkdir()
        (machine.root / "dev/nvidiactl").touch()
    machine.shows["NeedDaemonReload"] = needs
    machine.part().install()
    assert machine.commands == [*([["daemon-reload"]] if done else []), ["reset-failed", UNIT], ["restart", UNIT]]


def test_files_of_others_in_its_folder_stay(machine):
    machine.state.mkdir()
    (machine.state / "record.json").write_text("{}")
    machine.part().install()
    machine.part().remove()
    assert machine.files() == ["state/record.json"]


def test_the_service_is_current_while_it_runs_with_these_settings(machine):
    part = machine.part()
    part.install()
    start = machine.state / "manager/current"
    here = [sys.executable, "-c", "input(input)", str(start)]
    with subprocess.Popen(here, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.read(1)  # the process has started
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


def test_another_version_replaces_the_earlier_one(machine, monkeypatch):
    machine.part().install()
    first = os.readlink(machine.state / "manager/current")
    monkeypatch.setattr(code, "START", code.START + "# newer\n")
    machine.part().install()
    assert os.readlink(machine.state / "manager/current") == CODE.name() != first
    assert sorted(path.name for path in (machine.state / "manager").iterdir()) == [CODE.name(), "current", "settings.json"]


@pytest.mark.parametrize("state", ["active", "deactivating", "activating"])
def test_a_service_that_does_not_stop_is_an_error_and_stays(machine, state):
    machine.part().install()
    before, machine.rc, machine.shows["ActiveState"] = machine.files(), 1, state
    with pytest.raises(GpuSwarmError, match=f"{UNIT} did not stop: it has no reason. .* nothing was removed"):
        machine.part().remove()
    assert machine.files() == before


@pytest.mark.parametrize("state", ["inactive", "failed", ""])
def test_an_unknown_or_ended_service_is_removed(machine, state):
    """A run that was killed during the removal leaves the service in this state."""
    before = machine.files()
    machine.part().install()
    machine.rc, machine.shows["ActiveState"] = 5, state
    machine.part().remove()
    assert machine.files() == before


def test_a_service_that_does_not_start_is_an_error(machine):
    machine.rc = 1
    with pytest.raises(GpuSwarmError, match="did not start: it has no reason"):
        machine.part().install()


def test_the_service_is_removed_with_its_last_part(machine):
    before = machine.files()
    machine.part(PAUSE).install()
    machine.part(JOBS).install()
    assert [machine.part(name).is_installed() for name in (PAUSE, JOBS)] == [True, True]
    assert (machine.root / "logs").is_dir()
    assert machine.part(JOBS).is_current()
    assert not machine.part(JOBS, keep_last=3).is_current()
    assert manager_state(str(machine.state), str(machine.root))["settings"] == {PAUSE: SETTINGS}
    machine.part(PAUSE).remove()
    assert machine.commands[-1] == ["restart", UNIT]
    assert [machine.part(name).is_installed() for name in (PAUSE, JOBS)] == [False, True]
    assert manager_state(str(machine.state), str(machine.root)) is None
    machine.part(JOBS).remove()
    assert machine.files() == before
    assert (machine.root / "logs").is_dir()  # saved logs belong to the user


def test_a_setting_of_a_part_changes_no_unit(machine):
    machine.part(JOBS).install()
    unit = machine.root / "etc/systemd/system" / UNIT
    text, written = unit.read_text(), unit.stat()
    assert f'ReadWritePaths="-{machine.state}/manager/logs"\n' in text
    machine.part(JOBS, log_directory=str(machine.root / "home/logs")).install()
    assert (unit.read_text(), unit.stat()) == (text, written)
    assert os.readlink(machine.state / "manager/logs") == str(machine.root / "home/logs")


def test_replaced_services_are_stopped_and_removed_before_it_starts(machine):
    former = ("gpu-swarm-react.service", "gpu-swarm-prune-jobs.timer")
    for name, home in zip(former, ("react", "prune-jobs"), strict=True):
        (machine.root / "etc/systemd/system" / name).touch()
        (machine.state / home / "code-1").mkdir(parents=True)
    machine.part().install()
    assert [command for command in machine.commands if command[0] in ("stop", "restart")] == [*(["stop", name] for name in former), ["restart", UNIT]]
    assert not [path for path in machine.files() if "react" in path or "prune-jobs" in path if "/gpu_swarm/" not in path]


def test_the_service_may_write_to_a_directory_of_another_user(machine):
    """For example, the directory may belong to the user of node_exporter."""
    machine.part().install()
    assert "\nCapabilityBoundingSet=CAP_DAC_OVERRIDE\n" in (machine.root / "etc/systemd/system" / UNIT).read_text()


def test_metrics_that_a_service_writes_at_its_end_go_with_the_part(machine, tmp_path):
    folder = tmp_path / "metrics"
    folder.mkdir()
    machine.part(JOBS).install()
    machine.part(PAUSE, metrics_directory=str(folder)).install()
    machine.part(PAUSE).remove()
    assert (list(folder.iterdir()), PAUSE in machine.process) == ([], False)


def test_the_jobs_part_is_not_current_while_the_service_does_not_run_or_has_no_directory(machine):
    part = machine.part(JOBS)
    part.install()
    assert part.is_current()
    machine.run(["systemctl", "stop", UNIT])
    assert not part.is_current()
    part.install()
    (machine.root / "logs").rmdir()
    assert not part.is_current()


@pytest.mark.parametrize(("name", "setting"), [(PAUSE, "metrics_directory"), (JOBS, "log_directory")])
@pytest.mark.parametrize("folder", ["tmp", "var/tmp/logs", "link/logs"])
def test_a_directory_that_the_service_cannot_see_is_refused_and_nothing_is_changed(machine, name, setting, folder):
    (machine.root / "link").symlink_to("tmp")
    path = machine.root / folder
    part = machine.part(name, **{setting: str(path)})
    for check_mode in (True, False):
        with pytest.raises(GpuSwarmError, match=rf"{setting} is {path}, but .* Nothing was changed"):
            part.converge(check_mode)
    assert (machine.commands, machine.files()) == ([], ["link"])


def test_a_socket_that_the_service_cannot_see_is_refused_and_nothing_is_changed(machine):
    path = machine.root / "tmp/docker.sock"
    with pytest.raises(GpuSwarmError, match=f"swarm_member_docker_socket is {path}, but .* Nothing was changed"):
        machine.service(path).converge({PAUSE: SETTINGS}, False)
    assert (machine.commands, machine.files()) == ([], [])


@pytest.mark.parametrize(("name", "setting"), [(PAUSE, "swarm_member_metrics_directory"), (JOBS, "gpu_job_log_directory")])
@pytest.mark.parametrize("folder", ["", "state", "link", "state/manager", "state/manager/logs"])
def test_a_directory_around_or_in_that_of_the_service_is_refused_and_nothing_is_changed(machine, name, setting, folder):
    """If the directory of the service were writable, systemd would drop the link in this directory. The directory is also removed with the service.
    """
    (machine.root / "link").symlink_to("state")
    path = machine.root / folder
    part = machine.part(name, **{DIRECTORIES[name]: str(path)})
    refusal = f"{setting} is {path}, but {machine.state}/manager is the service's own directory. .* Nothing was changed"
    with pytest.raises(GpuSwarmError, match=refusal):
        part.converge()
    assert (machine.commands, machine.files()) == ([], ["link"])


def test_the_other_part_keeps_its_socket_when_one_is_removed(machine):
    machine.service("/srv/docker.sock").apply({PAUSE: SETTINGS})
    machine.part(JOBS).install()
    machine.service("/srv/docker.sock").apply({PAUSE: SETTINGS})
    machine.part(JOBS).remove()
    assert machine.process == {PAUSE: SETTINGS, "docker_socket": "/srv/docker.sock"}


@pytest.mark.parametrize("killed_at", range(1, 5))
@pytest.mark.parametrize("part", [PAUSE, JOBS])
def test_a_run_finishes_the_removal_that_a_killed_one_began(tmp_path, killed_at, part):
    """Uses the data that the run has. For the part that pauses nodes, this is the result of an assessment."""
    machine, folder = Machine(tmp_path / "machine"), tmp_path / "metrics"
    folder.mkdir()
    machine.part(JOBS).install()
    machine.part(PAUSE, metrics_directory=str(folder)).install()
    machine.commands.clear()
    machine.killed_at = killed_at
    with contextlib.suppress(Killed):
        machine.part(part).remove()
    machine.killed_at = None
    is_seen = part == JOBS or manager_state(str(machine.state), str(machine.root)) is not None
    if is_seen and machine.part(part).is_installed():
        machine.part(part).remove()
    assert sorted(machine.process) == sorted(["docker_socket", JOBS if part == PAUSE else PAUSE])


def test_a_file_in_the_way_is_an_error_that_names_it(machine):
    (machine.root / "file").touch()
    part = machine.part(JOBS, log_directory=str(machine.root / "file/logs"))
    with pytest.raises(GpuSwarmError, match="file/logs: Not a directory. Fix that, and run this again"):
        part.converge()


@pytest.mark.parametrize("what", ["file", "link"])
def test_a_log_directory_that_is_none_is_an_error(machine, what):
    path = machine.root / "logs"
    path.touch() if what == "file" else path.symlink_to("none")
    part = machine.part(JOBS)
    with pytest.raises(GpuSwarmError, match=f"gpu_job_log_directory is {path}, which is a file or a broken link. Remove it"):
        part.converge()
    assert machine.commands == []


def test_check_mode_and_a_second_run_change_nothing(machine):
    part = machine.part(JOBS)
    assert part.converge(check_mode=True)
    assert (machine.files(), machine.commands) == ([], [])
    assert part.converge()
    before = machine.files(), list(machine.commands)
    assert [part.it.converge({JOBS: settings}, check) for settings, check in ((part.settings, False), (None, True))] == [False, True]
    assert (machine.files(), machine.commands) == before


# -- the record --------------------------------------------------------------------------------------------------


def mode(path):
    return oct(path.stat().st_mode & 0o7777)


def test_the_record_is_for_its_group_and_everything_else_is_closed(machine):
    machine.state.mkdir(mode=0o700)
    (machine.state / "backup").mkdir(mode=0o755)
    record = machine.part(RECORD)
    assert record.converge()
    assert (mode(machine.state), mode(machine.state / "record"), mode(machine.state / "backup")) == ("0o711", "0o2750", "0o700")
    assert mode(machine.state / "manager") == "0o700"
    assert f'ReadWritePaths="-{machine.state}/record"\n' in (machine.root / "etc/systemd/system" / UNIT).read_text()
    assert manager_state(str(machine.state), str(machine.root))["settings"] == {RECORD: {}}


def test_two_parts_are_installed_and_removed_with_one_restart(machine):
    both = {PAUSE: SETTINGS, RECORD: {}}
    service = machine.service()
    assert service.converge(both, False)
    assert [command for command in machine.commands if command[0] == "restart"] == [["restart", UNIT]]
    assert machine.process == {**both, "docker_socket": "/var/run/docker.sock"}
    machine.commands.clear()
    assert service.converge(dict.fromkeys(both), False)
    assert ["restart", UNIT] not in machine.commands
    assert not service.converge(dict.fromkeys(both), False)


def test_the_record_is_kept_but_nobody_may_pass_to_it_when_the_recording_ends(machine):
    machine.part(PAUSE).install()
    machine.part(RECORD).install()
    for name in ("fleet.db", "snapshot.json"):
        (machine.state / "record" / name).touch()
    machine.part(RECORD).remove()
    assert [path.name for path in (machine.state / "record").iterdir()] == ["fleet.db"]
    assert (mode(machine.state), machine.process) == ("0o700", {PAUSE: SETTINGS, "docker_socket": "/var/run/docker.sock"})
    machine.part(PAUSE).remove()
    assert machine.files() == ["state/record/fleet.db"]


@pytest.mark.parametrize(
    "break_it", [lambda state: state.chmod(0o700), lambda state: (state / "record").rmdir(), lambda state: (state / "new").mkdir()]
)
def test_a_record_that_people_cannot_reach_is_not_current(machine, break_it):
    record = machine.part(RECORD)
    record.install()
    here = [sys.executable, "-c", "input(input)", str(machine.state / "manager/current")]
    with subprocess.Popen(here, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.read(1)  # the process has started
        machine.running(process.pid)
        assert record.is_current()
        break_it(machine.state)
        assert not record.is_current()
        record.install()
        assert record.is_current()


@pytest.mark.parametrize("name", ["state", "state/record"])
def test_a_directory_on_another_disk_that_a_link_leads_to_is_no_change_in_each_run(machine, name):
    disk = machine.root / "disk"
    disk.mkdir(mode=0o700)
    link = machine.root / name
    link.parent.mkdir(exist_ok=True, mode=0o700)
    link.symlink_to(disk)
    machine.part(RECORD).install()
    machine.state.joinpath("record").stat()
    shared = SharedDirectories(str(machine.state), ["record"], machine.group)
    assert shared.are_current()


def test_without_the_group_docker_only_root_may_read_the_record(machine):
    machine.group = None
    machine.part(RECORD).install()
    assert (mode(machine.state), mode(machine.state / "record")) == ("0o700", "0o700")


# -- the page ------------------------------------------------------------------------------------------------------


def test_the_page_goes_with_its_part(machine):
    page = machine.part(PAGE)
    assert page.converge()
    assert (mode(machine.state), mode(machine.state / "page")) == ("0o711", "0o2750")
    template = machine.state / "manager/page-template.html"
    assert (template.read_text(), mode(template)) == (TEMPLATE, "0o600")
    machine.part(PAUSE).install()  # another call does not have the template
    assert template.read_text() == TEMPLATE
    (machine.state / "page/index.html").touch()
    page.remove()
    assert (template.exists(), (machine.state / "page").exists(), mode(machine.state)) == (False, False, "0o700")


def test_another_template_is_a_change(machine):
    machine.part(PAGE).install()
    assert not machine.part(PAGE, template=digest(b"newer")).is_current()
    (machine.state / "manager/page-template.html").write_text("edited")
    assert not machine.part(PAGE).is_current()


# -- the command ---------------------------------------------------------------------------------------------------


def test_the_command_comes_and_goes_with_the_service(machine):
    before = os.umask(0o077)
    try:
        machine.part(JOBS).install()
    finally:
        os.umask(before)
    command = machine.root / "usr/local/bin/gpu-swarm"
    assert mode(command) == "0o755"
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=True, env={"PYTHONPATH": "/none", "PATH": "/usr/bin:/bin"})
    assert "usage: gpu-swarm" in done.stdout
    home = machine.root / "usr/local/lib/gpu-swarm"
    open_to_all = [path for path in (home, *home.rglob("*")) if not path.is_symlink() and path.stat().st_mode & 0o044 != 0o044]
    assert open_to_all == []
    assert list(home.rglob("command.*.pyc"))
    machine.part(JOBS).remove()
    assert (command.exists(), home.exists()) == (False, False)


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_somebody_elses_command_is_never_overwritten_or_removed(machine, kind):
    path = machine.root / "usr/local/bin/gpu-swarm"
    path.parent.mkdir(parents=True)
    {"file": lambda: path.write_text("#!/bin/sh\n"), "link": lambda: path.symlink_to("/bin/true"), "directory": path.mkdir}[kind]()
    for check_mode in (True, False):
        with pytest.raises(GpuSwarmError, match=f"{path} is not from this collection, .* Move it away, .* Nothing was changed"):
            machine.part(RECORD).converge(check_mode)
    assert (machine.commands, machine.state.exists()) == ([], False)
    machine.part(RECORD).remove()
    assert os.path.lexists(path)


@pytest.mark.parametrize("step", [(installed_command.InstalledCommand, "remove"), (SharedDirectories, "converge")])
def test_a_run_finishes_the_removal_of_the_command_that_a_killed_one_left(machine, monkeypatch, step):
    machine.part(PAGE).install()

    def kill(_self):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(*step, kill)
        with pytest.raises(Killed):
            machine.part(PAGE).remove()
    assert machine.part(PAGE).it.converge({PAGE: None}, False)
    assert (machine.files(), machine.state.exists()) == ([], False)


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_somebody_elses_directory_in_the_place_of_the_code_is_never_changed_or_removed(machine, kind):
    home = machine.root / "usr/local/lib/gpu-swarm"
    theirs = home if kind == "directory" else machine.root / "theirs"
    (theirs / "data").mkdir(parents=True)
    (theirs / "data/notes").write_text("the only copy")
    if kind != "directory":
        home.parent.mkdir(parents=True)
        {"file": home.touch, "link": lambda: home.symlink_to(theirs)}[kind]()
    for check_mode in (True, False):
        with pytest.raises(GpuSwarmError, match=f"{home} is not from this collection, .* Move it away, .* Nothing was changed"):
            machine.part(RECORD).converge(check_mode)
    assert (machine.commands, machine.state.exists()) == ([], False)
    machine.part(RECORD).remove()
    assert (theirs / "data/notes").read_text() == "the only copy"
    assert os.path.lexists(home)


def test_files_that_somebody_put_beside_the_code_stay_when_the_command_is_removed(machine):
    part = machine.part(JOBS)
    part.install()
    notes = machine.root / "usr/local/lib/gpu-swarm/notes"
    notes.write_text("the only copy")
    part.remove()
    assert machine.files() == ["usr/local/lib/gpu-swarm/notes"]


def test_a_run_that_was_killed_before_everybody_could_read_the_code_is_seen_by_the_next_run(machine):
    machine.part(PAUSE).install()
    (machine.root / "usr/local/lib/gpu-swarm/current").chmod(0o700)
    assert manager_state(str(machine.state), str(machine.root))["command"] != installed_command.CODE.name()


@pytest.mark.parametrize("path", ["usr/local/bin/gpu-swarm", "usr/local/lib/gpu-swarm/current"])
def test_a_command_that_somebody_removed_or_edited_is_not_current(machine, path):
    part = machine.part(JOBS)
    part.install()
    assert part.is_current()
    (machine.root / path).unlink()
    assert not part.is_current()
    part.install()
    with open(machine.root / "usr/local/bin/gpu-swarm", "a", encoding="ascii") as stream:
        stream.write("edited\n")
    assert not part.is_current()
    part.install()
    assert part.is_current()
