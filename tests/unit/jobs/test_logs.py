# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import struct
import time
from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs import logs


def framed(*parts):
    return b"".join(struct.pack(">BxxxI", source, len(data)) + data for source, data in parts)


class Manager:
    def __init__(self, log):
        self.log, self.read = log, []

    def task_log(self, task_id):
        self.read.append(task_id)
        yield from self.log


def service(name="train", tty=False):
    return {"ID": "s1", "Spec": {"Name": name, "TaskTemplate": {"ContainerSpec": {"TTY": tty}}}}


def task(task_id="t1", state="complete", ran=True):
    return {"ID": task_id, "Status": {"State": state, **({"ContainerStatus": {"ContainerID": "c"}} if ran else {})}}


LOG = framed((1, b"one\n"), (2, b"two\n"), (1, b""), (1, b"three\n"))


@pytest.mark.parametrize("size", [1, 3, 9, 1000])
def test_a_log_is_saved_however_the_answer_is_split(tmp_path, size):
    manager = Manager([LOG[at : at + size] for at in range(0, len(LOG), size)])
    (path,) = logs.save(manager, service(), [task()], logs.LogFiles(str(tmp_path / "new")))
    with open(path, "rb") as stream:
        assert stream.read() == b"one\ntwo\nthree\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(tmp_path / "new") == ["train.t1.log"]


def test_only_logs_of_ended_tasks_are_saved_and_only_once(tmp_path):
    manager = Manager([LOG])
    tasks = [task(), task("t2", "running"), task("t3", "rejected", ran=False)]
    for _again in range(2):
        assert logs.save(manager, service(), tasks, logs.LogFiles(str(tmp_path))) == [str(tmp_path / "train.t1.log")]
    assert manager.read == ["t1"]
    assert len(logs.save(manager, service(), tasks, logs.LogFiles(str(tmp_path)), ended=False)) == 2


def test_a_terminal_has_no_headers(tmp_path):
    (path,) = logs.save(Manager([b"as it ", b"is\n"]), service(tty=True), [task()], logs.LogFiles(str(tmp_path)))
    with open(path, "rb") as stream:
        assert stream.read() == b"as it is\n"


def test_a_job_name_cannot_name_another_directory(tmp_path):
    (path,) = logs.save(Manager([LOG]), service("../../etc/x"), [task()], logs.LogFiles(str(tmp_path)))
    assert os.path.dirname(path) == str(tmp_path)


WRONG = {
    "the log of a node is missing": ([framed((1, b"one\n"), (3, b"incomplete log stream: node n1 is not available"))], 0, "n1 is not available"),
    "broken off in a part": ([LOG[:-2]], 0, "was cut off"),
    "broken off in a header": ([LOG[:-10]], 0, "was cut off"),
    "without an end": ([framed((1, b"x" * (1 << 20)))] * 3, 2, "more than 2 MiB"),
}


@pytest.mark.parametrize(("log", "limit", "words"), WRONG.values(), ids=WRONG)
def test_an_incomplete_log_is_not_kept(tmp_path, log, limit, words):
    with pytest.raises(GpuSwarmError, match=words):
        logs.save(Manager(log), service(), [task()], logs.LogFiles(str(tmp_path), limit))
    assert os.listdir(tmp_path) == []


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GpuSwarmError, match=r"train\.t1\.log: .*(Not a directory|File exists)"):
        logs.save(Manager([LOG]), service(), [task()], logs.LogFiles(str(tmp_path / "file")))


def test_an_unfinished_log_is_removed_unless_someone_writes_it(tmp_path):
    """A killed process leaves a part of a log."""
    fork = multiprocessing.get_context("fork")
    writing = fork.Event()

    def pieces():
        yield b"x" * 1000
        writing.set()
        signal.pause()

    writer = fork.Process(target=logs._write, args=(str(tmp_path / "train.t1.log"), pieces(), 0))
    writer.start()
    assert writing.wait(30)
    (part,) = tmp_path.iterdir()
    long_ago = time.time() - 3600
    os.utime(part, (long_ago, long_ago))
    logs.sweep(str(tmp_path))
    assert part.exists()
    writer.terminate()
    writer.join()
    assert part.exists()
    (tmp_path / "a.t0.log").write_text("whole")
    logs.save(Manager([LOG]), service(), [task()], logs.LogFiles(str(tmp_path)))
    assert sorted(os.listdir(tmp_path)) == ["a.t0.log", "train.t1.log"]


def test_a_new_log_may_not_be_locked_yet(tmp_path):
    part = Path(tmp_path / ".gpu-swarm.abc")
    part.write_text("")
    logs.sweep(str(tmp_path))
    assert part.exists()


def test_files_of_others_do_not_stop_the_saving(tmp_path):
    """Other users may write to the directory. They may create a pipe without a writer, or a link to one of their files."""
    folder, theirs = tmp_path / "jobs", tmp_path / "theirs"
    folder.mkdir()
    theirs.write_text("")
    os.mkfifo(folder / ".gpu-swarm.pipe")
    (folder / ".gpu-swarm.link").symlink_to(theirs)
    sweeping = multiprocessing.get_context("fork").Process(target=logs.sweep, args=(str(folder),))
    sweeping.start()
    sweeping.join(30)
    ended = sweeping.exitcode
    sweeping.kill()
    assert ended == 0
    assert theirs.exists()


def test_no_log_fills_the_disk_of_the_manager(tmp_path, monkeypatch):
    free = iter([2 << 30, 1 << 20])  # something else fills the disk after the first piece

    class Disk:
        f_frsize, f_blocks = 1, 100 << 30

        @property
        def f_bavail(self):
            return next(free)

    monkeypatch.setattr(os, "statvfs", lambda path: Disk())
    with pytest.raises(GpuSwarmError, match=r"train\.t1\.log: less than 1024 MiB are free on that disk\. Make room there, or set log_directory"):
        logs.save(Manager([framed((1, b"x" * 10)), framed((1, b"y"))]), service(), [task()], logs.LogFiles(str(tmp_path)))
    assert os.listdir(tmp_path) == []
