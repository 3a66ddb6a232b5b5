# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kills a run with SIGKILL in a separate process, before each call that leaves a trace on disk or in dockerd.

The calls are counted in a run that is not killed. So the tests also cover steps that are added to the code later.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat

import pytest
from node_lab import CONFIG_TOML, DAEMON_JSON, gpu, node, resources

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import engine
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import guard as guard_files
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.guard import CODE

SYSTEM_CALLS = ("fsync", "rename", "replace", "unlink", "chmod", "chown", "mkdir", "symlink", "rmdir")
DAEMON_CALLS = ("restart", "reload", "wait")


@pytest.fixture(autouse=True)
def _in_no_time(monkeypatch):
    monkeypatch.setattr(engine, "POLL_S", 0.001)
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # the run can still be killed at this call, but does not wait for the disk


def on_disk(home):
    """Return a digest of everything that a run would leave on disk if it were killed now."""
    found = hashlib.sha256()
    for folder, folders, names in os.walk(home):
        for name in [*sorted(folders), *sorted(names)]:
            path = os.path.join(folder, name)
            about = os.lstat(path)
            found.update(repr((path, about.st_mode, about.st_uid, about.st_gid)).encode())
            if stat.S_ISLNK(about.st_mode):
                found.update(os.readlink(path).encode())
            elif stat.S_ISREG(about.st_mode):
                with open(path, "rb") as stream:
                    found.update(stream.read())
        folders.sort()
    return found.hexdigest()


class Steps:
    """Records every call that leaves a trace, with the files on disk before the call. Kills this process at the given moment."""

    def __init__(self, home, kill_at):
        self.passed = []
        self._home = home
        self._kill_at = kill_at

    def watch(self, it):
        for name in SYSTEM_CALLS:
            setattr(os, name, self._stepped(name, getattr(os, name)))
        for name in DAEMON_CALLS:
            setattr(it.engine, name, self._stepped(name, getattr(it.engine, name)))

    def _stepped(self, name, real):
        def call(*arguments, **options):
            if len(self.passed) == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            self.passed.append((name, on_disk(self._home) if self._kill_at is None else None))
            return real(*arguments, **options)

        return call


def run_apart(it, kill_at=None):
    """Converge in a separate process. Return its calls with the files on disk before each call, or None if the process was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 2
        try:
            steps = Steps(it.home, kill_at)
            steps.watch(it)
            try:
                it.converge()
                code = 0
            except GpuSwarmError:
                code = 1
            os.write(writer, json.dumps(steps.passed).encode())
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        passed = stream.read()
    _pid, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    assert os.WEXITSTATUS(status) in (0, 1)
    return json.loads(passed)


# --- nodes, and the change that a run was making ------------------------------------------------------------------------


def plain(home):
    return node(home)


def without_daemon_json(home):
    return node(home, daemon=None)


def of_a_recipe(home):
    """Return a node that a user configured by a recipe: our kind with a shortened UUID, and a wrong line."""
    listed = json.dumps({"default-runtime": "runc", "node-generic-resources": ["NVIDIA-GPU=GPU-00000000"]}, indent=2)
    return node(home, daemon=listed.encode(), toml=b'swarm-resource = "DOCKER_RESOURCE_GPU"\n' + CONFIG_TOML)


def stopped(home):
    return node(home, running=False)


def of_an_article(home):
    """Return a node with options in a drop-in and in a variable. The drop-in contains nothing else, and the daemon never read it."""
    drop_in = "[Service]\nExecStart=\nExecStart=/usr/bin/dockerd -H fdd:// --default-runtime=nvidia --node-generic-resource gpu=GPU-00000000\n"
    return node(home).unit(drop_in, loaded=False)


def of_variables(home):
    """Return a node whose daemon runs with options from a variable. The variable also contains options of the user."""
    return node(home, daemon=b'{"debug": true}').unit(environment='DOCKER_OPTS="--default-runtime=nvidia --node-generic-resource SSD=1 --debug"\n')


def first_run(it):
    pass


def one_gpu_less(it):
    it.converge()
    it.gpus = [gpu(0), gpu(1, "failed")]
    it.option(expect=1)


def a_daemon_that_refuses(it):
    it.engine.refuses = "unable to configure"


def giving_back(it):
    it.converge()
    it.option(state="absent")


def giving_back_an_edited_file(it):
    it.converge()
    it.put("daemon_config", it.content() + b"\n \n")
    it.option(state="absent")


# Resources of another owner, in the file or in a flag.
WITH_SSD = [plain, stopped, of_an_article, of_variables]
NODES = [plain, without_daemon_json, of_a_recipe, stopped, of_an_article, of_variables]
RUNS = [first_run, one_gpu_less, pytest.param(a_daemon_that_refuses, marks=pytest.mark.long), giving_back]


def killed_at_each_moment(tmp_path, make, run):
    """Yield a node for each moment at which the run can be killed, and the user's original files.

    If a call changed nothing on disk, its moment is the same as the moment of the next call.
    """
    let_through = make(tmp_path / "let-through")
    run(let_through)
    moments = run_apart(let_through)
    assert len(moments) >= 12, moments
    states = [state for _name, state in moments]
    assert len(set(states)) >= 8, moments
    for number, moment in enumerate([*moments, None]):
        if number and states[number - 1 : number] == states[number : number + 1]:
            continue
        it = make(tmp_path / str(number))
        before = it.everything()
        run(it)
        passed = run_apart(it, kill_at=number)
        assert (passed is None) == (moment is not None), f"killed at {number}, {moment}: {passed}"
        it.doc()  # dockerd can read the file at every moment of the kill
        it.engine.refuses = None
        yield it, before


# --- the next run ------------------------------------------------------------------------------------------------------


def the_next_run_ends_the_work(it, before, make, run):
    # A run that finds nothing to do changes nothing.
    assert it.option(state="present").assess()["drift"] or it.state_files()[-1:] == ["record.json"]
    it.converge()
    assert it.engine.inspect()["default_runtime"] == "nvidia"
    healthy = resources(0) if run is one_gpu_less else resources(0, 1)
    assert [entry for entry in it.shown() if entry.startswith("NVIDIA")] == healthy
    assert ("SSD=1" in it.shown()) == (make in WITH_SSD)
    assert it.state_files() == ["cards.json", "record.json"]
    again = it.converge()
    assert (again["changed"], again["drift"]) == (False, [])
    it.option(state="absent").converge()
    assert it.everything() == before
    assert it.state_files() == []


def everything_can_be_restored_at_once(it, before, make):
    it.option(state="absent").converge()
    assert it.everything() == before
    assert it.state_files() == []
    if make is not stopped:
        # The running daemon agrees with the files.
        shown, runtime = it.shown(), it.engine.inspect()["default_runtime"]
        it.engine.start()
        assert (shown, runtime) == (it.shown(), it.engine.inspect()["default_runtime"])
    assert it.converge()["changed"] is False


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("make", [plain, *(pytest.param(make, marks=pytest.mark.rare) for make in NODES if make is not plain)])
def test_a_killed_run_can_be_finished_and_reverted(tmp_path, make, run):
    for it, before in killed_at_each_moment(tmp_path, make, run):
        as_killed = tmp_path / "as-killed"
        shutil.copytree(it.home, as_killed)
        the_next_run_ends_the_work(it, before, make, run)
        shutil.rmtree(it.home)
        as_killed.rename(it.home)
        everything_can_be_restored_at_once(it, before, make)


# The long tests use more of these runs.
MORE = [pytest.param(run, marks=pytest.mark.long) for run in (a_daemon_that_refuses, giving_back, giving_back_an_edited_file)]


@pytest.mark.parametrize("run", [first_run, one_gpu_less, *MORE])
@pytest.mark.parametrize("then", ["present", pytest.param("absent", marks=pytest.mark.long)])
def test_an_edit_after_the_kill_is_never_lost(tmp_path, run, then):
    for it, _before in killed_at_each_moment(tmp_path, plain, run):
        it.put("daemon_config", it.content().replace(b'"local"', b'"journald"'))
        it.put("runtime_config", it.content("runtime_config") + b"[mine]\nx = 1\n")
        it.option(state=then).converge()
        assert it.doc()["log-driver"] == "journald"
        assert b"[mine]\nx = 1\n" in it.content("runtime_config")
        it.option(state="absent").converge()
        assert it.content().strip() == DAEMON_JSON.replace(b'"local"', b'"journald"')
        assert it.content("runtime_config") == CONFIG_TOML + b"[mine]\nx = 1\n"
        assert it.state_files() == []


def test_two_killed_runs_with_other_gpus_between_them_can_be_finished(tmp_path):
    for number, (it, before) in enumerate(killed_at_each_moment(tmp_path, plain, first_run)):
        it.gpus = [gpu(0)]
        run_apart(it, kill_at=number)
        it.gpus = [gpu(0), gpu(1), gpu(2)]
        it.converge()
        assert it.shown() == [*resources(0, 1, 2), "SSD=1"]
        it.option(state="absent").converge()
        assert it.everything() == before


# --- the guard: containers call it at any moment ------------------------------------------------------------------------

PLAIN = "nvidia-container-runtime"
CONTAINER = {"id": "c1", "name": "job", "image": "x", "service": None, "task": None, "age": 5, "swarm_networks": []}


def it_comes(it):
    it.converge()
    it.option(isolation="reserved")


def its_level_changes(it):
    it.option(isolation="audit").converge()
    it.option(isolation="exclusive")


def it_gets_other_code(it):
    it.option(isolation="reserved").converge()
    home = guard_home(it)
    (home / CODE.name()).rename(home / "code-before")
    front = home / "nvidia-guard"
    front.write_bytes(front.read_bytes().replace(CODE.name().encode(), b"code-before"))


def it_goes(it):
    it.option(isolation="reserved").converge()
    it.option(isolation="off")


def it_becomes_a_link(it):
    it.option(isolation="reserved").converge()
    it.engine.carries = [CONTAINER]
    it.option(isolation="off")


def it_goes_with_all_else(it):
    it.option(isolation="exclusive").converge()
    it.option(state="absent")


@pytest.fixture
def _toolkit(monkeypatch, tmp_path_factory):
    programs = tmp_path_factory.mktemp("bin")
    (programs / PLAIN).write_text("#!/bin/sh\n")
    (programs / PLAIN).chmod(0o755)
    monkeypatch.setattr(guard_files, "SBIN", str(programs))


def guard_home(it):
    return it.home / "usr/local/libexec/gpu-swarm"


def assert_guard_is_complete(it):
    """Check that daemon.json and the running daemon name a complete guard. It needs a program, its code, and the former or new settings."""
    path = guard_home(it) / "nvidia-guard"
    named = [it.doc().get("runtimes", {}), it.engine.process().get("runtimes", {})]
    if str(path) not in [one.get("nvidia", {}).get("path") for one in named]:
        return
    assert os.access(path, os.X_OK)
    if not path.is_symlink():
        (code,) = [line.partition("=")[2] for line in path.read_text().splitlines() if line.startswith("code=")]
        for name, data in CODE.files().items():
            with open(os.path.join(code, name), "rb") as stream:
                assert stream.read() == data
        assert json.loads((guard_home(it) / "settings.json").read_text())["level"] in ("audit", "reserved", "exclusive")


def finished_state(it, level):
    it.converge()
    again = it.converge()
    assert (again["changed"], again["drift"]) == (False, [])
    assert_guard_is_complete(it)
    if level is None:
        assert not os.path.lexists(guard_home(it)) or it.engine.carries
        return
    settings = json.loads((guard_home(it) / "settings.json").read_text())
    assert (settings["level"], list(guard_home(it).glob(".new.*")), list(guard_home(it).glob("*.new"))) == (level, [], [])
    assert it.doc()["runtimes"]["nvidia"]["path"] == str(guard_home(it) / "nvidia-guard")


@pytest.mark.usefixtures("_toolkit")
@pytest.mark.parametrize(
    ("run", "level"),
    [
        pytest.param(it_comes, "reserved", marks=pytest.mark.long),
        (its_level_changes, "exclusive"),
        pytest.param(it_gets_other_code, "reserved", marks=pytest.mark.long),
        pytest.param(it_goes, None, marks=pytest.mark.long),
        pytest.param(it_becomes_a_link, None, marks=pytest.mark.rare),
        pytest.param(it_goes_with_all_else, None, marks=pytest.mark.rare),
    ],
)
def test_a_guard_is_complete_at_each_moment_and_can_be_finished_or_removed(tmp_path, run, level):
    for it, before in killed_at_each_moment(tmp_path, plain, run):
        assert_guard_is_complete(it)
        as_killed = tmp_path / "as-killed"
        shutil.copytree(it.home, as_killed, symlinks=True)
        finished_state(it, level)
        shutil.rmtree(it.home)
        as_killed.rename(it.home)
        it.engine.carries = []
        it.option(state="absent").converge()
        assert (it.everything(), it.state_files(), os.path.lexists(guard_home(it))) == (before, [], False)
