# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import cluster, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import SwarmError
from ansible_collections.fleet.gpu_swarm.plugins.modules import swarm_job_prune as module


class FakeManager:
    def __init__(self, services, tasks, lease=None):
        self._services, self._tasks = services, tasks
        self._labels = {"gpu-swarm.lease": lease} if lease else {}
        self.removed = []

    def cluster(self):
        return cluster(self._labels), "2026-11-21T02:10:00Z"

    def services(self):
        return self._services

    def tasks(self):
        return iter(self._tasks)

    def remove_service(self, service_id):
        self.removed.append(service_id)


def job(service_id="s1", name="sweep", iteration=None, **replicated):
    made = service(service_id, name, mode="ReplicatedJob")
    made["Spec"]["Mode"]["ReplicatedJob"] = replicated
    if iteration is not None:
        made["JobStatus"] = {"JobIteration": {"Index": iteration} if iteration else {}}
    return made


def ended(task_id, state="complete", service="s1", iteration=0):
    made = task(task_id, service=service, state=state, desired="complete", job=True)
    made["JobIteration"] = {"Index": iteration} if iteration else {}
    return made


def run(manager, monkeypatch, services=("sweep",), check_mode=False, holder=None):
    monkeypatch.setattr(module, "connect", lambda params: manager)
    return module.run({"services": list(services), "holder": holder}, check_mode)


GLOBAL = service("s1", "sweep", mode="GlobalJob")
DONE = {
    "one task": (job(), [ended("t1")]),
    "several": (job(TotalCompletions=2, MaxConcurrent=1), [ended("t1"), ended("t2")]),
    "several at a time": (job(MaxConcurrent=2), [ended("t1"), ended("t2")]),
    "at the second attempt": (job(), [ended("t1", "failed"), ended("t2")]),
    "run anew": (job(iteration=14), [ended("t1", iteration=9), ended("t2", iteration=14)]),
    "a global one": (GLOBAL, [ended("t1"), ended("t2")]),
}
NOT_DONE = {
    "no job": (service("s1", "sweep"), [task("t1", state="complete")], "it is no job"),
    "one task runs": (job(TotalCompletions=2), [ended("t1"), ended("t2", "running")], "1 of its tasks runs or waits"),
    "tasks wait": (job(TotalCompletions=3), [ended("t1"), ended("t2", "pending"), ended("t3", "new")], "2 of its tasks run or wait"),
    "one failed for good": (job(TotalCompletions=2), [ended("t1"), ended("t2", "failed")], "1 of 2 of its tasks are complete"),
    "run anew, and not begun": (job(iteration=14), [ended("t1", iteration=9)], "0 of 1"),
    "not begun": (job(), [], "0 of 1"),
    "a global one that runs": (GLOBAL, [ended("t1"), ended("t2", "running")], "1 of its tasks"),
    "a global one that came nowhere": (GLOBAL, [], "0 of 1"),
}


@pytest.mark.parametrize(("one", "tasks"), DONE.values(), ids=DONE)
@pytest.mark.parametrize("check_mode", [True, False])
def test_a_finished_job_is_removed(one, tasks, check_mode, monkeypatch):
    manager = FakeManager([one, job("s2", "other")], [*tasks, ended("t9", "running", service="s2")])
    assert run(manager, monkeypatch, check_mode=check_mode) == {"changed": True, "removed": ["sweep"], "kept": []}
    assert manager.removed == ([] if check_mode else ["s1"])


@pytest.mark.parametrize(("one", "tasks", "reason"), NOT_DONE.values(), ids=NOT_DONE)
def test_anything_else_stays(one, tasks, reason, monkeypatch):
    manager = FakeManager([one], tasks)
    result = run(manager, monkeypatch)
    assert (result["changed"], result["removed"], manager.removed) == (False, [], [])
    assert result["kept"][0]["service"] == "sweep"
    assert result["kept"][0]["reason"].startswith(reason)


def test_one_that_somebody_removed_is_gone(monkeypatch):
    assert run(FakeManager([], []), monkeypatch) == {"changed": False, "removed": ["sweep"], "kept": []}


def test_while_another_run_changes_the_swarm_they_stay(monkeypatch):
    lease = '{"holder": "alice", "since": "2026-11-21T02:00:00Z", "until": "2026-11-21T02:20:00Z"}'
    manager = FakeManager([job()], [ended("t1")], lease)
    with pytest.raises(SwarmError, match="No job was removed, since another run changes this swarm: alice"):
        run(manager, monkeypatch, holder="bob")
    assert manager.removed == []
    assert run(manager, monkeypatch, holder="alice")["removed"] == ["sweep"]
