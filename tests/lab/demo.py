# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`python -m tests.lab demo`: a fleet, the real playbook, a GPU service on it, and who got which GPU."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.models.containers import Container

from . import inventory, nodes, picture
from .lab import CHECKOUT, Lab, LabError, output

FLEET = "demo"
SERVICE = "gpu-demo"
KIND = "NVIDIA-GPU"
WAIT = 90  # seconds, for a service to run and to have spoken


@dataclass(frozen=True)
class Task:
    name: str
    node: str
    assigned: str  # the UUID that swarm reserved
    seen: tuple[str, ...]  # the UUIDs that nvidia-smi lists inside
    devices: tuple[str, ...]  # the device nodes inside


@dataclass(frozen=True)
class Card:
    model: str
    device: str


def provision(lab: Lab, folder: Path) -> None:
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "fleet.gpu_swarm.provision"]
    print(f"$ {Path(command[0]).name} -i {folder.relative_to(CHECKOUT)}/inventory.yml {command[1]}", flush=True)
    environment = {**os.environ, **inventory.variables(lab, folder)}
    if subprocess.run([*command, "-i", str(folder / "inventory.yml")], cwd=CHECKOUT, env=environment, check=False).returncode:
        raise LabError("the playbook failed, see above")


def schedule(manager: Container, replicas: int) -> list[Task]:
    """Runs the service and waits until every task has told what it sees."""
    if nodes.run(manager, "docker", "service", "ls", "--quiet", "--filter", f"name={SERVICE}"):
        nodes.run(manager, "docker", "service", "rm", SERVICE)
    create = [
        "docker", "service", "create", "--name", SERVICE, "--generic-resource", f"{KIND}=1",
        "--replicas", str(replicas), "--no-resolve-image", "lab/cuda",
    ]  # fmt: skip
    print(f"$ {' '.join(create)}", flush=True)
    nodes.run(manager, *create[:3], "--detach", "--quiet", *create[3:])
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        found = running(manager)
        said = words(manager) if len(found) == replicas else {}
        if said and all("ready" in said.get(task["ID"], []) for task in found):
            hosts = hostnames(manager)
            return sorted((make(task, said[task["ID"]], hosts) for task in found), key=lambda task: natural(task.name))
        time.sleep(0.25)
    raise LabError(
        f"the service did not run {replicas} tasks within {WAIT} s:\n" + nodes.run(manager, "docker", "service", "ps", "--no-trunc", SERVICE)
    )


def running(manager: Container) -> list[dict[str, Any]]:
    ids = nodes.run(manager, "docker", "service", "ps", "--quiet", "--no-trunc", SERVICE).split()
    tasks = json.loads(nodes.run(manager, "docker", "inspect", "--type", "task", *ids)) if ids else []
    return [task for task in tasks if task["Status"]["State"] == "running"]


def hostnames(manager: Container) -> dict[str, str]:
    ids = nodes.run(manager, "docker", "node", "ls", "--quiet").split()
    return {item["ID"]: item["Description"]["Hostname"] for item in json.loads(nodes.run(manager, "docker", "node", "inspect", *ids))}


def words(manager: Container) -> dict[str, list[str]]:
    """What each task has printed, by its id."""
    said: dict[str, list[str]] = {}
    for line in nodes.run(manager, "docker", "service", "logs", "--no-trunc", SERVICE).splitlines():
        match = re.match(rf"{SERVICE}\.\d+\.(\w+)@\S+\s+\| ?(.*)", line)
        if match:
            said.setdefault(match[1], []).append(match[2])
    return said


def make(task: dict[str, Any], lines: list[str], hosts: dict[str, str]) -> Task:
    reserved = [item["NamedResourceSpec"] for item in task.get("GenericResources") or [] if "NamedResourceSpec" in item]
    devices = next((line.split()[1:] for line in lines if line.startswith("devices:")), [])
    return Task(
        name=f"{SERVICE}.{task['Slot']}",
        node=hosts[task["NodeID"]],
        assigned=",".join(item["Value"] for item in reserved if item["Kind"] == KIND),
        seen=tuple(match[1] for line in lines if (match := re.fullmatch(r"GPU \d+: .* \(UUID: (\S+)\)", line))),
        devices=tuple(devices),
    )


def natural(name: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", name)]


def cards(fleet: str, lab: Lab) -> dict[tuple[str, str], Card]:
    """The GPUs of the fleet by node and UUID, as their own nodes list them."""
    found = {}
    for container in nodes.find(lab, fleet):
        if container.exec_run(["test", "-e", "/usr/bin/nvidia-smi"]).exit_code == 0:
            for index, model, uuid in re.findall(r"GPU (\d+): (.+) \(UUID: (\S+)\)", nodes.run(container, "nvidia-smi", "-L")):
                found[container.labels[nodes.NODE_LABEL], uuid] = Card(model, f"/dev/nvidia{index}")
    return found


def faults(tasks: list[Task], known: dict[tuple[str, str], Card]) -> list[str]:
    """What is not as it should be: each task sees the one GPU that it was given, and no GPU was given twice."""
    found = []
    for task in tasks:
        card = known.get((task.node, task.assigned))
        if card is None:
            found.append(f"{task.name} was given {task.assigned or 'nothing'}, which is no GPU of {task.node}")
        elif task.seen != (task.assigned,) or task.devices != (card.device,):
            found.append(f"{task.name} was given {task.assigned} ({card.device}) and sees {task.seen} {task.devices}")
    given = [task.assigned for task in tasks]
    found += [f"{uuid} was given to more than one task" for uuid in sorted(set(given)) if given.count(uuid) > 1]
    return found


def show(tasks: list[Task], known: dict[tuple[str, str], Card]) -> None:
    rows = [("TASK", "NODE", "MODEL", "GPU GIVEN BY SWARM", "DEVICE SEEN IN THE TASK")]
    for task in tasks:
        card = known.get((task.node, task.assigned), Card("?", "?"))
        rows.append((task.name, task.node, card.model, task.assigned, " ".join(task.devices)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def paint(tasks: list[Task], known: dict[tuple[str, str], Card], path: Path) -> None:
    """The same as a picture, every GPU of the fleet in it."""
    held = {(task.node, task.assigned): task.name for task in tasks}
    gpus = [picture.Gpu(node, card.model, uuid, held.get((node, uuid))) for (node, uuid), card in known.items()]
    command = f"docker service create --name {SERVICE} --generic-resource {KIND}=1 --replicas {len(tasks)} …"
    path.write_text(picture.draw(command, sorted(gpus, key=lambda gpu: natural(gpu.node))), encoding="utf-8")


def run(lab: Lab, options: argparse.Namespace) -> int:
    from .cli import up  # the command line knows us; only here do we need it

    if not inventory.is_up(lab, FLEET):
        up(lab, argparse.Namespace(file=None, preset=FLEET, name=FLEET, set=[], keep=False))
    provision(lab, output(FLEET))
    manager = nodes.get(lab, nodes.container_name(FLEET, "m1"))
    tasks = schedule(manager, options.replicas)
    known = cards(FLEET, lab)
    print()
    show(tasks, known)
    drawn = output(FLEET) / "gpus.svg"
    paint(tasks, known, drawn)
    wrong = faults(tasks, known)
    for fault in wrong:
        print(f"WRONG: {fault}")
    if not wrong:
        print(f"\nAs a picture: {drawn.relative_to(CHECKOUT)}")
        print(f"{len(tasks)} tasks on {len({task.node for task in tasks})} nodes: each sees the GPU it was given and no other.")
    return 1 if wrong else 0


def add_to(commands: Any) -> None:
    add = commands.add_parser("demo", help="a fleet, the playbook, a GPU service, and who got which GPU")
    add.add_argument("--replicas", type=int, default=10, help="more than one node can hold (default: 10)")
    add.set_defaults(run=run)
