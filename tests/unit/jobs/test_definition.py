# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError, messages_of
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs import definition
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._mask import mask_values

PREFIX = "gpu-swarm."
PLAIN = {"name": "train", "image": "cuda:13", "gpus": 1, "kind": "NVIDIA-GPU", "time_limit": 0, "retries": 0}


def made(**options):
    return definition.jobs({**PLAIN, **options}, PREFIX)


def test_a_job_is_a_service_that_swarm_does_not_start_again():
    (job,) = made(command="python train.py --name 'a b'", env={"LR": 0.1, "DEBUG": True}, owner="alice")
    template = job.spec["TaskTemplate"]
    assert job.service == job.spec["Name"] == f"train-{job.digest[:12]}"
    assert template["RestartPolicy"] == {"Condition": "none"}
    assert job.spec["Mode"] == {"Replicated": {"Replicas": 1}}
    assert template["ContainerSpec"]["Args"] == ["python", "train.py", "--name", "a b"]
    assert template["ContainerSpec"]["Env"] == ["GPU_SWARM_JOB=train", "LR=0.1", "DEBUG=true"]
    assert template["Resources"]["Reservations"]["GenericResources"] == [{"DiscreteResourceSpec": {"Kind": "NVIDIA-GPU", "Value": 1}}]
    assert job.spec["Labels"]["gpu-swarm.job"] == "train"
    assert job.spec["Labels"]["gpu-swarm.owner"] == "alice"
    assert "Healthcheck" not in template["ContainerSpec"]


def test_an_array_is_a_job_for_each_set_of_parameters():
    jobs = made(array=[{"SEED": 1}, {"SEED": 2}])
    assert [job.parameters for job in jobs] == ["SEED=1", "SEED=2"]
    assert len({job.service for job in jobs}) == 2
    assert jobs[1].spec["TaskTemplate"]["ContainerSpec"]["Env"][-1] == "SEED=2"


def test_an_entry_that_is_added_is_the_only_new_one():
    before = {job.service for job in made(array=[{"SEED": 1}, {"SEED": 2}])}
    after = {job.service for job in made(array=[{"SEED": 0}, {"SEED": 1}, {"SEED": 2}])}
    assert before < after
    assert len(after - before) == 1


def test_the_meaning_of_x_gpu_on_a_fleet_is_no_part_of_a_job():
    """Nodes join and leave. Finished jobs must not run again when the nodes change."""
    written = {"x_gpu": {"cuda": ">=12.4"}, "constraints": ["node.role==worker"]}
    placement = {"constraints": ["node.labels.gpu.cuda_ge_12_4==true"], "labels": {"gpu-swarm.classes": "{}"}, "nodes": {"n1": {"a": "true"}}}
    (job,), (alone,) = made(**written, placement=placement), made(**written)
    assert job.digest == alone.digest
    assert job.spec["TaskTemplate"]["Placement"]["Constraints"] == ["node.role==worker", "node.labels.gpu.cuda_ge_12_4==true"]
    assert job.spec["Labels"] == {**alone.spec["Labels"], "gpu-swarm.classes": "{}"}


def test_a_job_that_asks_for_devices_runs_where_they_are():
    written = {"array": [{"GPU_SWARM_DEVICES": "rdma"}, {"SEED": 1}], "constraints": ["node.role==worker"]}
    placement = {"constraints": ["node.labels.gpu.cuda_ge_12_4==true"]}
    asking, other = made(**written, placement=placement)
    assert asking.spec["TaskTemplate"]["Placement"]["Constraints"] == [
        "node.role==worker", "node.labels.gpu.cuda_ge_12_4==true", "node.labels.gpu-swarm.device.rdma==true",
    ]  # fmt: skip
    assert other.spec["TaskTemplate"]["Placement"]["Constraints"] == ["node.role==worker", "node.labels.gpu.cuda_ge_12_4==true"]
    (job,) = made(env={"GPU_SWARM_DEVICES": "rdma,fuse"}, constraints=["node.labels.gpu-swarm.device.fuse == true"])
    assert job.spec["TaskTemplate"]["Placement"]["Constraints"] == [
        "node.labels.gpu-swarm.device.fuse == true", "node.labels.gpu-swarm.device.rdma==true",
    ]  # fmt: skip


SAME = [{"retries": 3}, {"owner": "bob"}, {"command": []}, {"env": {}}, {"user": ""}]
OTHER = [{"image": "cuda:12"}, {"command": ["x"]}, {"env": {"A": 1}}, {"gpus": 2}, {"kind": "VRAM"}, {"time_limit": 5}, {"mounts": ["target=/x"]}]
OTHER += [{"x_gpu": {"cuda": ">=12.4"}}, {"capabilities": ["video"]}]


@pytest.mark.parametrize("options", SAME, ids=str)
def test_retries_and_empty_values_do_not_make_another_job(options):
    assert made(**options)[0].digest == made()[0].digest


@pytest.mark.parametrize("options", OTHER, ids=str)
def test_other_content_makes_another_job(options):
    assert made(**options)[0].digest != made()[0].digest


def test_the_digest_is_the_same_in_each_release():
    assert made(command=["a"])[0].service == "train-9ff83fa8f7db"


def test_a_job_without_gpus_sees_none_in_an_image_that_requests_all():
    (job,) = made(gpus=0)
    assert "NVIDIA_VISIBLE_DEVICES=void" in job.spec["TaskTemplate"]["ContainerSpec"]["Env"]
    assert job.spec["TaskTemplate"]["Resources"]["Reservations"]["GenericResources"] == []


CAPABILITIES = [
    ({"capabilities": ["video"]}, "compute,utility,video"),
    ({"capabilities": ["gpu", "video", "utility"]}, "compute,utility,video"),
    ({"capabilities": ["video"], "env": {"NVIDIA_DRIVER_CAPABILITIES": "all"}}, "all"),
    ({"capabilities": ["video"], "array": [{"NVIDIA_DRIVER_CAPABILITIES": "all"}]}, "all"),
]


@pytest.mark.parametrize(("options", "value"), CAPABILITIES, ids=str)
def test_capabilities_include_compute_and_utility_unless_the_job_sets_the_variable(options, value):
    variables = made(**options)[0].spec["TaskTemplate"]["ContainerSpec"]["Env"]
    assert [text for text in variables if text.startswith("NVIDIA_DRIVER")] == ["NVIDIA_DRIVER_CAPABILITIES=%s" % value]


def test_the_order_of_capabilities_and_a_request_for_gpus_alone_do_not_make_another_job():
    assert made(capabilities=["gpu", "video", "display"])[0].digest == made(capabilities=["display", "video"])[0].digest
    assert made(capabilities=["gpu"])[0] == made()[0]


IMAGES = {"a": "a:latest", "h:5000/a/b": "h:5000/a/b:latest", "h:5000/a:1": "h:5000/a:1", f"a:1@sha256:{64 * '0'}": f"a:1@sha256:{64 * '0'}"}


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_gets_its_tag_as_docker_would_write_it(image):
    assert made(image=image)[0].spec["TaskTemplate"]["ContainerSpec"]["Image"] == IMAGES[image]


def test_a_time_limit_is_a_health_check_that_fails():
    check = made(time_limit=90)[0].spec["TaskTemplate"]["ContainerSpec"]["Healthcheck"]
    assert (check["Interval"], check["Retries"]) == (90 * 10**9, 1)


MOUNTS = {
    "type=bind,source=/a,target=/b,readonly": {"Type": "bind", "Source": "/a", "Target": "/b", "ReadOnly": True},
    "source=data,dst=/b": {"Type": "volume", "Source": "data", "Target": "/b"},
    "type=tmpfs,destination=/b": {"Type": "tmpfs", "Target": "/b"},
}


@pytest.mark.parametrize("text", MOUNTS)
def test_mounts_have_the_form_of_docker(text):
    assert made(mounts=[text])[0].spec["TaskTemplate"]["ContainerSpec"]["Mounts"] == [MOUNTS[text]]


WRONG = {
    "capability": ({"capabilities": ["gpu", "tpu"]}, "capabilities of the job train has 'tpu'. NVIDIA's driver has compute, utility, "),
    "capabilities without a GPU": ({"capabilities": ["video"], "gpus": 0}, "has capabilities, but with gpus: 0 it sees no GPU"),
    "image": ({"image": " "}, "has no image"),
    "image's tag": ({"image": "lab/task:"}, "image of the job train is 'lab/task:', which is not a valid image name. Write it as name:tag"),
    "image's letters": ({"image": "lab/Task"}, "which is not a valid image name"),
    "negative": ({"gpus": -1}, "gpus of the job train is -1"),
    "time limit": ({"time_limit": -5}, "time_limit of the job train"),
    "too long a time limit": ({"time_limit": 10**10}, "is 10000000000 seconds"),
    "variable": ({"env": {"a b": 1}}, "'a b' is not a valid name of a variable"),
    "a variable of Swarm": ({"env": {"DOCKER_RESOURCE_GPU": "x"}}, "is set by swarm from gpus and kind"),
    "devices": ({"env": {"GPU_SWARM_DEVICES": "/dev/fuse"}}, "GPU_SWARM_DEVICES of the job train is '/dev/fuse', but '/dev/fuse' is not a name of"),
    "devices in array": ({"array": [{"GPU_SWARM_DEVICES": "fuse"}, {"GPU_SWARM_DEVICES": "a b"}]}, "GPU_SWARM_DEVICES of the job train is 'a b'"),
    "a list": ({"env": {"A": [1]}}, "A is neither a text nor a number"),
    "quotes": ({"command": "sh -c 'x"}, "Close its quotes"),
    "empty array": ({"array": []}, "has 0 entries"),
    "long array": ({"array": [{"A": number} for number in range(1001)]}, "has 1001 entries"),
    "the same array entry twice": ({"array": [{"A": 1}, {"A": "1"}]}, "has A=1 twice"),
    "a variable in env and array": ({"env": {"A": 1}, "array": [{"A": 2}]}, "has A in env and in array"),
    "constraint": ({"constraints": ["node.labels.a=b"]}, "with == or !="),
    "constraint's key": ({"constraints": ["node.labels.a/b==c"]}, "'node.labels.a/b==c' in constraints"),
    "a wrong entry of command": ({"command": ["a", [1]]}, "command of the job train: entry 2 is neither a text nor a number"),
    "mount": ({"mounts": ["type=bind,source=./a,target=/b"]}, "its source is not an absolute path"),
    "mount's key": ({"mounts": ["target=/b,mode=7"]}, "'mode=7' is not understood"),
    "mounts": ({"mounts": ["type=tmpfs,target=/b/", "source=v,target=/b"]}, "The job train mounts two things at /b. Remove one of them."),
    "mount's type": ({"mounts": ["type=npipe,target=/b"]}, "its type is not one of"),
}


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=WRONG)
def test_errors_are_reported_before_anything_is_submitted(options, words):
    with pytest.raises(GpuSwarmError) as problem:
        made(**options)
    assert words in problem.value.message
    assert problem.value.message.endswith("Nothing was submitted.")


def test_all_errors_are_named_at_once_and_in_order():
    wrong = {"constraints": ["a", "b"], "env": {"a b": 1, "A": [1]}, "gpus": -1, "mounts": ["x", "y"]}
    wrong["array"] = [{"A": []}, {"B": "{{upper .Node.ID}}"}]
    with pytest.raises(GpuSwarmError) as problem:
        definition.jobs({"name": "train", "kind": "K", **wrong}, "gpu-swarm.")
    found = messages_of(problem.value)
    begins = ["'a' in constraints", "'b' in constraints"]
    begins += ["env of the job train: 'a b'", "env of the job train: A", "gpus of the job train"]
    begins += ["The mount 'x'", "The mount 'y'", "array[1] of the job train: A"]
    begins += ["B of the job train has one of swarm's", "The job train has no image"]
    assert [one.startswith(begin) for begin, one in zip(begins, found, strict=True)] == [True] * 10
    assert all(one.endswith("Nothing was submitted.") for one in found)


@pytest.mark.parametrize("name", ["", "-a", "a b", "x" * 51, "a/b", "ä"])
def test_a_name_must_suit_a_service(name):
    with pytest.raises(GpuSwarmError, match="at most 50 letters"):
        definition.refuse_name(name)


def test_only_names_of_variables_are_shown():
    text = definition.describe_jobs(made(env={"KEY": "s3cret"}, command=["run", "--token=t0ken"], array=[{"PASSWORD": "p4ss", "LR": 1}]))
    assert "variables: GPU_SWARM_JOB, KEY, LR, PASSWORD" in text
    assert not [word for word in ("s3cret", "t0ken", "p4ss") if word in text]


def test_a_variable_reaches_the_container_unchanged():
    """Swarm expands templates in variables. If it cannot expand a template, it prints the whole value."""
    env = {"TOKEN": "s3cr3t-{{Zq", "WHERE": "{{.Node.Hostname}}"}
    (job,), (before,) = made(env=env), made(env={**env})
    assert job.spec["TaskTemplate"]["ContainerSpec"]["Env"][1:] == ['TOKEN=s3cr3t-{{"{{"}}Zq', "WHERE={{.Node.Hostname}}"]
    assert job.digest == before.digest
    assert definition.variable_values(job)[1:] == ['s3cr3t-{{"{{"}}Zq', "{{.Node.Hostname}}"]
    for wrong in ({"env": {"TOKEN": "s3cr3t-{{if .Task.Slot}}"}}, {"array": [{"TOKEN": "s3cr3t-{{.Node.Name}}"}]}):
        with pytest.raises(GpuSwarmError, match="TOKEN of the job train has one of swarm's fields within another template") as raised:
            made(**wrong)
        assert "s3cr3t" not in raised.value.message
    with pytest.raises(GpuSwarmError, match="A mount of the job train has '{{', which swarm would expand") as raised:
        made(mounts=["type=volume,source=s3cr3t-{{x}},target=/data"])
    assert "s3cr3t" not in raised.value.message
    assert made(mounts=["type=volume,source=data-{{.Task.Slot}},target=/data"])


@pytest.mark.parametrize(
    "options",
    [
        {"command": ["train", "--api-key", "s3cr3t"]},
        {"command": "train --hub-token=s3cr3t"},
        {"command": ["sh", "-c", "HF_TOKEN=s3cr3t train"]},
        {"command": ["curl", "-H", "Authorization: Bearer s3cr3t"]},
        {"array": [{"SSH_KEY": "s3cr3t"}, {"ARGS": "--api-key s3cr3t"}]},
    ],
)
def test_possible_secrets_are_not_shown(options):
    jobs = made(**options)
    assert "s3cr3t" not in definition.describe_jobs(jobs)
    assert "s3cr3t" not in str([job.parameters for job in jobs] + [job.spec["Labels"] for job in jobs])
    assert "***" in definition.describe_jobs(jobs)


def test_docker_repeats_no_variable_and_the_name_and_the_image_stay():
    (job,) = made(name="training", image="lab/training:13", env={"KEY": "s3cr3t-v4lue", "MODE": "training"})
    said = "service %s of lab/training:13 is refused" % job.service
    answer = mask_values("%s: KEY=s3cr3t-v4lue MODE=training" % said, definition.variable_values(job), definition.public_values(job))
    assert answer == "%s: KEY=*** MODE=***" % said
