# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A swarm that creates, places and stops the tasks of services of queues as swarmkit does. Its clock stands still until a test moves it."""

from __future__ import annotations

import copy
import struct

from queued import CREATED, GPU, gpu_node, on_host
from swarm_api import cluster, discrete

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.admitter import AT_MOST_S, Admitter
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queue_state import LABEL
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import NotFound, OutOfSequence, Refused
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.owned_labels import PULL
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import ALLOCATED, ENDED, epoch, stamp

QUEUES = '{"research":{"time_limit":"1h"}}'


class Killed(BaseException):
    """The admitter's process was killed."""


class QueueSwarm:
    """``killed_after`` is the number of updates after which the admitter is killed. ``places`` says whether the scheduler works."""

    node_id = "m1"

    def __init__(self, services, nodes=(), queues=QUEUES):
        self.clock, self.places, self.killed_after, self.writes = epoch(CREATED) + 60, True, None, 0
        self.labels, self.version = {"gpu-swarm.queues": queues}, 10
        self.nodes_now = list(nodes) or [gpu_node("n1"), gpu_node("n2")]
        self.tasks_now, self.services_now, self.began, self.calls = [], {}, [], []
        self.refuses, self.history, self._ids = set(), 5, 0
        self.created, self.short, self.removed = [], [], []
        self.before_update = lambda service_id: None
        self.pulls, self.pull_fails = {}, lambda node, image: None  # services with which nodes pull; why a node cannot pull an image
        for one in services:
            self.submit(one)

    def new_id(self):
        self._ids += 1
        return "k%d" % self._ids

    # -- what people do ----------------------------------------------------------------------------------------------

    def submit(self, service):
        self.services_now[service["ID"]] = {**copy.deepcopy(service), "Version": {"Index": 1}, "UpdatedAt": stamp(self.clock)}

    def change(self, name, change):
        """Change a service as a person does: ``change`` gets a copy of its specification."""
        service = self.services_now["id" + name]
        spec = copy.deepcopy(service["Spec"])
        change(spec)
        self._write(service, spec)

    def begin(self, name, node_id):
        """Run a task of the service, as if it had been created with 1 replica."""
        service = self.services_now["id" + name]
        self.tasks_now.append({**self._task(service["ID"], service["Spec"]), "NodeID": node_id})
        self.tasks_now[-1]["Status"]["State"] = "running"

    def scale(self, name, replicas):
        self.change(name, lambda spec: spec["Mode"]["Replicated"].update(Replicas=replicas))

    def roll_back(self, name):
        """Roll a service back. Swarm then runs its ended tasks again (swarmkit IsTaskUpdatable)."""
        service = self.services_now["id" + name]
        self._write(service, service["PreviousSpec"], UpdateStatus={"State": "rollback_completed"})
        live = [task for task in self.tasks_of(service["ID"]) if task["Status"]["State"] not in ENDED]
        if service["PreviousSpec"]["Mode"]["Replicated"]["Replicas"] and not live:
            self.tasks_now.append(self._task(service["ID"], service["PreviousSpec"]))

    def end(self, name, state="complete", error="", code=0):
        """End the task of the service that has a node."""
        for task in self.tasks_of("id" + name):
            if task["Status"]["State"] in ALLOCATED:
                self.end_task(task, state, error, code)

    def set_availability(self, node_id, availability):
        """Pause, drain or open a node. Swarm moves the tasks of a drained node whose restart policy allows it."""
        (node,) = [node for node in self.nodes_now if node["ID"] == node_id]
        node["Spec"]["Availability"] = availability
        for task in [task for task in self.tasks_now if task.get("NodeID") == node_id and availability == "drain"]:
            if task["Status"]["State"] in ALLOCATED:
                task["DesiredState"] = "shutdown"
                self.end_task(task, "shutdown", "", 137)
                service = self.services_now[task["ServiceID"]]
                if service["Spec"]["TaskTemplate"]["RestartPolicy"]["Condition"] == "any":
                    self.tasks_now.append(self._task(service["ID"], service["Spec"]))

    # -- what swarm does ---------------------------------------------------------------------------------------------

    def end_pulls(self):
        """End all pulls, and return whether there were any."""
        running = [(service, task) for service, task in self.pulls.values() if task["Status"]["State"] == "preparing"]
        for service, task in running:
            template = service["Spec"]["TaskTemplate"]
            why = self.pull_fails(template["Placement"]["Constraints"][0].partition("==")[2], template["ContainerSpec"]["Image"])
            task["Status"] = {"State": "rejected", "Err": why} if why else {"State": "failed", "ContainerStatus": {"ContainerID": "c"}}
        return bool(running)

    def schedule(self):
        """Give each pending task a node that meets its constraints and has the GPUs, and start it."""
        for task in self.tasks_now:
            if task["Status"]["State"] != "pending" or task["DesiredState"] != "running" or not self.places:
                continue
            free = next((node for node in self.nodes_now if self._fits(task, node)), None)
            if free:
                task.update(NodeID=free["ID"], GenericResources=discrete(_gpus(task), GPU))
                task["Status"] = {"State": "running", "Timestamp": stamp(self.clock)}
                self.began.append(task["ServiceID"])

    def _fits(self, task, node):
        constraints = task["Spec"]["Placement"].get("Constraints") or []
        total = node["Description"]["Resources"]["GenericResources"][0]["DiscreteResourceSpec"]["Value"]
        is_open = node["Status"]["State"] == "ready" and node["Spec"]["Availability"] == "active"
        return is_open and self.gpus_held(node["ID"]) + _gpus(task) <= total and all(one == "node.id==" + node["ID"] for one in constraints)

    def _write(self, service, spec, **status):
        former, service_id = service["Spec"], service["ID"]
        service = {key: value for key, value in service.items() if key != "UpdateStatus"}
        index = service["Version"]["Index"] + 1
        self.services_now[service_id] = {
            **service, "Version": {"Index": index}, "Spec": copy.deepcopy(spec), "PreviousSpec": former, "UpdatedAt": stamp(self.clock), **status
        }  # fmt: skip
        wanted = spec["Mode"]["Replicated"]["Replicas"]
        if wanted == 0:
            self.tasks_now = [task for task in self.tasks_now if task["ServiceID"] != service_id]
        elif former["Mode"]["Replicated"]["Replicas"] == 0 or former["TaskTemplate"] != spec["TaskTemplate"]:
            for task in self.tasks_of(service_id):
                task["DesiredState"] = "shutdown"
                if task["Status"]["State"] in ALLOCATED:
                    self.end_task(task, "shutdown", "", 137)
            self.tasks_now.append(self._task(service_id, spec))

    def _task(self, service_id, spec):
        return {
            "ID": "t%d" % len(self.began + self.calls + self.tasks_now), "ServiceID": service_id, "Slot": 1, "DesiredState": "running",
            "CreatedAt": stamp(self.clock) + str(len(self.tasks_now)), "Spec": copy.deepcopy(spec["TaskTemplate"]),
            "Status": {"State": "pending", "Timestamp": stamp(self.clock)},
        }  # fmt: skip

    def end_task(self, task, state="complete", error="", code=0):
        task["Status"] = {"State": state, "Timestamp": stamp(self.clock), "Err": error, "ContainerStatus": {"ContainerID": "c", "ExitCode": code}}

    # -- the API -----------------------------------------------------------------------------------------------------

    def cluster(self):
        found = {**cluster(self.labels), "Version": {"Index": self.version}}
        found["Spec"]["Orchestration"] = {"TaskHistoryRetentionLimit": self.history}
        return found, stamp(self.clock)

    def update_cluster(self, version, spec):
        if version != self.version:
            raise OutOfSequence("update out of sequence")
        self.version, self.labels = self.version + 1, dict(spec["Labels"])

    def each_service(self, label=""):
        if not label:
            yield from self.services()
            return
        self.calls.append("list services")
        yield from copy.deepcopy([one for one in self.services_now.values() if label in one["Spec"]["Labels"]])

    def services(self):
        self.calls.append("all services")
        return copy.deepcopy([*self.services_now.values(), *(service for service, _task in self.pulls.values())])

    def services_labelled(self, label):
        if label.startswith(PULL):
            return copy.deepcopy([service for service, _task in self.pulls.values()])
        return copy.deepcopy([one for one in self.services_now.values() if _has_label(one, label)])

    def service(self, service_id):
        self.calls.append("read service")
        if service_id not in self.services_now:
            raise NotFound("no such service")
        return copy.deepcopy(self.services_now[service_id])

    def tasks(self):
        self.calls.append("all tasks")
        yield from copy.deepcopy(self.tasks_now)

    def tasks_labelled(self, label):
        if label.startswith(PULL):
            return copy.deepcopy([task for _service, task in self.pulls.values()])
        self.calls.append("list tasks")
        ids = [service["ID"] for service in self.services_now.values() if _has_label(service, label)]
        return copy.deepcopy([one for one in self.tasks_now if one["ServiceID"] in ids])

    def tasks_of(self, service_id):
        return [task for task in self.tasks_now if task["ServiceID"] == service_id]

    def update_service(self, service_id, version, spec):
        if self.writes == self.killed_after:
            raise Killed
        self.before_update(service_id)
        service = self.services_now.get(service_id)
        if service is None:
            raise NotFound("no such service")
        if service["Version"]["Index"] != version:
            raise OutOfSequence("update out of sequence")
        if service_id in self.refuses:
            raise Refused("The manager refused to update the service: invalid mount.")
        self.writes += 1
        self._write(service, spec)

    def remove_service(self, service_id):
        self.pulls.pop(service_id, None)
        service = self.services_now.pop(service_id, None)
        self.removed += [service["Spec"]["Name"]] if service else []
        for task in self.tasks_of(service_id):
            task["DesiredState"] = "remove"

    # -- what the module swarm_job needs besides ---------------------------------------------------------------------

    @property
    def time(self):
        return stamp(self.clock)

    @property
    def spec(self):
        return self.cluster()[0]["Spec"]

    def nodes(self):
        return self.nodes_now

    def create_service(self, spec, login=None):
        if PULL in spec["Labels"]:
            service_id = "id" + spec["Name"]
            task = {"ID": "t" + service_id, "ServiceID": service_id, "DesiredState": "running", "Status": {"State": "preparing"}}
            self.pulls[service_id] = {"ID": service_id, "Spec": copy.deepcopy(spec)}, task
            return
        self.created.append(spec["Name"])
        self.short.append(spec["Name"].replace("-", ""))  # ids have no hyphens
        service = {"ID": "id" + self.short[-1], "CreatedAt": stamp(self.clock), "Spec": copy.deepcopy(spec)}
        networks = [network["Target"] for network in spec["TaskTemplate"].get("Networks") or []]
        self.submit(on_host(service) if networks == ["host"] else service)

    def task_log(self, task_id):
        yield struct.pack(">BxxxI", 1, 3) + b"log"

    # -- what tests read ---------------------------------------------------------------------------------------------

    def gpus_held(self, node_id):
        return sum(_gpus(task) for task in self.tasks_now if task.get("NodeID") == node_id and task["Status"]["State"] in ALLOCATED)

    def state(self, name):
        return self.services_now["id" + name]["Spec"]["Labels"].get(LABEL, "waiting")


def _has_label(service, label):
    key, equals, value = label.partition("=")
    found = service["Spec"]["Labels"].get(key)
    return found is not None and (not equals or found == value)


def _gpus(task):
    return task["Spec"]["Resources"]["Reservations"]["GenericResources"][0]["DiscreteResourceSpec"]["Value"]


class Driver:
    """Runs rounds of one manager. After a kill, a new process begins with an empty memory."""

    def __init__(self, swarm, node_id="m1"):
        self.swarm, self.said, self._node_id = swarm, [], node_id
        self.restart()

    def restart(self):
        self.admitter = Admitter(self.said.append, lambda: self.swarm.clock, self.swarm.new_id)

    def round(self, seconds=15, leads=True):
        """Run one round ``seconds`` after the former one. Return when the next one must begin. If nodes pull, end that and run another round."""
        wait = self._round(seconds, leads)
        return self._round(AT_MOST_S, leads) if self.swarm.end_pulls() else wait

    def _round(self, seconds, leads):
        wait = None
        self.swarm.clock += seconds
        self.swarm.node_id = self._node_id
        try:
            wait = self.admitter(self.swarm, self.swarm.nodes_now, leads)
        except Killed:
            self.swarm.killed_after = None
            self.restart()
        self.swarm.schedule()
        return wait

    def rounds(self, number, seconds=15):
        for _round in range(number):
            self.round(seconds)

    def waits(self, name):
        return next(one.problem for one in self.admitter.last.others if one.name == name)
