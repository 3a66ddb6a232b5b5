# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the service's processes as systemd starts them.

Checks what runs, the limits, what happens to the first process when the second one ends, and what people on the manager can read.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from docker_daemon import Daemon, Streamed
from queued import gpu_node, queued
from swarm_api import RECORDED_AT, cluster, recorded

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._command import command
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._command.command import Places
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.parts import CODE
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._page.page import PLACES

PAUSE = {"limit": 20, "metrics_directory": ""}
QUEUED = "/services?filters=%7B%22label%22%3A%5B%22gpu-swarm.queue%22%5D%7D"
JOBS = {"older_than": "1h", "keep_last": 0, "failed": False, "log_directory": "/none", "log_limit_mib": 1}


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as stream:
        found = stream.read().split()
    for task in os.listdir(f"/proc/{pid}/task"):  # a thread starts it
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as stream:
            found += stream.read().split()
    return sorted({int(one) for one in found})


def data_limit(pid):
    with open(f"/proc/{pid}/limits", encoding="ascii") as stream:
        return next(int(line.split()[3]) >> 20 for line in stream if line.startswith("Max data size") and line.split()[3] != "unlimited")


def await_value(read, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found = read()
        except (OSError, StopIteration, IndexError):
            found = None
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come")


@pytest.fixture
def start(tmp_path):
    CODE.make_current(str(tmp_path))
    started = []

    def begin(**parts):
        (tmp_path / "settings.json").write_text(json.dumps({"docker_socket": str(tmp_path / "none.sock"), **parts}))
        command = [sys.executable, "-I", str(tmp_path / "current")]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True))
        return started[-1]

    yield begin
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.communicate()


def test_each_process_has_its_limit_and_the_kernel_kills_the_second_first(start):
    first = start(pause=PAUSE, jobs=JOBS)
    second = await_value(lambda: children(first.pid)[0])
    assert await_value(lambda: data_limit(second) == 768)
    assert await_value(lambda: data_limit(first.pid) == 256)
    assert await_value(lambda: Path(f"/proc/{second}/oom_score_adj").read_text(encoding="ascii").strip() == "500")


def test_without_pausing_there_is_one_process(start):
    it = start(jobs=JOBS)
    assert await_value(lambda: data_limit(it.pid) == 768)
    assert "the nodes cannot be read now" in it.stdout.readline()
    assert children(it.pid) == []


def test_the_first_continues_if_the_second_is_killed_and_ends_on_a_stop(start):
    first = start(pause=PAUSE)
    second = await_value(lambda: children(first.pid)[0])
    assert await_value(lambda: data_limit(second) == 768)
    os.kill(second, signal.SIGKILL)
    lines = iter(first.stdout.readline, "")
    assert next(line for line in lines if "is started again. Nodes with faults are still paused" in line)
    assert first.poll() is None
    first.terminate()
    assert first.wait(60) == 0


def dockerd(tmp_path, node_id, answers, **labels):
    """Return dockerd of a manager."""
    found = cluster({"gpu-swarm." + label: text for label, text in labels.items()})
    swarm = {"LocalNodeState": "active", "ControlAvailable": True, "NodeID": node_id, "Cluster": found}
    info = {"Swarm": swarm, "SystemTime": RECORDED_AT}
    usual = {"/_ping": (200, "OK"), "/version": {"ApiVersion": "1.45"}, "/info": info, "/swarm/update": (200, "")}
    return Daemon(str(tmp_path / "d.sock"), {"Api-Version": "1.45"}, {**usual, **answers})


def test_what_the_service_reads_is_in_the_record_on_the_page_and_in_the_command(tmp_path, capsys):
    """The service runs with the recorded answers of a real manager."""
    home, record, page = tmp_path / "manager", tmp_path / "record", tmp_path / "page"
    for folder in (home, record, page):
        folder.mkdir()
    CODE.make_current(str(home))
    (home / "page-template.html").write_text("".join(f"@@{place}@@" for place in PLACES))
    (home / "settings.json").write_text(
        json.dumps({"docker_socket": str(tmp_path / "d.sock"), "record": {}, "page": {"grafana_url": "", "template": ""}})
    )
    lists = {f"/{name}": recorded(name) for name in ("nodes", "tasks", "services")}
    daemon = dockerd(tmp_path, recorded("nodes")[0]["ID"], {**lists, QUEUED: []})
    service = subprocess.Popen([sys.executable, "-I", str(home / "current")], stdout=subprocess.PIPE, text=True)
    try:
        await_value((page / "index.html").exists)
        service.terminate()
        said = service.communicate(timeout=60)[0]
    finally:
        service.kill()
        daemon.close()
    hostname = recorded("nodes")[0]["Description"]["Hostname"]
    assert hostname in (page / "index.html").read_text()
    places = Places(record=str(record))
    for words in (["status"], ["usage", "--since", "2000d", "--by", "service"], ["events", "--since", "2000d"]):
        assert command.main([*words, "--json"], places) in (0, 1, 2), words
        assert json.loads(capsys.readouterr().out), words
    assert {path.name: path.stat().st_mode & 0o777 for path in record.iterdir()}["fleet.db"] == 0o640
    assert "Please report that" not in said


def test_work_is_admitted_soon_after_its_service_was_created(tmp_path, start):
    """An event of the new service begins a round. Without it, the next round would begin after 15 s."""
    service, created = {**queued(), "Version": {"Index": 7}}, threading.Event()
    event = json.dumps({"Type": "service", "Action": "create", "Actor": {"ID": service["ID"]}})
    lists = {"/nodes": [gpu_node("n1", leader=True)], "/tasks": [], "/services": [service], QUEUED: []}
    update = "/services/%s/update" % service["ID"]
    answers = {**lists, "/events": Streamed([created, event + "\n", threading.Event()]), "/services/" + service["ID"]: service, update: {}}
    daemon = dockerd(tmp_path, "n1", answers, queues='{"research":{}}')
    try:
        start(docker_socket=str(tmp_path / "d.sock"), jobs=JOBS)
        await_value(lambda: any("/events" in path for path in daemon.requests) and any("label" in path for path in daemon.requests))
        created.set()
        await_value(lambda: any(update + "?version=7" in path for path in daemon.requests), seconds=10)
    finally:
        daemon.close()
    labels = daemon.bodies[-1]["Labels"]
    assert labels["gpu-swarm.queue-state"].startswith("admitted attempt=1 node=n1 ")
