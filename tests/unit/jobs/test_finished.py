# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs import finished
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs.finished import Candidate, Verdict
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch


def once(replicas=1, forced=0, condition="none", **more):
    made = service("s1", "train")
    made["Spec"]["Mode"] = {"Replicated": {"Replicas": replicas}}
    made["Spec"]["TaskTemplate"].update(RestartPolicy={"Condition": condition}, ForceUpdate=forced)
    return {**made, **more}


def ran(state="complete", slot=1, forced=0, task_id="t1", made="2026-11-20T12:00:00Z", **more):
    one = task(task_id, state=state, slot=slot, restart="none", **more)
    one["Spec"]["ForceUpdate"] = forced
    return {**one, "CreatedAt": made}


def in_queue(state, replicas=1, former=None):
    made = once(replicas)
    made["Spec"]["Labels"] = {"gpu-swarm.queue": "research", **({"gpu-swarm.queue-state": state} if state else {})}
    return {**made, **({"PreviousSpec": {"Labels": {"gpu-swarm.queue-state": former}}} if former else {})}


def of_swarms_mode(iteration=0):
    made = service("s1", "train", mode="ReplicatedJob")
    made["Spec"]["Mode"] = {"ReplicatedJob": {"MaxConcurrent": 1, "TotalCompletions": 1}}
    return {**made, "JobStatus": {"JobIteration": {"Index": iteration}}}


def once_on_each_node():
    made = once()
    made["Spec"]["Mode"] = {"Global": {}}
    return made


CASES = {
    "complete": (once(), [ran()], "complete", ""),
    "failed": (once(), [ran("failed")], "failed", "0 of 1 of its tasks are complete"),
    "stopped by a drain": (once(), [ran("shutdown")], "failed", "0 of 1"),
    "runs": (once(), [ran("running")], None, "1 of its tasks runs or waits"),
    "queued": (once(), [ran("pending")], None, "1 of its tasks runs or waits"),
    "not begun": (once(), [], None, "0 of 1 of its tasks have begun"),
    "forced to run again, not begun": (once(forced=1), [ran()], None, "0 of 1 of its tasks have begun"),
    "forced to run again, complete": (once(forced=1), [ran("failed"), ran(forced=1, task_id="t2")], "complete", ""),
    "is being updated": (once(UpdateStatus={"State": "updating"}), [ran()], None, "it is being updated"),
    "an update paused": (once(UpdateStatus={"State": "paused"}), [ran()], "complete", ""),
    "one of two": (once(replicas=2), [ran()], None, "1 of 2 of its tasks have begun"),
    "two of two": (once(replicas=2), [ran(), ran(slot=2, task_id="t2")], "complete", ""),
    "no replicas": (once(replicas=0), [], None, "0 of 0"),
    "starts again": (once(condition="on-failure"), [ran()], None, "it is not a job: swarm starts its tasks again (restart condition on-failure)"),
    "anything": (service(), [ran()], None, "it is not a job: swarm starts its tasks again (restart condition any)"),
    "on each node": (service(mode="Global"), [ran()], None, "it is not a job"),
    "once on each node": (once_on_each_node(), [ran()], None, "it is not a job"),
    "newer by its time": (once(), [ran(task_id="t2"), ran("failed", made="2026-11-20T13:00:00Z")], "failed", "0 of 1"),
    "newer by its time, listed first": (once(), [ran("failed", made="2026-11-20T13:00:00Z"), ran(task_id="t2")], "failed", "0 of 1"),
    "waits in a queue": (in_queue(None, 0), [], None, "its queue has not finished with it: it is waiting"),
    "waits in a queue once more": (in_queue("waiting attempt=1 node=n1"), [ran("failed")], None, "its queue has not finished with it: it is waiting"),
    "admitted by a queue": (in_queue("admitted attempt=1 node=n1 admission=k"), [ran()], None, "its queue has not finished with it: it is admitted"),
    "held by a queue": (in_queue("held attempt=1 result=x"), [], None, "its queue has not finished with it: it is held"),
    "rolled back after it was over": (in_queue(None, 0, "over attempt=1 node=n1 result=complete"), [], None, "its queue has not finished"),
    "with an unreadable state": (in_queue("over result="), [ran()], None, "its queue has not finished with it: it is held"),
    "over in a queue": (in_queue("over attempt=1 node=n1 result=complete"), [ran()], "complete", ""),
    "failed in a queue": (in_queue("over attempt=1 node=n1 result=failed: exit code 1"), [ran("failed")], "failed", "failed: exit code 1"),
    "over without a result": (in_queue("over attempt=1"), [ran("failed")], "failed", "it has no result"),
    "stopped by a queue": (in_queue("over attempt=1 result=stopped: x"), [ran("shutdown"), ran("pending", forced=1)], "failed", "stopped: x"),
    "shuts down": (in_queue("over attempt=1 result=stopped: x"), [ran("running"), ran("pending", forced=1)], None, "1 of its tasks runs or waits"),
    "a job of swarm's mode, complete": (of_swarms_mode(), [ran(job=True)], "complete", ""),
    "a job of swarm's mode that runs": (of_swarms_mode(), [ran("running", job=True)], None, "1 of its tasks runs or waits"),
    "a job of swarm's mode, submitted again": (of_swarms_mode(1), [ran(job=True)], None, "0 of 1"),
}


@pytest.mark.parametrize(("one", "tasks", "state", "text"), CASES.values(), ids=CASES)
def test_a_job_is_over_in_these_states(one, tasks, state, text):
    verdict = finished.verdict_on(one, [finished.summarise(each) for each in tasks])
    assert verdict.state == state
    assert verdict.text.startswith(text)


def test_work_of_a_queue_ends_with_its_task_and_not_later_if_another_one_waits():
    """If swarm has no task of the work that ended, the work ended with the last update of its service."""
    over = {**in_queue("over attempt=1 result=stopped: x"), "UpdatedAt": "2026-11-20T15:00:00Z"}
    tasks = [ran("shutdown", since="2026-11-20T13:00:00Z"), ran("pending", forced=1, since="2026-11-20T14:00:00Z")]
    for found, ended in ((tasks, "2026-11-20T13:00:00Z"), (tasks[1:], "2026-11-20T15:00:00Z")):
        assert finished.verdict_on(over, [finished.summarise(each) for each in found]).ended == epoch(ended)


def test_a_job_ends_with_its_last_task():
    """The time of a task may be missing."""
    for of, job in ((once(replicas=3), False), (of_swarms_mode(), True)):
        tasks = [ran(slot=slot, since=f"2026-11-20T{hour}:00:00Z", job=job) for slot, hour in enumerate((12, 14, 13), 1)]
        tasks[2]["Status"]["Timestamp"] = None
        assert finished.verdict_on(of, [finished.summarise(each) for each in tasks]).ended == epoch("2026-11-20T14:00:00Z")


def candidate(service_name, ended, name="a", state="complete", text=""):
    return Candidate(service_name, service_name, name, Verdict(state, text, ended))


OF_A = [candidate("a1", 100.0), candidate("a2", 200.0), candidate("a3", 950.0)]
ALL = [*OF_A, candidate("b1", 100.0, "b"), candidate("f", 1.0, "f", "failed", "0 of 1")]
CHOSEN = {
    "all": (dict(older_than=0, keep_last=0, failed=False), ["a1", "a2", "a3", "b1"]),
    "by age": (dict(older_than=100, keep_last=0, failed=False), ["a1", "a2", "b1"]),
    "exactly as old as older_than": (dict(older_than=50, keep_last=0, failed=False), ["a1", "a2", "a3", "b1"]),
    "all except the last": (dict(older_than=0, keep_last=1, failed=False), ["a1", "a2"]),
    "both": (dict(older_than=850, keep_last=1, failed=False), ["a1"]),
    "failed ones too": (dict(older_than=100, keep_last=0, failed=True), ["a1", "a2", "b1", "f"]),
    "named ones whatever their age": (dict(named=["a3"], older_than=100, keep_last=3, failed=False), ["a3"]),
}


@pytest.mark.parametrize(("options", "removed"), CHOSEN.values(), ids=CHOSEN)
def test_these_jobs_are_removed(options, removed):
    found, kept = finished.split_by_rules(
        [*ALL, candidate("r", None, "r", None, "it runs")], options.pop("named", []), finished.Rules(**options), now=1000.0
    )
    assert sorted(one.service for one in found) == removed
    assert len(found) + len(kept) == len(ALL) + 1
    assert all(reason for _one, reason in kept)


def of_gang(gang, *verdicts):
    return [candidate(f"{gang}-{rank}", ended, "g", state, text)._replace(gang=gang) for rank, (state, ended, text) in enumerate(verdicts)]


def test_a_gang_is_removed_as_a_whole_or_not_at_all():
    complete = of_gang("g1", ("complete", 100.0, ""), ("complete", 300.0, ""))
    failed = of_gang("g2", ("complete", 100.0, ""), ("failed", 50.0, "exit 1"))
    runs = of_gang("g3", ("failed", 10.0, "exit 1"), (None, None, "it runs"))

    def split(older_than=0, keep_last=0, failed_too=False):
        both = finished.with_verdicts_of_gangs([*complete, *failed, *runs])
        found, kept = finished.split_by_rules(both, [], finished.Rules(older_than, keep_last, failed_too), now=1000.0)
        return sorted(one.service for one in found), {one.service: reason for one, reason in kept}

    removed, kept = split()
    assert removed == ["g1-0", "g1-1"]
    assert kept == {"g2-0": "it failed: exit 1", "g2-1": "it failed: exit 1", "g3-0": "it runs", "g3-1": "it runs"}
    assert split(failed_too=True)[0] == ["g1-0", "g1-1", "g2-0", "g2-1"]
    assert split(older_than=800)[0] == []  # its last member ended 700 seconds ago
    assert split(keep_last=1)[0] == []
    assert split(keep_last=1, failed_too=True)[0] == ["g2-0", "g2-1"]


def test_a_job_with_an_unknown_end_is_not_old():
    found, _kept = finished.split_by_rules([candidate("a", None)], [], finished.Rules(older_than=1, keep_last=0, failed=False), now=1000.0)
    assert not found


@pytest.mark.parametrize(("text", "seconds"), [("0s", 0), ("90s", 90), ("30m", 1800), (" 24H ", 86400), ("7d", 604800)])
def test_an_age_is_parsed(text, seconds):
    assert finished.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "24", "-1h", "1w", "soon"])
def test_an_invalid_age_is_refused(text):
    with pytest.raises(GpuSwarmError, match="older_than is"):
        finished.seconds(text)
