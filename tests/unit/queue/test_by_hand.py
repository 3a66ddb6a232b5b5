# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""People retry, release and cancel work of queues on a swarm that places tasks."""

from __future__ import annotations

import pytest
from queue_swarm import Driver, QueueSwarm
from queued import GPU, gpu_node, queued

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.by_hand import cancel, release, retry
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queue_state import LABEL
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queues import check_queues
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.settle import View, unreachable_nodes

GANG = ("gang0", "gang1")
QUEUES = check_queues({"research": {"time_limit": "1h"}})


def driver(*services, rounds=2, **options):
    run = Driver(QueueSwarm(services, **options))
    run.rounds(rounds)
    return run


def gang(gpus=8, **labels):
    return [queued(name, {GPU: gpus}, gang="train:%d/2 any" % rank, **labels) for rank, name in enumerate(GANG)]


def view_of(swarm):
    services = {service["ID"]: service for service in swarm.services()}
    tasks = {service_id: swarm.tasks_of(service_id) for service_id in services}
    return View(services, tasks, QUEUES, unreachable_nodes(swarm.nodes_now), swarm.clock)


def act(run, function, name, *more, only=None):
    """Do what a person does to the service. ``only`` is the number of updates before the person's program is killed."""
    found = function(view_of(run.swarm), "id" + name, *more)
    changes, removed = found if function is cancel else (found, [])
    for change in changes[:only]:
        run.swarm.update_service(change.service["ID"], change.service["Version"]["Index"], change.spec)
    for service_id in removed if only is None else ():
        run.swarm.remove_service(service_id)


def lose(run, node_id, state="down"):
    next(node for node in run.swarm.nodes_now if node["ID"] == node_id)["Status"]["State"] = state


def containers(run, name):
    return [task["Status"]["State"] for task in run.swarm.tasks_of("id" + name) if task.get("NodeID")]


# -- retry -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["failed", "complete", "shutdown"])
def test_work_that_ended_runs_again_and_keeps_its_record(state):
    run = driver(queued("a"))
    run.swarm.end("a", state)
    run.rounds(1)
    act(run, retry, "a")
    run.rounds(2)
    assert run.swarm.began == ["ida", "ida"]
    assert run.swarm.state("a").startswith("admitted attempt=2 node=")
    assert containers(run, "a") == [state, "running"]


def test_lost_work_runs_elsewhere_and_its_container_is_stopped_when_the_node_answers():
    run = driver(queued("a"))
    lose(run, "n1")
    run.rounds(2)
    act(run, retry, "a")
    assert run.swarm.tasks_of("ida")[0]["DesiredState"] == "shutdown"
    run.rounds(2)
    assert run.swarm.state("a").startswith("admitted attempt=2 node=n2 ")


def test_a_gang_with_a_lost_member_runs_again_as_a_whole():
    run = driver(*gang(), nodes=[gpu_node("n1"), gpu_node("n2"), gpu_node("n3")])
    lose(run, "n1")
    run.rounds(1)
    act(run, retry, "gang1")
    run.rounds(3)
    assert [run.swarm.state(name).split(" admission")[0] for name in GANG] == ["admitted attempt=2 node=n2", "admitted attempt=2 node=n3"]
    assert [containers(run, name)[-1] for name in GANG] == ["running", "running"]


@pytest.mark.parametrize("only", [0, 1, 2])
def test_a_gang_is_retried_as_a_whole_even_if_the_first_try_to_write_was_killed(only):
    run = driver(*gang())
    run.swarm.end("gang0", "failed", "task: non-zero exit (1)", 1)
    run.rounds(2)
    act(run, retry, "gang1", only=only)
    run.rounds(2)
    if only < 2:
        act(run, retry, "gang0")
        run.rounds(2)
    assert sorted(run.swarm.began) == ["idgang0", "idgang0", "idgang1", "idgang1"]


def test_a_retry_ends_the_pause_of_work_that_was_taken_back():
    run = driver(queued("a"), rounds=0)
    run.swarm.places = False
    while not run.admitter.last or not any("not tried before" in one.problem for one in run.admitter.last.others):
        run.round()
    run.swarm.places = True
    act(run, retry, "a")
    run.round()
    assert run.swarm.began == ["ida"]


# -- release ---------------------------------------------------------------------------------------------------------


def test_held_work_waits_again_after_its_release():
    run = driver(queued("a"))
    run.swarm.scale("a", 0)
    run.rounds(1)
    act(run, release, "a")
    run.rounds(2)
    assert run.swarm.began == ["ida", "ida"]


def test_held_work_with_a_replica_waits_again_after_its_release_and_keeps_its_log():
    run = driver(queued("a"))
    run.swarm.end("a", "failed")
    run.swarm.change("a", lambda spec: spec["Labels"].update({LABEL: "rubbish"}))
    run.rounds(2)
    assert run.swarm.state("a").startswith("held ")
    act(run, release, "a")
    run.rounds(2)
    assert run.swarm.began == ["ida", "ida"]
    assert containers(run, "a") == ["failed", "running"]


def test_a_gang_is_released_as_a_whole():
    run = driver(*gang())
    run.swarm.scale("gang0", 0)
    run.rounds(2)
    assert [run.swarm.state(name).partition(" ")[0] for name in GANG] == ["held", "over"]
    act(run, release, "gang1")
    run.rounds(2)
    assert sorted(run.swarm.began) == ["idgang0", "idgang0", "idgang1", "idgang1"]


# -- cancel ----------------------------------------------------------------------------------------------------------


def test_started_work_that_is_cancelled_stops_and_keeps_its_record():
    run = driver(queued("a"))
    act(run, cancel, "a", "alice")
    run.rounds(3)
    assert containers(run, "a") == ["shutdown"]
    assert run.swarm.state("a").endswith(" result=cancelled by alice")
    assert run.swarm.began == ["ida"]


def test_work_that_never_ran_is_removed():
    run = driver(queued("a", {GPU: 16}))
    act(run, cancel, "a", "alice")
    assert run.swarm.services_now == {}


def test_work_that_waits_for_another_try_keeps_its_record():
    run = driver(queued("a"))
    run.swarm.end("a", "failed")
    run.rounds(1)
    act(run, retry, "a")
    act(run, cancel, "a", "alice")
    run.rounds(3)
    assert containers(run, "a") == ["failed"]
    assert run.swarm.state("a") == "over attempt=1 node=n1 result=cancelled by alice"


def test_all_members_of_a_gang_are_cancelled():
    run = driver(*gang())
    act(run, cancel, "gang1", "alice")
    run.rounds(2)
    assert [containers(run, name) for name in GANG] == [["shutdown"], ["shutdown"]]
    assert [run.swarm.state(name).endswith("cancelled by alice") for name in GANG] == [True, True]


def test_a_gang_with_missing_members_is_removed():
    run = driver(gang()[0])
    act(run, cancel, "gang0", "alice")
    assert run.swarm.services_now == {}


def test_a_gang_that_was_admitted_in_part_does_not_start_after_its_cancellation_and_may_be_released():
    run = driver(*gang(), rounds=0)
    run.swarm.killed_after = 3  # the first two updates only keep the nodes while they pull the image
    run.round()
    act(run, cancel, "gang0", "alice")
    run.rounds(3)
    assert run.swarm.began == ["idgang0"]
    assert [run.swarm.state(name).partition(" ")[0] for name in GANG] == ["over", "held"]
    act(run, release, "gang0")
    run.rounds(2)
    assert run.swarm.began == ["idgang0", "idgang0", "idgang1"]


def test_work_does_not_start_if_the_program_is_killed_before_it_removes_the_service():
    run = driver(queued("a", {GPU: 8}), rounds=0)
    act(run, cancel, "a", "alice", only=1)
    run.rounds(3)
    assert run.swarm.began == []
    assert run.swarm.state("a") == "held result=cancelled by alice"


def test_a_stopped_member_does_not_hide_that_the_others_still_run():
    run = driver(*gang())
    act(run, cancel, "gang0", "alice", only=1)
    act(run, cancel, "gang0", "alice")
    assert [containers(run, name) for name in GANG] == [["shutdown"], ["shutdown"]]


# -- what may not be done --------------------------------------------------------------------------------------------

RUNS = "admitted attempt=1 node=n1 admission=k"
OVER = "over attempt=1 node=n1 result=complete"


@pytest.mark.parametrize(
    ("function", "service", "words"),
    [
        (retry, queued("a"), "a waits already. 'gpu-swarm queue a' says why."),
        (retry, queued("a", state=RUNS, replicas=1), "a has not ended. Wait for its end, or first stop it with 'gpu-swarm cancel a'."),
        (retry, queued("a", state="held attempt=1 result=x"), "a is held: x. Let it run with 'gpu-swarm release a'."),
        (retry, queued("a", condition="any"), "a cannot be queued: swarm would start its tasks again"),
        (retry, gang(state=OVER, replicas=1)[0], "The gang train of gang0 has 1 of 2 members. Submit it again."),
        (release, queued("a"), "a is not held: it waits already; 'gpu-swarm queue a' says why."),
        (release, queued("a", state=RUNS, replicas=1), "a is not held: it was started; 'gpu-swarm queue a' shows it."),
        (release, queued("a", state=OVER, replicas=1), "a is not held: it is over; 'gpu-swarm retry a' runs it again."),
        (cancel, queued("a", state=OVER, replicas=1), "a is over already (complete). 'docker service rm a' removes it with its log."),
        (cancel, queued("a", replicas=3), "The queue does not run a: it has 3 replicas"),
        (cancel, queued("a", mode={"Global": {}}), "If it is yours, remove it with 'docker service rm a'."),
    ],
)
def test_an_error_names_the_service_its_state_and_the_remedy(function, service, words):
    run = driver(service, rounds=0)
    with pytest.raises(GpuSwarmError) as problem:
        act(run, function, service["Spec"]["Name"], *(["alice"] if function is cancel else []))
    assert problem.value.message.startswith(words) or words in problem.value.message
    assert problem.value.message.endswith(" Nothing was changed.")
    assert run.swarm.writes == 0


def test_a_task_that_still_runs_keeps_held_work_from_its_release():
    run = driver(queued("a"))
    run.swarm.change("a", lambda spec: spec["Labels"].update({LABEL: "rubbish"}))
    with pytest.raises(GpuSwarmError, match="A task of a has not ended"):
        act(run, release, "a")
    act(run, cancel, "a", "alice")
    run.rounds(2)
    assert containers(run, "a") == ["shutdown"]


def test_a_gang_of_an_older_day_is_not_mixed_with_a_gang_of_the_same_name():
    run = driver(*gang())
    for name in GANG:
        run.swarm.end(name)
    run.rounds(2)
    new = [queued("new%d" % rank, {GPU: 8}, gang="train:%d/2 any" % rank) for rank in range(2)]
    for service in new:
        run.swarm.submit(service)
    act(run, cancel, "new1", "alice")
    assert sorted(run.swarm.services_now) == ["idgang0", "idgang1"]
    for service in new:
        run.swarm.submit(service)
    act(run, retry, "gang0")
    assert [run.swarm.state(name) for name in GANG] == ["waiting attempt=1 node=n1", "waiting attempt=1 node=n2"]
    with pytest.raises(GpuSwarmError, match=r"The gang train has a rank twice: its services are gang0, gang1, new0, new1\."):
        act(run, release, "gang0")
