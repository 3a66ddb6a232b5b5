# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`python -m tests.lab demo`: boots a fleet, runs the real playbook, starts three GPU services, and shows which task got which GPU."""

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
KIND = "NVIDIA-GPU"
WAIT = 90  # seconds until a service runs and has printed its GPUs
TRY = (
    ("ansible-playbook fleet.gpu_swarm.status", "the nodes, who has which GPU, and why one task is pending"),
    ("ansible-playbook fleet.gpu_swarm.provision", "once more: nothing is left to do"),
    ("ansible-playbook fleet.gpu_swarm.status -e service=train", "what would make room for that task"),
)


@dataclass(frozen=True)
class Service:
    name: str
    owner: str
    gpus: int  # for each task
    replicas: int
    fit: int  # how many of its tasks find free GPUs
    options: tuple[str, ...] = ()

    def command(self, *more: str) -> list[str]:
        """Return the command that creates the service. ``more`` are options that the printed command leaves out."""
        wants = ["--name", self.name, *more, "--generic-resource", f"{KIND}={self.gpus}", "--replicas", str(self.replicas)]
        return ["docker", "service", "create", *wants]


# The services are created in this order. One task of train finds no GPUs, because only g1 has such cards, and g1 has only seven. One card of the
# fleet stays free.
SERVICES = (
    Service("train", "alice", gpus=4, replicas=2, fit=1, options=("--constraint", "node.labels.gpu.model==NVIDIA-H100-80GB-HBM3")),
    Service("chat", "bob", gpus=1, replicas=4, fit=4),
    Service("notebook", "carol", gpus=1, replicas=3, fit=3),
)


@dataclass(frozen=True)
class Task:
    name: str
    node: str
    assigned: tuple[str, ...]  # the UUIDs of the GPUs that swarm allocated
    seen: tuple[str, ...]  # the UUIDs that nvidia-smi lists inside
    devices: tuple[str, ...]  # the device nodes inside


@dataclass(frozen=True)
class Card:
    model: str
    device: str
    sick: str = ""  # why the GPU cannot be used


def print_steps_only(folder: Path) -> None:
    """Make Ansible print one line for each step in this folder, as the users' example folder does (docs/examples/fleet)."""
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


def remove_services(manager: Container) -> None:
    """Remove all services of an earlier demo before the first new one is created, because they hold GPUs that the new services need."""
    there = nodes.run(manager, "docker", "service", "ls", "--format", "{{.Name}}").split()
    ours = [service.name for service in SERVICES if service.name in there]
    if ours:
        nodes.run(manager, "docker", "service", "rm", *ours)


def schedule(manager: Container, service: Service) -> list[Task]:
    """Create the service, and wait until each task that finds GPUs has printed the GPUs that it sees. Return these tasks."""
    print(f"$ {' '.join(service.command())} …", flush=True)
    owner = ("--label", f"gpu-swarm.owner={service.owner}")
    nodes.run(manager, *service.command("--detach", "--quiet", "--no-resolve-image", *owner, *service.options), "lab/cuda")
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        tasks = listed(manager, service)
        running, pending = ([task for task in tasks if task["Status"]["State"] == state] for state in ("running", "pending"))
        said = words(manager, service) if len(running) == service.fit and len(running) + len(pending) == service.replicas else {}
        if said and all("ready" in said.get(task["ID"], []) for task in running):
            hosts = hostnames(manager)
            return sorted((make(service, task, said[task["ID"]], hosts) for task in running), key=lambda task: natural(task.name))
        time.sleep(0.25)
    raise LabError(
        f"the service {service.name} did not run {service.fit} tasks within {WAIT} s:\n"
        + nodes.run(manager, "docker", "service", "ps", "--no-trunc", service.name)
    )


def listed(manager: Container, service: Service) -> list[dict[str, Any]]:
    ids = nodes.run(manager, "docker", "service", "ps", "--quiet", "--no-trunc", service.name).split()
    return json.loads(read(manager, "docker", "inspect", "--type", "task", *ids)) if ids else []


def hostnames(manager: Container) -> dict[str, str]:
    ids = read(manager, "docker", "node", "ls", "--quiet").split()
    return {item["ID"]: item["Description"]["Hostname"] for item in json.loads(read(manager, "docker", "node", "inspect", *ids))}


def read(manager: Container, *command: str) -> str:
    """Return the output of a command that always prints something. On a busy machine Docker sometimes loses the output of an exec, so try again."""
    for _try in range(5):
        said = nodes.run(manager, *command)
        if said:
            return said
    raise LabError(f"{' '.join(command)} printed nothing, five times")


def words(manager: Container, service: Service) -> dict[str, list[str]]:
    """Return the output of each task, by its id."""
    said: dict[str, list[str]] = {}
    for line in nodes.run(manager, "docker", "service", "logs", "--no-trunc", service.name).splitlines():
        match = re.match(rf"{service.name}\.\d+\.(\w+)@\S+\s+\| ?(.*)", line)
        if match:
            said.setdefault(match[1], []).append(match[2])
    return said


def make(service: Service, task: dict[str, Any], lines: list[str], hosts: dict[str, str]) -> Task:
    reserved = [item["NamedResourceSpec"] for item in task.get("GenericResources") or [] if "NamedResourceSpec" in item]
    devices = next((line.split()[1:] for line in lines if line.startswith("devices:")), [])
    return Task(
        name=f"{service.name}.{task['Slot']}",
        node=hosts[task["NodeID"]],
        assigned=tuple(item["Value"] for item in reserved if item["Kind"] == KIND),
        seen=tuple(match[1] for line in lines if (match := re.fullmatch(r"GPU \d+: .* \(UUID: (\S+)\)", line))),
        devices=tuple(devices),
    )


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
    """Return all errors. Each task must see exactly the GPUs that swarm allocated, and no GPU may be allocated twice."""
    found = []
    for task in tasks:
        cards = [known.get((task.node, uuid)) for uuid in task.assigned]
        devices = sorted(card.device for card in cards if card)
        if not cards or None in cards:
            found.append(f"{task.name} was given {' '.join(task.assigned) or 'nothing'}, which is no GPU of {task.node}")
        elif sorted(task.seen) != sorted(task.assigned) or sorted(task.devices) != devices:
            found.append(f"{task.name} was given {task.assigned} ({' '.join(devices)}) and sees {task.seen} {task.devices}")
    given = [uuid for task in tasks for uuid in task.assigned]
    found += [f"{uuid} was given to more than one task" for uuid in sorted(set(given)) if given.count(uuid) > 1]
    return found


def read_status(lab: Lab, folder: Path) -> dict[str, Any]:
    """Return the JSON that the playbook ``status`` prints."""
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(folder / "inventory.yml"), "fleet.gpu_swarm.status"]
    environment = {**os.environ, **inventory.variables(lab, folder)}
    done = subprocess.run([*command, "-e", "output=json"], cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("{")), None)
    if line is None:
        raise LabError(f"the playbook status failed:\n{done.stdout}{done.stderr}")
    return json.loads(line)


def show(tasks: list[Task], known: dict[tuple[str, str], Card], pending: list[tuple[str, str]]) -> None:
    rows = [("TASK", "NODE", "MODEL", "GPU GIVEN BY SWARM", "DEVICE SEEN IN THE TASK")]
    for task in tasks:
        for place, uuid in enumerate(task.assigned):
            card = known.get((task.node, uuid), Card("?", "?"))
            first = (task.name, task.node, card.model) if place == 0 else ("", "", "")
            rows.append((*first, uuid, card.device if card.device in task.devices else "–"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for service, reason in pending:
        print(f"pending: one task of {service} {reason}")


def paint(found: dict[str, Any], known: dict[tuple[str, str], Card], path: Path) -> None:
    """Draw the output of ``status`` as a picture with every GPU of the fleet."""
    holders = {(row["node"], row["resource"]): row for row in found["holders"]}
    order = sorted(known.items(), key=lambda item: (natural(item[0][0]), natural(item[1].device)))
    gpus = []
    for (node, uuid), card in order:
        holder = holders.get((node, uuid), {})
        gpus.append(picture.Gpu(node, card.model, holder.get("service"), holder.get("task"), card.sick))
    services = [picture.Service(one.name, one.owner, f"{' '.join(one.command())} …") for one in SERVICES]
    path.write_text(picture.draw(services, gpus, pending_in(found)), encoding="utf-8")


def pending_in(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return each service with a pending task, and the reason, as ``status`` printed them."""
    return [(row["service"], row["text"]) for row in found["pending"]]


def run(lab: Lab, _options: argparse.Namespace) -> int:
    from .cli import up  # imported here, because the command line imports this file

    if not inventory.is_up(lab, FLEET):
        up(lab, argparse.Namespace(file=None, preset=FLEET, name=FLEET, set=[], keep=False))
    print_steps_only(output(FLEET))
    provision(lab, output(FLEET))
    manager = nodes.get(lab, nodes.container_name(FLEET, "m1"))
    known = cards(FLEET, lab)
    remove_services(manager)
    tasks = [task for service in SERVICES for task in schedule(manager, service)]
    found = read_status(lab, output(FLEET))
    print()
    show(tasks, known, pending_in(found))
    drawn = output(FLEET) / "gpus.svg"
    paint(found, known, drawn)
    wrong = faults(tasks, known)
    for fault in wrong:
        print(f"WRONG: {fault}")
    if not wrong:
        print(f"\nAs a picture: {drawn.relative_to(CHECKOUT)}")
        print(f"{len(tasks)} tasks on {len({task.node for task in tasks})} nodes: each sees the GPUs it was given and no other.")
        print(f"\nNow try:\n  . {output(FLEET).relative_to(CHECKOUT)}/env")
        for command, what in TRY:
            print(f"  {command:{max(len(one) for one, _what in TRY)}}  # {what}")
    return 1 if wrong else 0


def add_to(commands: Any) -> None:
    commands.add_parser("demo", help="a fleet, the playbook, three GPU services, and who got which GPU").set_defaults(run=run)
