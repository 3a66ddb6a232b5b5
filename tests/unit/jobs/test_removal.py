# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import tracemalloc
from contextlib import contextmanager

from swarm_api import service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs import removal
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import Manager

MANY = 10_000
MOST_MIB = 28


class Client:
    """Sends lists like a manager. Only one item of a list exists at a time."""

    @contextmanager
    def stream(self, path):
        yield self._pieces(self._services() if path.startswith("/services") else self._tasks())

    def _pieces(self, made):
        yield b"["
        for number, one in enumerate(made):
            yield (b"," if number else b"") + json.dumps(one).encode()
        yield b"]"

    def _services(self):
        for number in range(MANY):
            one = service(f"s{number:024}", f"train-{number}", env=[f"VARIABLE_{each}={'x' * 60}" for each in range(12)])
            one["Spec"].update(Mode={"Replicated": {"Replicas": 1}}, Labels={"gpu-swarm.job": "train"})
            one["Spec"]["TaskTemplate"]["RestartPolicy"] = {"Condition": "none"}
            yield one

    def _tasks(self):
        for number in range(MANY):
            one = task(f"t{number:024}", service=f"s{number:024}", state="complete" if number % 2 else "running", restart="none")
            one["Spec"]["ContainerSpec"]["Env"] = [f"VARIABLE_{each}={'x' * 60}" for each in range(12)]
            yield one


@contextmanager
def traced():
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def test_ten_thousand_services_are_checked_in_bounded_memory():
    manager = Manager(Client(), "here", {"Cluster": {"ID": "c"}, "NodeID": "n"})
    sent = sum(len(json.dumps(one)) for made in (Client()._services(), Client()._tasks()) for one in made)
    with traced():
        found = removal.candidates(manager, removal.Wanted(None, None, "gpu-swarm."))
        _now, most = tracemalloc.get_traced_memory()
    assert len(found) == MANY
    assert sum(one.verdict.state == "complete" for one in found) == MANY // 2
    assert sent > 16 << 20
    assert most < MOST_MIB << 20, f"{most >> 20} MiB for {sent >> 20} MiB"


def of_queue(name, state=None, replicas=1, former=None, label="gpu-swarm.queue"):
    one = service("s" + name, name)
    labels = {label: "research", **({"gpu-swarm.queue-state": state} if state else {})}
    one["Spec"].update(Mode={"Replicated": {"Replicas": replicas}}, Labels=labels)
    one["Spec"]["TaskTemplate"]["RestartPolicy"] = {"Condition": "none"}
    return {**one, **({"PreviousSpec": {"Labels": {"gpu-swarm.queue-state": former}}} if former else {})}


class Swarm:
    """Lists services by label."""

    def __init__(self, *services):
        self._services = services

    def each_service(self, label=""):
        return iter([one for one in self._services if not label or label in one["Spec"]["Labels"]])

    def tasks(self):
        return iter([task("t1", service=one["ID"], state="complete", restart="none") for one in self._services if one["ID"] != "swaits"])


def test_work_of_queues_is_among_the_jobs_to_remove_and_its_former_state_counts():
    over = "over attempt=1 node=n1 result=complete"
    services = [of_queue("over", over), of_queue("waits", replicas=0), of_queue("rolled-back", replicas=0, former=over), of_queue("x", label="mine")]
    both = {**services[0], "ID": "sboth"}
    both["Spec"] = {**both["Spec"], "Name": "both", "Labels": {**both["Spec"]["Labels"], "gpu-swarm.job": "train"}}
    found = removal.candidates(Swarm(*services, both), removal.Wanted(None, None, "gpu-swarm."))
    states = {one.service: one.verdict.state for one in found}
    assert (len(found), states) == (4, {"over": "complete", "waits": None, "rolled-back": None, "both": "complete"})


def test_gangs_of_two_owners_with_the_same_name_are_two_gangs():
    services = [of_queue("hers", "over attempt=1 node=n1 result=complete"), of_queue("his")]
    services[0]["Spec"]["Labels"].update({"gpu-swarm.gang": "train:0/2", "gpu-swarm.owner": "alice"})
    services[1]["Spec"]["Labels"].update({"gpu-swarm.gang": "train:0/2", "gpu-swarm.owner": "bob"})
    found = removal.candidates(Swarm(*services), removal.Wanted(None, None, "gpu-swarm."))
    assert {one.service: (one.name, one.verdict.state) for one in found} == {"hers": ("train", "complete"), "his": ("train", None)}
