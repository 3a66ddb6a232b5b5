# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import service, task
from versioned_services import VersionedServices

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import OutOfSequence, SwarmError
from ansible_collections.fleet.gpu_swarm.plugins.modules import swarm_job_prune as module


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


OPTIONS = {"labels": None, "older_than": "1h", "keep_last": 0, "failed": False, "log_limit_mib": 1, "holder": None}


@pytest.fixture
def run(monkeypatch, tmp_path):
    def call(manager, services=("sweep",), check_mode=False, **options):
        monkeypatch.setattr(module, "connect", lambda params: manager)
        return module.run({**OPTIONS, "services": services, "log_directory": str(tmp_path), **options}, check_mode)

    return call


GLOBAL = service("s1", "sweep", mode="GlobalJob")
DONE = {
    "one task": (job(), [ended("t1")]),
    "several": (job(TotalCompletions=2, MaxConcurrent=1), [ended("t1"), ended("t2")]),
    "several at a time": (job(MaxConcurrent=2), [ended("t1"), ended("t2")]),
    "at the second attempt": (job(), [ended("t1", "failed"), ended("t2")]),
    "submitted again": (job(iteration=14), [ended("t1", iteration=9), ended("t2", iteration=14)]),
    "a global job": (GLOBAL, [ended("t1"), ended("t2")]),
}
NOT_DONE = {
    "no job": (service("s1", "sweep"), [task("t1", state="complete")], "it is not a job"),
    "one task runs": (job(TotalCompletions=2), [ended("t1"), ended("t2", "running")], "1 of its tasks runs or waits"),
    "tasks wait": (job(TotalCompletions=3), [ended("t1"), ended("t2", "pending"), ended("t3", "new")], "2 of its tasks run or wait"),
    "one task failed and is not retried": (job(TotalCompletions=2), [ended("t1"), ended("t2", "failed")], "1 of 2 of its tasks are complete"),
    "submitted again, not begun": (job(iteration=14), [ended("t1", iteration=9)], "0 of 1"),
    "not begun": (job(), [], "0 of 1"),
    "a global job that runs": (GLOBAL, [ended("t1"), ended("t2", "running")], "1 of its tasks"),
    "a global job without a node": (GLOBAL, [], "0 of 1"),
}


@pytest.mark.parametrize(("one", "tasks"), DONE.values(), ids=DONE)
@pytest.mark.parametrize("check_mode", [True, False])
def test_a_finished_job_is_removed(one, tasks, check_mode, run):
    manager = VersionedServices([one, job("s2", "other")], [*tasks, ended("t9", "running", service="s2")])
    assert run(manager, check_mode=check_mode) == {"changed": True, "removed": ["sweep"], "kept": []}
    assert manager.removed == ([] if check_mode else ["s1"])
    assert manager.updated == []  # an update would run the job again


@pytest.mark.parametrize(("one", "tasks", "reason"), NOT_DONE.values(), ids=NOT_DONE)
def test_anything_else_stays(one, tasks, reason, run):
    manager = VersionedServices([one], tasks)
    result = run(manager)
    assert (result["changed"], result["removed"], manager.removed) == (False, [], [])
    assert result["kept"][0]["service"] == "sweep"
    assert result["kept"][0]["reason"].startswith(reason)


def test_a_job_that_someone_else_removed_counts_as_removed(run):
    assert run(VersionedServices()) == {"changed": False, "removed": ["sweep"], "kept": []}


def test_finished_jobs_stay_while_another_run_changes_the_swarm(run):
    lease = '{"holder": "alice", "since": "2026-11-21T02:00:00Z", "until": "2026-11-21T02:20:00Z"}'
    manager = VersionedServices([job()], [ended("t1")], lease)
    with pytest.raises(SwarmError, match="No job was removed, because another run changes this swarm: alice") as refused:
        run(manager, holder="bob")
    assert module.failure_fields(refused.value) == {"wrong": True}
    assert manager.removed == []
    assert run(manager, holder="alice")["removed"] == ["sweep"]


@pytest.mark.parametrize(("problem", "everywhere"), [(GpuSwarmError("keep_last is -1"), True), (SwarmError("it is no manager"), False)])
def test_another_manager_is_called_only_if_it_may_answer_differently(problem, everywhere):
    assert module.failure_fields(problem) == {"wrong": everywhere}


# -- one-shot services ----------------------------------------------------------------------------------------------


def once(service_id="s1", name="train-1", labels=None, condition="none"):
    made = service(service_id, name)
    made["Spec"].update(Mode={"Replicated": {"Replicas": 1}}, Labels={"gpu-swarm.job": "train"} if labels is None else labels)
    made["Spec"]["TaskTemplate"].update(RestartPolicy={"Condition": condition}, ForceUpdate=0)
    return made


def ran(task_id="t1", state="complete", service_id="s1"):
    made = task(task_id, service=service_id, state=state, restart="none")
    made["Status"]["ContainerStatus"] = {"ContainerID": "c1"}
    return made


def test_by_default_only_jobs_of_this_collection_are_removed(run, tmp_path):
    manager = VersionedServices([once(), once("s2", "other", {}), job("s3")], [ran(), ran("t2", service_id="s2"), ended("t3", service="s3")])
    assert run(manager, services=None, check_mode=True)["removed"] == ["train-1"]
    assert (manager.removed, manager.updated) == ([], [])
    assert run(manager, services=None) == {"changed": True, "removed": ["train-1"], "kept": []}
    assert (manager.removed, manager.updated) == (["s1"], ["s1"])
    assert (tmp_path / "train-1.t1.log").read_bytes() == b"hello\n"
    assert run(manager, services=None) == {"changed": False, "removed": [], "kept": []}


def test_others_are_chosen_by_a_label(run):
    services = [once(), once("s2", "theirs", {"team": "a"}), once("s3", "theirs-too", {"team": "b"}), once("s4", "web", {"team": "a"}, "any")]
    manager = VersionedServices(services, [ran(f"t{number}", service_id=f"s{number}") for number in (1, 2, 3, 4)])
    result = run(manager, services=None, labels=["team=a"])
    assert manager.removed == ["s2"]
    assert result["kept"] == [{"service": "web", "reason": "it is not a job: swarm starts its tasks again (restart condition any)"}]


@pytest.mark.parametrize("options", [{"services": []}, {"services": None, "labels": []}, {"services": [], "labels": []}], ids=str)
def test_an_empty_list_chooses_none(run, options):
    manager = VersionedServices([once()], [ran()])
    assert run(manager, **options) == {"changed": False, "removed": [], "kept": []}
    assert manager.removed == []


def test_age_and_failure_keep_a_job(run):
    manager = VersionedServices([once(), once("s2", "train-2")], [ran(), ran("t2", "failed", "s2")])
    reasons = {one["service"]: one["reason"] for one in run(manager, services=None, older_than="2d")["kept"]}
    assert reasons == {"train-1": "it ended less than 172800 s ago", "train-2": "it failed: 0 of 1 of its tasks are complete"}
    assert run(manager, services=None, failed=True)["removed"] == ["train-1", "train-2"]


def test_a_log_that_cannot_be_saved_keeps_its_job(run):
    manager = VersionedServices([once()], [ran()], log=b"")
    result = run(manager, services=None)
    assert not manager.removed
    assert "its log could not be saved to" in result["kept"][0]["reason"]


@pytest.mark.parametrize("options", [{"older_than": "soon"}, {"keep_last": -1}], ids=str)
def test_a_wrong_option_removes_nothing(run, options):
    manager = VersionedServices([once()], [ran()])
    with pytest.raises(GpuSwarmError, match="No job was removed"):
        run(manager, services=None, **options)
    assert not manager.removed


CALLS = ["service", "tasks_of", "update_service", "tasks_of again", "service again"]


@pytest.mark.parametrize("when", CALLS)
@pytest.mark.parametrize("begun", [True, False], ids=["with its new task", "before its new task exists"])
def test_a_job_that_runs_again_meanwhile_stays(run, when, begun):
    """The job runs again before each of the calls, up to the last read."""
    manager, calls = VersionedServices([once()], [ran()]), []

    def meanwhile(call, service_id):
        calls.append(f"{call} again" if call in calls else call)
        if calls[-1] == when:
            manager.force(service_id)
            if begun:
                manager.add_task({**ran("t9", "pending"), "Spec": {"ForceUpdate": 1}})

    manager.before = meanwhile
    result = run(manager, services=None)
    assert when in calls
    assert manager.removed == []
    assert [one["service"] for one in result["kept"]] == ["train-1"]


@pytest.mark.parametrize("when", ["service", "tasks_of", "tasks_of again"])
def test_a_job_of_swarm_that_runs_again_meanwhile_stays(run, when):
    manager, calls = VersionedServices([job(iteration=3)], [ended("t1", iteration=3)]), []

    def meanwhile(call, service_id):
        calls.append(f"{call} again" if call in calls else call)
        if calls[-1] == when:
            manager.add_task(ended("t2", "new", iteration=9))

    manager.before = meanwhile
    assert not run(manager)["removed"]
    assert (manager.removed, manager.updated) == ([], [])


def test_a_reader_of_the_old_version_cannot_write_it_afterwards(run):
    manager = VersionedServices([once()], [ran()])
    stale = manager.service_as_it_is("s1")
    failures = []

    def meanwhile(call, service_id):
        if call == "remove_service":
            with pytest.raises(OutOfSequence):
                manager.write(service_id, stale["Version"]["Index"], stale["Spec"])
            failures.append(call)

    manager.before = meanwhile
    assert run(manager, services=None)["removed"] == ["train-1"]
    assert failures == ["remove_service"]
