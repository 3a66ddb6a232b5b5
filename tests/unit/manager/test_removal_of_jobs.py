# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests the hourly removal of finished jobs: when it runs, on which manager, and what it logs."""

from __future__ import annotations

import queue
import threading

import pytest
from swarm_api import node, service, task
from versioned_services import VersionedServices

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs import logs
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.removal_of_jobs import EVERY_S, RemovalOfJobs

SETTINGS = {"older_than": "1h", "keep_last": 0, "failed": False, "log_limit_mib": 1, "docker_socket": "/var/run/docker.sock"}


def once(service_id, name):
    one = service(service_id, name)
    one["Spec"].update(Mode={"Replicated": {"Replicas": 1}}, Labels={"gpu-swarm.job": name[:-2]})
    one["Spec"]["TaskTemplate"].update(RestartPolicy={"Condition": "none"}, ForceUpdate=0)
    return one


def removal(manager, tmp_path, **more):
    return RemovalOfJobs(dict(SETTINGS, log_directory=str(tmp_path)), connect=lambda params: manager, **more)


def test_finished_jobs_are_removed_and_logged(tmp_path, capsys):
    manager = VersionedServices([once("s1", "train-1")], [task("t1", state="complete", restart="none")], nodes=[node("n1", leader=True)])
    removal(manager, tmp_path).remove()
    assert (manager.removed, capsys.readouterr().out) == (["s1"], "removed train-1\n")


def test_only_jobs_that_stay_for_their_log_are_logged(monkeypatch, tmp_path, capsys):
    def full(*_arguments):
        raise GpuSwarmError("no room\nfor it")

    tasks = [task("t1", state="complete", restart="none"), task("t2", service="s2", state="failed", restart="none")]
    manager = VersionedServices([once("s1", "train-1"), once("s2", "other-1")], tasks, nodes=[node("n1", leader=True)])
    monkeypatch.setattr(logs, "save", full)
    removal(manager, tmp_path).remove()
    assert (manager.removed, capsys.readouterr().out) == ([], "train-1 is not removed: no room\\nfor it\n")


@pytest.mark.parametrize("problem", [GpuSwarmError("no leader"), KeyError("ID")])
def test_a_failure_is_logged_and_ends_nothing(problem, tmp_path, capsys):
    def fails(params):
        raise problem

    RemovalOfJobs(dict(SETTINGS, log_directory=str(tmp_path)), connect=fails).remove()
    assert capsys.readouterr().out.startswith("finished jobs could not be removed: ")


def test_the_leader_removes_jobs_at_the_start_and_hourly_in_the_background(tmp_path):
    now, threads, may_end = [0.0], queue.Queue(), threading.Event()

    def slow(params):
        threads.put(threading.current_thread())
        may_end.wait(20)
        raise GpuSwarmError("it has been long enough")

    it = RemovalOfJobs(dict(SETTINGS, log_directory=str(tmp_path)), connect=slow, clock=lambda: now[0])
    it(None, [], False)
    for now[0] in (0.0, 1.0, 2000.0):
        it(None, [], True)
    may_end.set()
    threads.get(timeout=20).join(20)
    assert threads.empty()  # a manager that does not lead starts no removal, and no second removal starts during the first
    for now[0] in (2001.0, EVERY_S - 1):
        it(None, [], True)
    assert threads.empty()
    now[0] = EVERY_S
    it(None, [], True)
    threads.get(timeout=20).join(20)
