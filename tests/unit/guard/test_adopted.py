# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tasks that started before the guard hold the GPUs that Swarm gave them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard import adopted, holds

DATA = Path(__file__).parents[1] / "data" / "guard"
# From the file of Docker 26.1.5: a task that reserved one GPU, the GPU, and a task without a reservation.
TASK, CARD, OTHER = "os4h3yhd38lmqy77fykgvxym7", "GPU-77a610a8-caa6-5036-afec-4399b4137c2b", "sznzfnmgku8fpv6rmqqbwynu1"
ID, NEW = 64 * "a", 64 * "b"


@pytest.fixture
def first():
    """Return the first process of a container."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.stdin.close()


@pytest.fixture
def node(tmp_path, monkeypatch):
    """Return settings of a guard on a node with the tasks of the file of Docker 26.1.5."""
    tasks = tmp_path / "docker" / "swarm" / "worker" / "tasks.db"
    tasks.parent.mkdir(parents=True)
    tasks.write_bytes(gzip.decompress((DATA / "tasks-26.1.5.db.gz").read_bytes()))
    (tmp_path / "config.toml").write_text('swarm-resource = "DOCKER_RESOURCE_NVIDIA-GPU"\n')
    monkeypatch.setattr(adopted, "_is_in_container", lambda pid, container: True)
    settings = {"level": "exclusive", "devices": [CARD], "kinds": ["NVIDIA-GPU"], "data_root": str(tmp_path / "docker")}
    return {**settings, "runtime_config": str(tmp_path / "config.toml")}


def container(node, pid, task=TASK, name=ID, running=True):
    labels = {"com.docker.swarm.task.id": task, "com.docker.swarm.service.name": "train"} if task else {"mine": "yes"}
    folder = Path(node["data_root"]) / "containers" / name
    folder.mkdir(parents=True)
    (folder / "config.v2.json").write_text(json.dumps({"State": {"Running": running, "Pid": pid}, "Config": {"Labels": labels}}))


def new_task(folder):
    """Claim the card for a new task. Return the holder of the card, or None if the claim succeeds."""
    return holds.claim(str(folder), holds.Hold(NEW, "new", "t2", [CARD], os.getpid(), holds.started(os.getpid()), ""), 0.0)


def test_a_task_older_than_the_guard_holds_its_gpu_while_its_first_process_lives(node, tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        container(node, process.pid)
        assert adopted.adopt(node, str(tmp_path / "holds")) == []
        holder = new_task(tmp_path / "holds")
        assert (holder.service, holder.task, holder.container, holder.devices) == ("train", TASK, ID, [CARD])
        process.communicate()
    assert new_task(tmp_path / "holds") is None


@pytest.mark.parametrize(
    ("task", "more", "allow"),
    [
        pytest.param(TASK, {"running": False}, [], id="the container has ended"),
        pytest.param(None, {}, [], id="no task"),
        pytest.param(OTHER, {}, [], id="no reservation"),
        pytest.param(25 * "z", {}, [], id="the task has ended"),
        pytest.param(TASK, {}, ["train"], id="the task may see all GPUs and holds none"),
    ],
)
def test_a_task_without_gpus_holds_nothing(node, tmp_path, first, task, more, allow):
    container(node, first, task, **more)
    assert adopted.adopt({**node, "allow": allow}, str(tmp_path / "holds")) == []
    assert new_task(tmp_path / "holds") is None


def test_another_process_with_the_same_number_does_not_count(node, tmp_path, first, monkeypatch):
    monkeypatch.undo()
    container(node, first)
    assert adopted.adopt(node, str(tmp_path / "holds")) == []
    assert not (tmp_path / "holds").exists()


def test_a_hold_that_the_guard_wrote_stays(node, tmp_path, first):
    folder = str(tmp_path / "holds")
    mine = holds.Hold(ID, "train", TASK, [CARD], first, holds.started(first), "/run/runc")
    holds.share(folder, mine)
    container(node, first)
    adopted.adopt(node, folder)
    assert json.loads((tmp_path / "holds" / ID).read_text())["root"] == "/run/runc"


ODD = '{"State": {"Running": true, "Pid": "x"}, "Config": {"Labels": {"com.docker.swarm.task.id": "t"}}}'


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", ODD])
def test_a_container_that_is_being_created_or_removed_is_skipped(node, tmp_path, first, text):
    container(node, first)
    broken = Path(node["data_root"]) / "containers" / NEW
    broken.mkdir()
    (broken / "config.v2.json").write_text(text)
    (broken.parent / "empty").mkdir()
    assert adopted.adopt(node, str(tmp_path / "holds")) == []
    assert new_task(tmp_path / "holds").container == ID


def test_an_unreadable_task_is_named(node, tmp_path, first):
    container(node, first)
    (Path(node["data_root"]) / "swarm" / "worker" / "tasks.db").write_bytes(b"torn")
    assert adopted.adopt(node, str(tmp_path / "holds")) == [ID]


def test_without_containers_there_is_nothing_to_hold(node, tmp_path):
    assert adopted.adopt(node, str(tmp_path / "holds")) == []
