# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Generates answers of a big swarm's manager to /nodes, /services and /tasks, from recorded real ones.

The recorded objects (tests/unit/data/swarm) keep all their fields. Only names, ids, values and states are replaced.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.lab.lab import CHECKOUT

DATA = CHECKOUT / "tests" / "unit" / "data" / "swarm"
GPUS = 8
# How many of a hundred tasks have a GPU, are of global services, see GPUs without a reservation, have failed, have finished, or wait.
MIX = (("train", 35), ("agent", 10), ("peek", 5), ("failed", 35), ("sweep", 14), ("big", 1))
REPLICAS = 40  # tasks of a service


def write(folder: Path, nodes: int, tasks: int) -> None:
    """Write nodes.json, services.json and tasks.json as bodies of the API."""
    (folder / "nodes.json").write_text(_body(_nodes(nodes)))
    with open(folder / "tasks.json", "w") as body:
        made: dict[str, str] = {}
        body.write("[")
        for number, (specimen, task) in enumerate(_tasks(nodes, tasks)):
            made[task["ServiceID"]] = specimen
            body.write(("," if number else "") + json.dumps(task, separators=(",", ":")))
        body.write("]\n")
    (folder / "services.json").write_text(_body([_service(specimen, service_id) for service_id, specimen in made.items()]))


def _body(listed: list[dict[str, Any]]) -> str:
    return json.dumps(listed, separators=(",", ":")) + "\n"


def recorded(name: str) -> list[dict[str, Any]]:
    return json.loads((DATA / f"{name}.json").read_text())


def recorded_service(name: str) -> dict[str, Any]:
    return next(service for service in recorded("services") if service["Spec"]["Name"] == name)


def recorded_task(name: str) -> dict[str, Any]:
    """Return a running task of the service with that name."""
    service = recorded_service(name)["ID"]
    return next(task for task in recorded("tasks") if task["ServiceID"] == service and task["Status"]["State"] == "running")


def identity(*parts: object) -> str:
    """Return an id with the length of swarm's ids."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:25]


def _gpu(node: int, index: int) -> str:
    digits = hashlib.sha256(f"{node}/{index}".encode()).hexdigest()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


def _named(value: str) -> dict[str, Any]:
    return {"NamedResourceSpec": {"Kind": "NVIDIA-GPU", "Value": value}}


def _nodes(count: int) -> list[dict[str, Any]]:
    made = []
    for number in range(count):
        (node,) = recorded("nodes")
        node["ID"] = identity("node", number)
        node["Description"]["Hostname"] = f"gpu-{number:04}"
        node["Description"]["Resources"]["GenericResources"] = [_named(_gpu(number, index)) for index in range(GPUS)]
        node["Status"]["Addr"] = f"10.1.{number // 250}.{number % 250 + 1}"
        if number >= 3:
            node["Spec"]["Role"] = "worker"
            del node["ManagerStatus"]
        else:
            node["ManagerStatus"]["Leader"] = number == 0
        made.append(node)
    return made


def _service(specimen: str, service_id: str) -> dict[str, Any]:
    service = recorded_service(specimen)
    service["Spec"]["Name"] = f"{specimen}-{service_id[:8]}"
    service["ID"] = service_id
    return service


def _tasks(nodes: int, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    texts = _texts()
    order = [kind for kind, share in MIX for _each in range(share)]
    made: Counter[str] = Counter()
    for number in range(count):
        # The tasks are unsorted, as in a real swarm's answer. Tasks of each kind are spread over all nodes.
        kind = order[number * 37 % len(order)]
        round_, node = divmod(made[kind], nodes)
        made[kind] += 1
        specimen, text = texts[kind]
        task = json.loads(text)
        task["ID"] = identity("task", number)
        task["ServiceID"] = identity("service", specimen, number // len(order) // REPLICAS if kind != "agent" else 0)
        if task.get("Slot"):
            task["Slot"] = number % REPLICAS + 1
        if "NodeID" in task:
            task["NodeID"] = identity("node", node)
            task["Status"]["ContainerStatus"]["ContainerID"] = identity("container", number) * 2
        if "GenericResources" in task:
            task["GenericResources"] = [_named(_gpu(node, round_ % GPUS))]
        yield specimen, task


def _texts() -> dict[str, tuple[str, str]]:
    """Return the recorded task of each kind. The failed tasks belong to the largest service, as is typical."""
    services = {service["ID"]: service["Spec"]["Name"] for service in recorded("services")}
    of_service = {services[task["ServiceID"]]: task for task in recorded("tasks") if task["ServiceID"] in services}
    texts = {kind: (kind, json.dumps(of_service[kind])) for kind, _share in MIX if kind != "failed"}
    ended = next(task for task in recorded("tasks") if task["Status"]["State"] == "failed")
    failed = {**of_service["train"], "Status": ended["Status"], "DesiredState": ended["DesiredState"]}
    return {**texts, "failed": ("train", json.dumps(failed))}
