# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import named, node, pending, service, task
from versioned_services import VersionedServices

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs.job_options import JOB_OPTIONS
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import Refused
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager_options import CONNECTION_OPTIONS
from ansible_collections.fleet.gpu_swarm.plugins.modules import swarm_job as module

PLAIN = {
    "name": "train", "image": "cuda:13", "gpus": 1, "kind": "NVIDIA-GPU", "time_limit": 0, "retries": 0, "again": "never", "state": "present",
    "explain": True,
}  # fmt: skip
FLEET = [node(resources=named("GPU-1", "GPU-2"))]


@pytest.fixture
def run(monkeypatch, tmp_path):
    def call(manager, check_mode=False, **options):
        monkeypatch.setattr(module, "connect", lambda params: manager)
        return module.run({**PLAIN, "log_directory": str(tmp_path), "log_limit_mib": 1, **options}, check_mode)

    return call


def states(result):
    return [one["state"] for one in result["jobs"]]


def ends(manager, state, number=0, error="", code=1):
    """End the newest task of a service with this state."""
    service_id = f"new{number}"
    tries = manager.service_as_it_is(service_id)["Spec"]["TaskTemplate"]["ForceUpdate"]
    one = task(f"t{number}{tries}", service=service_id, state=state, error=error, since=manager.time, restart="none")
    one["Spec"]["ForceUpdate"] = tries
    one["Status"]["ContainerStatus"] = {"ContainerID": "c", "ExitCode": code}
    manager.add_task(one)


def test_a_job_has_no_option_of_the_connection():
    assert not set(JOB_OPTIONS) & set(CONNECTION_OPTIONS)


def test_check_mode_submits_nothing_and_shows_the_job(run):
    manager = VersionedServices(nodes=FLEET)
    result = run(manager, check_mode=True, array=[{"A": 1}, {"A": 2}])
    assert result["changed"]
    assert states(result) == ["to be submitted"] * 2
    assert "parameters: A=2" in result["diff"]["after"]
    assert manager.created == []


def test_it_is_submitted_once_and_its_outcome_is_returned(run, tmp_path):
    manager = VersionedServices(nodes=FLEET)
    first = run(manager)
    assert (first["changed"], states(first), first["waiting"]) == (True, ["queued"], manager.created)
    ends(manager, "complete", code=0)
    later = run(manager)
    assert (later["changed"], states(later), later["waiting"], later["not_ready"]) == (False, ["complete"], [], [])
    assert later["jobs"][0]["exit_code"] == 0
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"hello\n"]
    assert len(manager.created) == 1
    assert later["diff"] == {"before": "", "after": ""}


def test_a_failed_job_is_retried_up_to_its_limit(run, tmp_path):
    manager = VersionedServices(nodes=FLEET)
    run(manager, retries=1)
    ends(manager, "failed", error="task: non-zero exit (1)")
    again = run(manager, retries=1)
    assert (again["changed"], states(again), len(again["waiting"])) == (True, ["queued"], 1)
    ends(manager, "failed", error="task: non-zero exit (1)")
    last = run(manager, retries=1)
    assert (last["changed"], states(last), last["waiting"], len(last["not_ready"])) == (False, ["failed"], [], 1)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_job_refused_by_a_guard_is_submitted_again_without_using_a_retry(run):
    manager = VersionedServices(nodes=FLEET)
    run(manager)
    refused = "gpu-swarm: the service t is refused on this node (isolation: exclusive): task x of the service y still has GPU-1."
    ends(manager, "failed", error=refused)
    result = run(manager)
    assert (result["changed"], states(result)) == (True, ["queued"])
    ends(manager, "failed", error=refused)
    waits = run(manager)  # the next try starts after one second
    assert (waits["changed"], states(waits), len(waits["waiting"]), waits["not_ready"]) == (False, ["refused"], 1, [])
    manager.time = "2026-11-21T02:10:02Z"
    assert states(run(manager)) == ["queued"]
    labels = manager.service_as_it_is("new0")["Spec"]["Labels"]
    assert (labels["gpu-swarm.job-retried"], labels["gpu-swarm.job-refused"]) == ("0", "2")


THEN = [("failed", ["complete", "queued"]), ("always", ["queued", "queued"]), ("never", ["complete", "failed"])]


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_job_avoids_a_node_that_refused_it_if_there_is_room_elsewhere(run, elsewhere):
    others = [node("n2", resources=named("GPU-3"))] if elsewhere else []
    manager = VersionedServices(nodes=[*FLEET, *others])
    run(manager, constraints=["node.role!=x"])
    ends(manager, "failed", error="gpu-swarm: the service t is refused on this node (isolation: exclusive): task x still has GPU-1.")
    assert states(run(manager, constraints=["node.role!=x"])) == ["queued"]

    def constraints():
        spec = manager.service_as_it_is("new0")["Spec"]
        return spec["TaskTemplate"]["Placement"]["Constraints"], spec["Labels"].get("gpu-swarm.job-avoids")

    assert constraints() == ((["node.role!=x", "node.id!=n1"], "n1") if elsewhere else (["node.role!=x"], None))
    waiting = pending("t9", service="new0", restart="none")
    waiting["Spec"]["ForceUpdate"] = 1
    manager.add_task({**waiting, "CreatedAt": manager.time})
    run(manager, constraints=["node.role!=x"])
    assert bool(constraints()[1]) == elsewhere
    # Other jobs got the other node first, and this job has waited for half a minute.
    manager.time = "2026-11-21T02:10:40Z"
    assert states(run(manager, constraints=["node.role!=x"])) == ["queued"]
    assert constraints() == (["node.role!=x"], None)
    assert manager.service_as_it_is("new0")["Spec"]["TaskTemplate"]["ForceUpdate"] == 1


@pytest.mark.parametrize(("again", "states_then"), THEN)
def test_a_finished_job_runs_again_with_consent(run, again, states_then):
    manager = VersionedServices(nodes=FLEET)
    array = [{"A": 1}, {"A": 2}]
    run(manager, array=array)
    ends(manager, "complete", 0, code=0)
    ends(manager, "failed", 1)
    assert states(run(manager, array=array, again=again)) == states_then


def test_a_log_that_cannot_be_saved_stops_another_try(run):
    manager = VersionedServices(nodes=FLEET, log=b"")
    run(manager, retries=3)
    ends(manager, "failed")
    result = run(manager, retries=3)
    assert (result["changed"], states(result), result["waiting"]) == (False, ["failed"], [])
    assert "its log could not be saved" in result["problems"][0]


def test_a_simultaneous_submission_of_the_same_job_is_no_failure(run):
    manager, other = VersionedServices(nodes=FLEET), VersionedServices(nodes=FLEET)
    run(other)
    there = other.service_as_it_is("new0")
    read = manager.nodes

    def nodes():  # called after the list of services was read
        listed = read()
        manager._services["new0"] = there
        return listed

    manager.nodes, manager.services = nodes, list
    assert states(run(manager)) == ["queued"]
    assert manager.created == []


def test_a_job_that_is_being_removed_does_not_run_again_before_it_is_removed(run):
    """If the removing process was killed, the job may run again."""
    manager = VersionedServices(nodes=FLEET)
    run(manager)
    ends(manager, "complete", code=0)
    manager._services["new0"].update(UpdatedAt="2026-11-21T02:09:55Z")
    manager._services["new0"]["Spec"]["Labels"]["gpu-swarm.job-removed"] = "1"
    result = run(manager, again="always")
    assert (result["changed"], states(result), len(result["waiting"])) == (False, ["complete"], 1)
    manager.time = "2026-11-21T02:11:00Z"
    assert states(run(manager, again="always")) == ["queued"]


WRONG = {
    "an unknown kind": ({"kind": "H100"}, "No node of the swarm advertises the resource kind H100. Advertised are: NVIDIA-GPU"),
    "more than any node has": ({"gpus": 3}, "No node could ever run it"),
    "a constraint that no node meets": ({"constraints": ["node.labels.x==y"]}, "No node could ever run it"),
    "devices that no node has": (
        {"env": {"GPU_SWARM_DEVICES": "rdma"}},
        r"no node has such a device: add the paths of rdma to gpu_swarm_devices, and run provision.* No node could ever run it",
    ),
}


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("check_mode", [True, False])
def test_a_job_that_no_node_can_run_is_not_submitted(run, options, words, check_mode):
    manager = VersionedServices(nodes=FLEET)
    with pytest.raises(GpuSwarmError, match=words):
        run(manager, check_mode=check_mode, **options)
    assert manager.created == []


def test_a_job_that_is_removed_meanwhile_is_submitted_again(run):
    manager = VersionedServices(nodes=FLEET)
    run(manager)
    ends(manager, "complete", code=0)
    listed, lists = {name: getattr(manager, name) for name in ("services_labelled", "tasks_labelled")}, []

    def listing(name):
        def call(label):
            found = listed[name](label)
            if not lists:
                manager.remove_service("new0")
                manager._tasks.clear()
            lists.append(name)
            return found

        return call

    for name in listed:
        setattr(manager, name, listing(name))
    result = run(manager)
    assert (result["changed"], states(result), len(manager.created)) == (True, ["queued"], 2)


def test_a_swarm_that_keeps_no_tasks_accepts_no_job(run):
    manager = VersionedServices(nodes=FLEET)
    manager.spec = {"Orchestration": {"TaskHistoryRetentionLimit": 0}}
    with pytest.raises(GpuSwarmError, match="docker swarm update --task-history-limit 5"):
        run(manager)
    assert manager.created == []


@pytest.mark.parametrize("what", ["is changed", "is run again", "is removed"])
def test_a_job_that_is_changed_at_the_same_moment_runs_at_most_once_more(run, what):
    manager = VersionedServices(nodes=FLEET)
    run(manager)
    ends(manager, "complete", code=0)

    def meanwhile(call, service_id):
        if call == "update_service":
            manager.before = lambda call, service_id: None
            if what == "is removed":
                manager.remove_service(service_id)
            elif what == "is run again":
                manager.force(service_id)
            else:
                one = manager.service_as_it_is(service_id)
                manager.write(service_id, one["Version"]["Index"], one["Spec"])

    manager.before = meanwhile
    result = run(manager, again="always")
    assert (result["changed"], len(result["waiting"])) == (what == "is changed", 1)
    if what == "is removed":
        assert states(run(manager)) == ["queued"]  # the job is submitted again
    else:
        assert manager.service_as_it_is("new0")["Spec"]["TaskTemplate"]["ForceUpdate"] == 1


def test_a_name_that_another_service_has_is_refused(run):
    name = module.definition.jobs(PLAIN, "gpu-swarm.")[0].service
    manager = VersionedServices([service("s1", name)], nodes=FLEET)
    with pytest.raises(GpuSwarmError, match="has a service .* that is not this job"):
        run(manager)


def test_all_jobs_of_a_name_are_removed_and_their_logs_saved(run, tmp_path):
    manager = VersionedServices(nodes=FLEET)
    run(manager, array=[{"A": 1}, {"A": 2}])
    run(manager, name="other")
    ends(manager, "running", 1, code=0)
    assert run(manager, check_mode=True, state="absent")["changed"]
    assert manager.removed == []
    result = run(manager, state="absent")
    assert (result["changed"], manager.removed, states(result)) == (True, ["new0", "new1"], ["queued", "running"])
    assert len(list(tmp_path.iterdir())) == 1
    assert not run(manager, state="absent")["changed"]


def test_resources_of_removed_jobs_are_reported_until_they_are_free(run):
    """The next run reports them too, until the tasks have ended."""
    manager = VersionedServices(nodes=FLEET)
    run(manager)
    manager.add_task(task("t1", given=named("GPU-1"), service="new0"))
    ending = [{"hostname": "host-n1", "kind": "NVIDIA-GPU", "amount": 1, "state": "ready"}]
    assert run(manager, check_mode=True, state="absent")["ending"] == run(manager)["ending"] == []
    assert run(manager, state="absent")["ending"] == run(manager, state="absent")["ending"] == ending
    assert run(manager, check_mode=True, state="absent")["ending"] == ending  # a waiting run does this, so that nothing is removed twice


X_GPU = {"model": "*a100*"}
PLACEMENT = {"constraints": ["node.labels.gpu.class.a==true"], "labels": {"gpu-swarm.classes": "{}"}, "nodes": {"n1": {"gpu.class.a": "true"}}}


@pytest.mark.parametrize("check_mode", [True, False])
def test_nothing_is_submitted_before_the_meaning_of_x_gpu_is_known(run, check_mode):
    """In a check run, the node does not have the label of the constraint yet."""
    manager = VersionedServices(nodes=FLEET)
    first = run(manager, check_mode, x_gpu=X_GPU)
    assert (first["unplaced"], first["changed"], first["jobs"], manager.created) == (True, False, [], [])
    result = run(manager, check_mode, x_gpu=X_GPU, placement=PLACEMENT)
    assert (result["unplaced"], result["changed"], len(result["jobs"])) == (False, True, 1)
    assert "constraint: node.labels.gpu.class.a==true" in result["diff"]["after"]
    assert len(manager.created) == (0 if check_mode else 1)


def test_a_submitted_job_needs_no_placement(run):
    manager = VersionedServices(nodes=FLEET)
    run(manager, x_gpu=X_GPU, placement=PLACEMENT)
    later = run(manager, x_gpu=X_GPU)
    assert (later["unplaced"], later["changed"], states(later)) == (False, False, ["queued"])


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_network_that_the_swarm_does_not_have_is_named_before_anything_is_submitted(run, check_mode):
    manager = VersionedServices(nodes=FLEET)
    manager.networks = lambda: [{"Name": "n", "Id": "n1", "Scope": "swarm"}, {"Name": "lan", "Id": "n2", "Scope": "local"}]
    with pytest.raises(GpuSwarmError) as problem:
        run(manager, check_mode=check_mode, networks=["n", "lost", "lan", "host"])
    assert problem.value.message == (
        "networks of the job train has lan, lost, which the swarm does not have. Create it with 'docker network create --driver overlay', or fix its "
        "name. Nothing was submitted."
    )
    assert manager.created == []
    with pytest.raises(GpuSwarmError) as problem:
        run(manager, check_mode=check_mode, networks=["lost"], kind="VRAM")
    both = ["networks of the job train has lost", "No node of the swarm advertises the resource kind VRAM", "Nothing was submitted."]
    assert [problem.value.message.count(words) for words in both] == [1, 1, 1]
    assert run(manager, check_mode=check_mode, networks=["n1", "n", "host"])["changed"]


@pytest.mark.parametrize("number", [0, 1])
def test_a_job_that_the_manager_refuses_is_named_and_no_other_manager_is_tried(run, number):
    """The reason is shown, but not the values of its variables."""
    manager = VersionedServices(nodes=FLEET)
    create = manager.create_service

    def refuses(spec):
        if len(manager.created) < number:
            return create(spec)
        raise Refused("The manager at unix:///x refused to create service train-1: KEY=s3cr3t-v4lue is not allowed.")

    manager.create_service = refuses
    with pytest.raises(GpuSwarmError) as problem:
        run(manager, array=[{"KEY": "a"}, {"KEY": "s3cr3t-v4lue"}][1 - number :])
    assert module.failure_fields(problem.value) == {"wrong": True}
    done = "Nothing was submitted." if number == 0 else "1 of its jobs are submitted."
    assert problem.value.message == (
        "The job train is refused. The manager at unix:///x refused to create service train-1: KEY=*** is not allowed. Fix this in the "
        f"definition of the job. {done}"
    )
