# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import stat
import struct

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
def test_a_log_is_saved_however_the_answer_is_cut(tmp_path, size):
    manager = Manager([LOG[at : at + size] for at in range(0, len(LOG), size)])
    (path,) = logs.save(manager, service(), [task()], logs.Kept(str(tmp_path / "new")))
    with open(path, "rb") as stream:
        assert stream.read() == b"one\ntwo\nthree\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(tmp_path / "new") == ["train.t1.log"]


def test_it_is_saved_once_and_only_of_what_ran_and_is_over(tmp_path):
    manager = Manager([LOG])
    tasks = [task(), task("t2", "running"), task("t3", "rejected", ran=False)]
    for _again in range(2):
        assert logs.save(manager, service(), tasks, logs.Kept(str(tmp_path))) == [str(tmp_path / "train.t1.log")]
    assert manager.read == ["t1"]
    assert len(logs.save(manager, service(), tasks, logs.Kept(str(tmp_path)), ended=False)) == 2


def test_a_terminal_has_no_headers(tmp_path):
    (path,) = logs.save(Manager([b"as it ", b"is\n"]), service(tty=True), [task()], logs.Kept(str(tmp_path)))
    with open(path, "rb") as stream:
        assert stream.read() == b"as it is\n"


def test_a_name_leads_to_no_other_directory(tmp_path):
    (path,) = logs.save(Manager([LOG]), service("../../etc/x"), [task()], logs.Kept(str(tmp_path)))
    assert os.path.dirname(path) == str(tmp_path)


WRONG = {
    "not all could be read": ([framed((1, b"one\n"), (3, b"incomplete log stream: node n1 is not available"))], 0, "n1 is not available"),
    "broken off in a part": ([LOG[:-2]], 0, "broke it off"),
    "broken off in a header": ([LOG[:-10]], 0, "broke it off"),
    "without an end": ([framed((1, b"x" * (1 << 20)))] * 3, 2, "more than 2 MiB"),
}


@pytest.mark.parametrize(("log", "limit", "words"), WRONG.values(), ids=WRONG)
def test_a_log_that_is_not_whole_is_none(tmp_path, log, limit, words):
    with pytest.raises(GpuSwarmError, match=words):
        logs.save(Manager(log), service(), [task()], logs.Kept(str(tmp_path), limit))
    assert os.listdir(tmp_path) == []


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GpuSwarmError, match=r"train\.t1\.log: .*(Not a directory|File exists)"):
        logs.save(Manager([LOG]), service(), [task()], logs.Kept(str(tmp_path / "file")))
