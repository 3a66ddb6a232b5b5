# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A swarm as its manager's API shows it, and the dockerd of each node: plain data, changed by Docker's rules.

A write needs the version that was read. A drained node loses its tasks to others. A dockerd reads daemon.json when it starts. The swarm records how
often each node was out of service, and how many nodes were out of service at a time.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.unit.support.dockerd_lab import document, generic_resources

from .. import swarm as specimens

API_VERSION = "1.45"
SERVICE = "web"
UPDATED_AT = "2026-11-21T02:10:00.000000000Z"
Answer = tuple[int, Any]


class Node:
    """One host: its files in a folder, and the manager's data about it."""

    def __init__(self, number: int, folder: Path) -> None:
        (self.entry,) = specimens.recorded("nodes")
        self.folder = folder
        self.restarts = 0
        self.id = self.entry["ID"] = specimens.identity("node", folder.name)
        self.is_manager = number == 0
        self.entry["Spec"]["Labels"] = {}
        self.entry["Status"]["Addr"] = f"10.1.{number // 250}.{number % 250 + 1}"
        self.entry["Description"]["Hostname"] = folder.name
        if not self.is_manager:
            self.entry["Spec"]["Role"] = "worker"
            del self.entry["ManagerStatus"]
        self.start()

    def start(self) -> None:
        """Start dockerd with the current daemon.json."""
        self.config = document((self.folder / "daemon.json").read_bytes())
        self.entry["Description"]["Resources"]["GenericResources"] = generic_resources(self.config.get("node-generic-resources", []))

    def was_restarted(self) -> bool:
        """Return whether dockerd was restarted since the last call. The simulated systemctl writes a byte for each restart."""
        before, self.restarts = self.restarts, (self.folder / "restarts").stat().st_size
        return self.restarts != before


class Swarm:
    """A simulated swarm. The first node is the manager. Every second one of the other nodes runs a task of a service that swarm can move."""

    def __init__(self, folders: list[Path]) -> None:
        self.nodes = {node.id: node for node in (Node(number, folder) for number, folder in enumerate(folders))}
        self.index = 1000  # above the versions of the recorded objects
        self.cluster: dict[str, Any] = {"ID": specimens.identity("cluster"), "Version": {"Index": 10}, "UpdatedAt": UPDATED_AT}
        self.cluster["Spec"] = {"Name": "default", "Labels": {}}
        self.service = specimens.recorded_service("big")
        self.service["Spec"]["Name"] = SERVICE
        self.service["Spec"]["TaskTemplate"]["Resources"] = {}
        self.tasks: list[dict[str, Any]] = []
        for node in list(self.nodes.values())[1::2]:
            self._run_task(len(self.tasks) + 1, node)
        self.service["Spec"]["Mode"]["Replicated"]["Replicas"] = len(self.tasks)
        self.calls: Counter[str] = Counter()  # requests about the swarm, by the first word of their path
        self.unknown: list[str] = []  # requests that are not simulated
        self.stale = 0  # writes with an outdated version
        self.busy = {node.id: bool(self._running_on(node)) for node in self.nodes.values()}
        self.paused: Counter[str] = Counter()  # how often each node went out of service
        self.most_out = {True: 0, False: 0}  # the most nodes at a time: nodes that were busy at first, and idle nodes

    # -- requests --------------------------------------------------------------------------------------------------------

    def answer(self, node: Node, method: str, path: str, query: str, body: Any) -> Answer:
        """Return (status, data) for a request to the socket of that node."""
        for each in self.nodes.values():
            if each.was_restarted():
                each.start()
                self._touch(each.entry)
        route = f"{method} {path}"
        if route in ("GET /version", "GET /_ping"):
            return 200, {"ApiVersion": API_VERSION, "MinAPIVersion": "1.24", "Version": "26.1.5"}
        if route == "GET /info":
            return 200, self._info(node)
        if route == "GET /containers/json":
            return 200, [_container(task) for task in self._running_on(node)]
        if node.is_manager:
            return self._manage(route, {key: values[0] for key, values in parse_qs(query).items()}, body)
        return self._unknown(route)

    def _manage(self, route: str, query: dict[str, str], body: Any) -> Answer:
        lists = {"GET /nodes": [node.entry for node in self.nodes.values()], "GET /services": [self.service], "GET /tasks": self.tasks}
        if route in lists and not query:
            return 200, lists[route]
        if route == "GET /nodes" and set(json.loads(query["filters"])) == {"role"}:
            role = next(iter(json.loads(query["filters"])["role"]))
            return 200, [entry for entry in lists[route] if entry["Spec"]["Role"] == role]
        if route == "POST /swarm/update":
            return self._write(self.cluster, query, body)
        found = re.fullmatch(r"(GET|POST) /nodes/(\w+)(/update)?", route)
        if not found or found[2] not in self.nodes:
            return self._unknown(route)
        node = self.nodes[found[2]]
        return self._write(node.entry, query, body, node) if found[3] else (200, node.entry)

    def _unknown(self, route: str) -> Answer:
        self.unknown.append(route)
        return 404, {"message": "page not found"}

    def _write(self, entry: dict[str, Any], query: dict[str, str], body: Any, node: Node | None = None) -> Answer:
        if int(query["version"]) != entry["Version"]["Index"]:
            self.stale += 1
            return 500, {"message": "rpc error: code = Unknown desc = update out of sequence"}
        before, entry["Spec"] = entry["Spec"], body
        self._touch(entry)
        if node:
            self._note(node, before["Availability"])
        return 200, ""

    def _touch(self, entry: dict[str, Any]) -> None:
        self.index += 1
        entry["Version"] = {"Index": self.index}

    # -- effects of a write --------------------------------------------------------------------------------------------------

    def _note(self, node: Node, before: str) -> None:
        if before == "active" and node.entry["Spec"]["Availability"] != "active":
            self.paused[node.id] += 1
        out = Counter(self.busy[each.id] for each in self.nodes.values() if each.entry["Spec"]["Availability"] != "active")
        self.most_out = {busy: max(most, out[busy]) for busy, most in self.most_out.items()}
        if node.entry["Spec"]["Availability"] == "drain":
            self._move_tasks(node)

    def _move_tasks(self, node: Node) -> None:
        for task in self._running_on(node):
            task["DesiredState"] = task["Status"]["State"] = "shutdown"
            self._touch(task)
            active = [each for each in self.nodes.values() if each.entry["Spec"]["Availability"] == "active"]
            self._run_task(task["Slot"], min(active, key=lambda each: len(self._running_on(each))))

    def _run_task(self, slot: int, node: Node) -> None:
        task = specimens.recorded_task("train")
        task.pop("GenericResources", None)
        task["Spec"] = dict(self.service["Spec"]["TaskTemplate"], Networks=None)
        self.index += 1
        number = len(self.tasks)
        task.update(ID=specimens.identity("task", number), ServiceID=self.service["ID"], Slot=slot, NodeID=node.id, Version={"Index": self.index})
        task["Status"]["ContainerStatus"]["ContainerID"] = specimens.identity("container", number) * 2
        self.tasks.append(task)

    def _running_on(self, node: Node) -> list[dict[str, Any]]:
        return [task for task in self.tasks if task["NodeID"] == node.id and task["DesiredState"] == "running"]

    def _info(self, node: Node) -> dict[str, Any]:
        manager = next(iter(self.nodes.values()))
        member = {
            "NodeID": node.id,
            "NodeAddr": node.entry["Status"]["Addr"],
            "LocalNodeState": "active",
            "ControlAvailable": node.is_manager,
            "Error": "",
            "RemoteManagers": [{"NodeID": manager.id, "Addr": manager.entry["Status"]["Addr"] + ":2377"}],
        }
        return {
            "ID": node.id,
            "ServerVersion": node.entry["Description"]["Engine"]["EngineVersion"],
            "DockerRootDir": "/var/lib/docker",
            "DefaultRuntime": node.config.get("default-runtime", "runc"),
            "Runtimes": {"runc": {"path": "runc"}, **node.config.get("runtimes", {})},
            "GenericResources": node.entry["Description"]["Resources"]["GenericResources"],
            "Labels": node.config.get("labels", []),
            "LiveRestoreEnabled": False,
            "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"],
            "SystemTime": time.strftime("%Y-%m-%dT%H:%M:%S.000000000Z", time.gmtime()),
            "Swarm": {**member, **({"Cluster": self.cluster} if node.is_manager else {})},
        }


def _container(task: dict[str, Any]) -> dict[str, Any]:
    name = f"{SERVICE}.{task['Slot']}.{task['ID']}"
    labels = {"com.docker.swarm.task.id": task["ID"], "com.docker.swarm.service.name": SERVICE}
    return {
        "Id": task["Status"]["ContainerStatus"]["ContainerID"],
        "Names": [f"/{name}"],
        "Image": "web:1",
        "Created": int(time.time()) - 3600,
        "Labels": labels,
        "NetworkSettings": {"Networks": {}},
    }


def body_of(data: Any) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode() if data != "" else b""
