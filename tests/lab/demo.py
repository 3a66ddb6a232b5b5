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
WAIT = 90  # seconds until a service runs and has printed its GPU
TRY = (
    ("ansible-playbook fleet.gpu_swarm.status", "the nodes, who has which GPU, and why one task is pending"),
    ("ansible-playbook fleet.gpu_swarm.provision", "once more: nothing is left to do"),
    ("ansible-playbook fleet.gpu_swarm.status -e service=gpu-demo", "what would make room for that task"),
)


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
    sick: str = ""  # why it cannot be used


def print_steps_only(folder: Path) -> None:
    """Make Ansible print a line per step in this folder, as in the folder that users begin with (docs/examples/fleet)."""
    settings = folder / "ansible.cfg"
    written = settings.read_text(encoding="utf-8")
    if "stdout_callback" not in written:
        settings.write_text(written.replace("[defaults]\n", "[defaults]\nstdout_callback = fleet.gpu_swarm.progress\n"), encoding="utf-8")


def provision(lab: Lab, folder: Path) -> None:
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "fleet.gpu_swarm.provision"]
    print(f"$ {Path(command[0]).name} -i {folder.relative_to(CHECKOUT)}/inventory.yml {command[1]}", flush=True)
    environment = {**os.environ, **inventory.variables(lab, folder)}
    if subprocess.run([*command, "-i", str(folder / "inventory.yml")], cwd=CHECKOUT, env=environment, check=False).returncode:
        raise LabError("the playbook failed, see above")


def schedule(manager: Container, replicas: int, room: int) -> tuple[list[Task], list[str]]:
    """Run the service and wait until each task with a GPU has printed what it sees. Return these tasks, and the pending ones.

    ``room`` is the number of GPUs that the fleet advertises.
    """
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
        tasks = listed(manager)
        found, waiting = ([task for task in tasks if task["Status"]["State"] == state] for state in ("running", "pending"))
        said = words(manager) if len(found) == min(replicas, room) and len(found) + len(waiting) == replicas else {}
        if said and all("ready" in said.get(task["ID"], []) for task in found):
            hosts = hostnames(manager)
            done = sorted((make(task, said[task["ID"]], hosts) for task in found), key=lambda task: natural(task.name))
            return done, sorted((name_of(task) for task in waiting), key=natural)
        time.sleep(0.25)
    raise LabError(
        f"the service did not run {min(replicas, room)} tasks within {WAIT} s:\n"
        + nodes.run(manager, "docker", "service", "ps", "--no-trunc", SERVICE)
    )


def listed(manager: Container) -> list[dict[str, Any]]:
    ids = nodes.run(manager, "docker", "service", "ps", "--quiet", "--no-trunc", SERVICE).split()
    return json.loads(nodes.run(manager, "docker", "inspect", "--type", "task", *ids)) if ids else []


def hostnames(manager: Container) -> dict[str, str]:
    ids = nodes.run(manager, "docker", "node", "ls", "--quiet").split()
    return {item["ID"]: item["Description"]["Hostname"] for item in json.loads(nodes.run(manager, "docker", "node", "inspect", *ids))}


def words(manager: Container) -> dict[str, list[str]]:
    """Return the output of each task, by its id."""
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
        name=name_of(task),
        node=hosts[task["NodeID"]],
        assigned=",".join(item["Value"] for item in reserved if item["Kind"] == KIND),
        seen=tuple(match[1] for line in lines if (match := re.fullmatch(r"GPU \d+: .* \(UUID: (\S+)\)", line))),
        devices=tuple(devices),
    )


def name_of(task: dict[str, Any]) -> str:
    return f"{SERVICE}.{task['Slot']}"


def natural(name: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", name)]


def cards(fleet: str, lab: Lab) -> dict[tuple[str, str], Card]:
    """Return the GPUs of the fleet by node and UUID, as the nodes themselves list them."""
    found = {}
    for container in nodes.find(lab, fleet):
        if container.exec_run(["test", "-e", "/usr/bin/nvidia-smi"]).exit_code == 0:
            # nvidia-smi ends with an error if a card is lost.
            node, said = container.labels[nodes.NODE_LABEL], container.exec_run(["nvidia-smi", "-L"]).output.decode()
            for index, model, uuid in re.findall(r"GPU (\d+): (.+) \(UUID: (\S+)\)", said):
                found[node, uuid] = Card(model.replace(" ", "-"), f"/dev/nvidia{index}")
            # A lost card has no UUID any more.
            for index, fault in re.findall(r"device handle for GPU(\d+): (.+)", said):
                found[node, f"GPU {index}"] = Card("?", f"/dev/nvidia{index}", fault)
    return found


def faults(tasks: list[Task], known: dict[tuple[str, str], Card]) -> list[str]:
    """Return what is wrong. Each task must see exactly the GPU that swarm allocated, and no GPU may be allocated twice."""
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


def show(tasks: list[Task], known: dict[tuple[str, str], Card], pending: list[str]) -> None:
    rows = [("TASK", "NODE", "MODEL", "GPU GIVEN BY SWARM", "DEVICE SEEN IN THE TASK")]
    for task in tasks:
        card = known.get((task.node, task.assigned), Card("?", "?"))
        rows.append((task.name, task.node, card.model, task.assigned, " ".join(task.devices)))
    rows += [(name, "–", "–", "pending: no GPU is free", "–") for name in pending]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def paint(tasks: list[Task], known: dict[tuple[str, str], Card], pending: list[str], path: Path) -> None:
    """Draw the result as a picture with every GPU of the fleet."""
    allocated = {(task.node, task.assigned): task.name for task in tasks}
    order = sorted(known.items(), key=lambda item: (natural(item[0][0]), natural(item[1].device)))
    gpus = [picture.Gpu(node, card.model, uuid, allocated.get((node, uuid)), card.sick) for (node, uuid), card in order]
    command = f"docker service create --name {SERVICE} --generic-resource {KIND}=1 --replicas {len(tasks) + len(pending)} …"
    path.write_text(picture.draw(command, gpus, pending), encoding="utf-8")


def run(lab: Lab, options: argparse.Namespace) -> int:
    from .cli import up  # imported here, because the command line imports this file

    if not inventory.is_up(lab, FLEET):
        up(lab, argparse.Namespace(file=None, preset=FLEET, name=FLEET, set=[], keep=False))
    print_steps_only(output(FLEET))
    provision(lab, output(FLEET))
    manager = nodes.get(lab, nodes.container_name(FLEET, "m1"))
    known = cards(FLEET, lab)
    tasks, pending = schedule(manager, options.replicas, sum(not card.sick for card in known.values()))
    print()
    show(tasks, known, pending)
    drawn = output(FLEET) / "gpus.svg"
    paint(tasks, known, pending, drawn)
    wrong = faults(tasks, known)
    for fault in wrong:
        print(f"WRONG: {fault}")
    if not wrong:
        print(f"\nAs a picture: {drawn.relative_to(CHECKOUT)}")
        print(f"{len(tasks)} tasks on {len({task.node for task in tasks})} nodes: each sees the GPU it was given and no other.")
        print(f"\nNow try:\n  . {output(FLEET).relative_to(CHECKOUT)}/env")
        for command, what in TRY:
            print(f"  {command:{max(len(one) for one, _what in TRY)}}  # {what}")
    return 1 if wrong else 0


def add_to(commands: Any) -> None:
    add = commands.add_parser("demo", help="a fleet, the playbook, a GPU service, and who got which GPU")
    add.add_argument("--replicas", type=int, default=13, help="one more than the fleet has room for (default: 13)")
    add.set_defaults(run=run)
