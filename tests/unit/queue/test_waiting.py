# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from queued import CREATED, GPU, queued

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queues import Queue, check_queues
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.waiting import Gang, read
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch

QUEUES = check_queues({"research": {}, "nightly": {"priority": -10, "time_limit": "8h"}, "endless": {"time_limit": "none"}})


def in_stack(service, image):
    service["Spec"]["Labels"]["com.docker.stack.namespace"] = "demo"
    service["Spec"]["TaskTemplate"]["ContainerSpec"] = {
        "Image": image,
        "Env": ["TOKEN=hunter2"],
        "Args": ["--password", "hunter2"],
    }
    return service


def test_a_service_without_the_label_does_not_belong_to_a_queue():
    assert read(queued(queue=None), QUEUES) is None
    service = queued()
    service["Spec"]["Labels"] = None
    assert read(service, QUEUES) is None


def test_a_label_of_1_mb_takes_no_time():
    """Anybody may write such a label, and each round reads the labels of all services of queues several times."""
    service = queued(owner="\x1b" * 10**6, queue="\x1b" * 10**6)
    began = time.process_time()
    for _service in range(10):
        assert len(read(service, QUEUES).owner) == 100
    assert time.process_time() - began < 0.5


def test_a_waiting_service_is_read():
    found = read(queued(owner="alice", priority="5", time_limit="8h", state="waiting attempt=1 released=1 keeps=n7 avoids=n2"), QUEUES)
    assert (found.service_id, found.name, found.queue, found.owner, found.problem) == ("idtrain", "train", "research", "alice", "")
    work = found.work
    assert (work.since, work.priority, work.time_limit_s, work.gang) == (pytest.approx(epoch(CREATED) + 0.123456, abs=1e-5), 5, 8 * 3600, None)
    assert (work.keeps, work.avoids, work.amounts) == (("n7",), ("n2",), {GPU: 2})
    assert found.state.attempt == 1


def test_cpus_and_memory_count_in_no_cap():
    work = read(queued(reserves={"NanoCPUs": 2000000000, "MemoryBytes": 4, GPU: 1, "VRAM": 8}), QUEUES).work
    assert work.amounts == {GPU: 1, "VRAM": 8}
    assert len(work.demand.wants) == 4


@pytest.mark.parametrize(
    ("queue", "label", "seconds"),
    [
        ("research", None, 86400),
        ("research", "90s", 90),
        ("research", "24h", 86400),
        ("nightly", None, 28800),
        ("endless", None, None),
        ("endless", "none", None),
        ("endless", "7d", 604800),
        ("no-such-queue", None, None),
    ],
)
def test_a_label_may_shorten_the_time_limit_of_the_queue(queue, label, seconds):
    assert read(queued(queue=queue, time_limit=label), QUEUES).work.time_limit_s == seconds


@pytest.mark.parametrize(
    ("service", "words"),
    [
        (queued(condition=None), "swarm would start its tasks again (restart condition any); create it with --restart-condition none"),
        (queued(condition="on-failure"), "restart condition on-failure"),
        (queued(replicas=1), "it was started outside of the queue, with 1 replica; create it with --replicas 0"),
        (queued(replicas=3), "it has 3 replicas; a queued service is one task, so submit an array or a gang with a job file"),
        (queued(replicas=2, state="admitted attempt=1"), "it has 2 replicas"),
        (queued(mode={"Global": {}}), "it is a global service; a queue takes replicated services"),
        (queued(mode={"ReplicatedJob": {}}), "it is a replicated job;"),
        (queued(mode={"GlobalJob": {}}), "it is a global job;"),
        (queued(mode={}), "it is a service without a mode;"),
        (queued(replicas=1, state="waiting keeps=n1"), "it was started outside of the queue, with 1 replica; create it with --replicas 0"),
        (queued(replicas=1, state="waiting attempt=2 released=2"), "it was started outside of the queue"),
        (queued(state="held"), "it is held: somebody held it; 'gpu-swarm release train' lets it run"),
        (
            queued(state="over attempt=1"),
            "it is held: it was scaled to 0 after it was admitted, and would run again; 'gpu-swarm release train' lets it run",
        ),
        (queued(reserves={GPU: 0}), "it reserves 0 of NVIDIA-GPU, which takes all of a node's; reserve a number"),
        (queued(priority="high"), "its label gpu-swarm.priority is 'high'; write a whole number from -1000 to 1000"),
        (queued(priority="1001"), "gpu-swarm.priority is '1001'"),
        (queued(priority="1\n"), "gpu-swarm.priority"),
        (queued(priority=""), "gpu-swarm.priority is ''"),
        (queued(time_limit="8"), "its label gpu-swarm.time-limit is '8'; write a duration such as 90s, 30m, 8h or 2d, or none"),
        (queued(time_limit="0s"), "gpu-swarm.time-limit is '0s'"),
        (queued(time_limit="25h"), "its time limit is 25h, and the queue research allows 24h"),
        (queued(time_limit="none"), "its time limit is none, and the queue research allows 24h"),
        (queued(gang="train"), "its label gpu-swarm.gang is 'train'; write NAME:RANK/SIZE, such as train:0/2"),
        (queued(gang="train:2/2"), "its label gpu-swarm.gang says rank 2 of 2; a gang has 2 to 64 members, and their ranks begin with 0"),
        (queued(gang="train:0/1"), "says rank 0 of 1"),
        (queued(gang="train:0/65"), "says rank 0 of 65"),
        (queued(gang="a b:0/2"), "gpu-swarm.gang is 'a b:0/2'"),
        (queued(gang="train:0/2 all"), "gpu-swarm.gang is 'train:0/2 all'"),
    ],
)
def test_what_cannot_be_queued_says_why(service, words):
    found = read(service, QUEUES)
    assert found.work is None
    assert words in found.problem
    assert found.problem.isprintable()


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        ("my/training:1", "my/training:1"),
        ("registry.example:5000/my/training:1@sha256:" + "0a" * 32, "registry.example:5000/my/training:1"),
        ("user:hunter2@registry.example/a", "my/image"),
    ],
)
def test_services_of_a_stack_are_refused_with_the_job_file_and_without_secrets(image, shown):
    found = read(in_stack(queued(owner="alice"), image), QUEUES)
    assert found.problem.startswith("it belongs to the stack demo, whose next 'docker stack deploy' would end its work")
    assert "hunter2" not in found.problem
    job = yaml.safe_load(found.problem.partition("instead: ")[2])
    assert (job["name"], job["gpus"], job["kind"], job["queue"], job["owner"]) == ("train", 2, GPU, "research", "alice")
    assert job["image"] == shown


def test_work_that_waits_for_another_try_keeps_its_replica():
    found = read(queued(replicas=1, state="waiting attempt=1"), QUEUES)
    assert found.problem == ""
    assert found.work


@pytest.mark.parametrize(("label", "gang"), [("train.a:0/2", ("train.a", 0, 2, True)), ("t:63/64 any", ("t", 63, 64, False))])
def test_gangs(label, gang):
    assert read(queued(gang=label), QUEUES).work.gang == Gang(*gang, "overlay1")


texts = st.text(max_size=30) | st.from_regex(r"[a-z]{0,4}:?[0-9]{0,4}/?[0-9]{0,4}( any)?")


@given(texts, texts, texts, texts, texts, texts)
def test_hostile_labels_are_read_or_refused_in_one_printable_line(queue, owner, priority, time_limit, gang, state):
    found = read(queued(queue=queue, owner=owner, priority=priority, time_limit=time_limit, gang=gang, state=state), {"research": Queue("research")})
    assert (found.work is None) == bool(found.problem)
    assert found.problem.isprintable()
    assert found.queue.isprintable()
    assert found.owner.isprintable()
    assert len(found.problem) < 400
