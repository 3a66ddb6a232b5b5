# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container holds a GPU while it is being created, and while its first process lives according to runc or crun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard import holds

ID, OTHER = 64 * "a", 64 * "b"
CARD = "GPU-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30"
CARD_2 = "GPU-5fa2e7a4-7777-4c53-9d1f-0c9a7d1e2f31"
GONE = 2**22 + 1  # above the kernel's largest process id


def runc(pid, start):
    return "state.json", {"id": ID, "init_process_pid": pid, "init_process_start": start, "cgroup_paths": {}}


def crun(pid, start):
    """Return a state file in the form of crun 1.8.1."""
    known = {"cgroup-path": "", "scope": "", "rootfs": "rootfs", "systemd-cgroup": False, "bundle": "/run/b", "owner": "root", "detached": True}
    return "status", {"pid": pid, "process-start-time": start, **known, "created": "2026-11-23T08:02:53.183168Z", "external_descriptors": "[]"}


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "holds")


@pytest.fixture
def first():
    """Start the first process of a container."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.stdin.close()


def hold(root, container=ID, devices=(CARD,), pid=GONE, started=1):
    return holds.Hold(container, "train", "t1", list(devices), pid, started, str(root))


def another(root, devices=(CARD,)):
    return hold(root, OTHER, devices, os.getpid(), holds.started(os.getpid()))


def claimed(folder, mine):
    return holds.claim(folder, mine, 0.0)


@pytest.mark.parametrize("runtime", [runc, crun])
def test_a_container_holds_its_gpus_while_its_first_process_lives(folder, tmp_path, first, runtime):
    name, state = runtime(first, holds.started(first))
    (tmp_path / ID).mkdir()
    (tmp_path / ID / name).write_text(json.dumps(state))
    assert claimed(folder, hold(tmp_path)) is None
    assert claimed(folder, another(tmp_path)) == hold(tmp_path)
    assert claimed(folder, another(tmp_path, [CARD_2])) is None


@pytest.mark.parametrize("runtime", [runc, crun])
@pytest.mark.parametrize(("pid", "later"), [(None, 1), (GONE, 0)], ids=["another process has its id now", "ended"])
def test_a_container_without_its_first_process_holds_nothing(folder, tmp_path, first, runtime, pid, later):
    name, state = runtime(pid or first, holds.started(first) + later)
    (tmp_path / ID).mkdir()
    (tmp_path / ID / name).write_text(json.dumps(state))
    claimed(folder, hold(tmp_path))
    assert claimed(folder, another(tmp_path)) is None
    assert sorted(os.listdir(folder)) == [".lock", OTHER]


@pytest.mark.parametrize("name", ["state.json", "status"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"{}", b'{"pid": null}', b'{"pid": "x", "process-start-time": 1}', b"\xff"])
def test_an_unreadable_state_holds_nothing(folder, tmp_path, name, content):
    (tmp_path / ID).mkdir()
    (tmp_path / ID / name).write_bytes(content)
    claimed(folder, hold(tmp_path))
    assert claimed(folder, another(tmp_path)) is None


def test_a_container_that_is_being_created_holds_its_gpus(folder, tmp_path, first):
    mine = hold(tmp_path, pid=first, started=holds.started(first))
    assert claimed(folder, mine) is None
    assert claimed(folder, another(tmp_path)) == mine
    assert claimed(folder, mine) is None  # the same container again


def test_a_holder_that_is_about_to_stop_is_waited_for(folder, tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        claimed(folder, hold(tmp_path, pid=process.pid, started=holds.started(process.pid)))
        assert holds.claim(folder, another(tmp_path), 60.0, wait=lambda seconds: process.communicate()) is None


@pytest.mark.parametrize(
    ("stays", "patience_s", "waited_s"),
    [(True, 3600.0, 1.0), (False, 30.0, 30.0), (True, 0.5, 0.5), (False, 0.0, 0.0)],
    ids=["a holder that stays is waited for briefly", "a holder that may stop is waited for", "never longer than patience_s", "patience_s is 0"],
)
def test_how_long_a_holder_is_waited_for(folder, tmp_path, first, monkeypatch, stays, patience_s, waited_s):
    claimed(folder, hold(tmp_path, pid=first, started=holds.started(first)))
    passed, queried = [0.0], []

    def wait(seconds):
        passed[0] = round(passed[0] + seconds, 3)

    def is_to_stay(_holder):
        queried.append(passed[0])
        return stays

    monkeypatch.setattr(holds, "time", types.SimpleNamespace(monotonic=lambda: passed[0]))
    assert holds.claim(folder, another(tmp_path), patience_s, is_to_stay, wait).task == "t1"
    assert passed == [waited_s]
    assert all(when >= 1.0 for when in queried)


def test_adopted_tasks_hold_their_gpus_and_former_holds_stay(folder, tmp_path, first):
    mine, foreign = hold(tmp_path, pid=first, started=holds.started(first)), another(tmp_path, [CARD_2])
    assert claimed(folder, mine) is None
    holds.adopt(folder, [mine._replace(devices=[CARD, CARD_2]), foreign])
    third = foreign._replace(container=64 * "c")
    assert claimed(folder, third) == foreign
    assert claimed(folder, third._replace(devices=[CARD])) == mine


def test_a_process_that_ended_but_was_not_reaped_does_not_count(tmp_path):
    """The parent of a process may never reap the process."""
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert holds.started(process.pid) is None


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"{}", b'{"container": "x"}', b"\xff"])
def test_a_truncated_file_holds_nothing_and_is_removed(folder, tmp_path, content):
    assert claimed(folder, another(tmp_path)) is None
    with open(os.path.join(folder, ID), "wb") as stream:
        stream.write(content)
    assert claimed(folder, another(tmp_path)) is None
    assert sorted(os.listdir(folder)) == [".lock", OTHER]


def test_a_share_is_reported_and_not_refused(folder, tmp_path, first):
    mine = hold(tmp_path, pid=first, started=holds.started(first))
    assert holds.share(folder, mine) is None
    assert holds.share(folder, another(tmp_path)) == mine
    assert sorted(os.listdir(folder)) == [".lock", ID, OTHER]
