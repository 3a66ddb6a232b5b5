# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures a rolling change of many nodes: ``provision`` changes all of them, with a restart of each dockerd, against a simulated manager.

The playbook, its plan, its work on the manager and the modules on nodes are real (see simulated/). The benchmark measures only the controller, so it
subtracts the time of the hosts on this machine. It compares the cost per node of each step with the smallest run. A ratio of 1 means that the step
grows linearly.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.lab.lab import CHECKOUT

from .fleets import LOGS, BenchError, settings_apart, tail
from .memory import Used, used_by
from .runs import PLAYBOOKS, RECAP
from .simulated import hosts
from .simulated.api import Api
from .simulated.docker import Swarm
from .table import Row, row, table

SIZES = (50, 100, 200)
FORKS = 25  # docs/operate/large-fleets.md recommends this for two cores
CALLBACK = Path(__file__).resolve().parent / "simulated" / "callback"
# Steps, by the names of their plays. The plays of the window run in batches.
ASSESS, PLAN, WINDOW, END = "Assess", "Plan", "Change members, canaries first, managers last", "Label, compare, and report"
IDLE, BUSY, MANAGER = "idle nodes", "nodes with work", "the manager"
# Values that grow with the fleet, by their names in the table.
GROWING = {"assess": ASSESS, "plan": PLAN, IDLE: IDLE, BUSY: BUSY, "label and report": END}


@dataclass
class Step:
    """A step of a run: seconds by the clock, seconds of the controller's CPU, and the number of hosts of its tasks, summed up."""

    seconds: float = 0
    cpu: float = 0
    runs: int = 0
    rss_mib: float = 0  # CPU seconds of ansible-playbook at the end of the step


@dataclass(frozen=True)
class Roll:
    nodes: int
    busy: int  # CPU seconds of the nodes
    steps: dict[str, Step]
    seconds: float
    cpu: float  # CPU seconds without those of the hosts
    peak_mib: float
    calls: Mapping[str, int]  # requests to the manager
    most_out: Mapping[bool, int]  # how many nodes are changed at a time: busy nodes, and idle nodes
    allowed: Mapping[bool, int]

    def cpu_of_one(self, step: str) -> float:
        """Return the step's CPU seconds per node."""
        return self.steps[step].cpu / {BUSY: self.busy, IDLE: self.nodes - self.busy - 1}.get(step, self.nodes)

    def tasks_of_one(self) -> float:
        return sum(step.runs for step in self.steps.values()) / self.nodes


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(nodes: int) -> Roll:
    """Run one rolling change of a new fleet, and check that each node was changed once."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        folders = hosts.make(root, nodes)
        swarm = Swarm(folders)
        steps, log = LOGS / f"roll-{nodes}-steps.jsonl", LOGS / f"roll-{nodes}.log"
        inventory, playbook = hosts.inventory(root, folders), Path(sys.executable).with_name("ansible-playbook")
        command = [str(playbook), "--inventory", str(inventory), *PLAYBOOKS["provision"]]
        environment = {
            **settings_apart(),
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
            "ANSIBLE_FORKS": str(FORKS),
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACK),
            "ANSIBLE_CALLBACKS_ENABLED": "bench_steps",
            "BENCH_STEPS": str(steps),
            "BENCH_HOSTS_CPU": str(root / hosts.CPU),
        }
        with Api(swarm):
            used = used_by(command, environment, log)
        on_hosts = (root / hosts.CPU).read_bytes()
    _check(swarm, used, log)
    return _measured(nodes, swarm, used, [json.loads(line) for line in steps.read_text().splitlines()], on_hosts)


def _check(swarm: Swarm, used: Used, log: Path) -> None:
    """Check that the run changed each node exactly once."""
    recap = RECAP.findall(log.read_text())
    wrong = [f"ansible-playbook ended with {used.status}"] if used.status else []
    wrong += [f"{host}: failed or unreachable" for host, _changed, unreachable, failed in recap if (unreachable, failed) != ("0", "0")]
    wrong += [f"no answer to {route}" for route in swarm.unknown]
    for node in swarm.nodes.values():
        name, spec = node.folder.name, node.entry["Spec"]
        if (node.restarts, swarm.paused[node.id]) != (1, 1):
            wrong.append(f"{name}: {node.restarts} restarts, {swarm.paused[node.id]} times out of service")
        if len(node.entry["Description"]["Resources"]["GenericResources"]) != 8 or spec["Labels"].get("gpu.count") != "8":
            wrong.append(f"{name}: its GPUs are not advertised, or not in its labels")
        if spec["Availability"] != "active":
            wrong.append(f"{name}: it was not returned to service")
    if len(recap) != len(swarm.nodes):
        wrong.append(f"{len(recap)} of {len(swarm.nodes)} hosts in the recap")
    if wrong:
        raise BenchError(f"a roll of {len(swarm.nodes)} nodes: {'; '.join(wrong[:5])} ({len(wrong)} in all; {log}):\n{tail(log)}")


def _measured(nodes: int, swarm: Swarm, used: Used, lines: list[dict], on_hosts: bytes) -> Roll:
    busy = sum(swarm.busy.values())
    allowed = {True: max(1, busy // 10), False: max(1, nodes - busy - 2)}  # the manager and the canary are changed alone
    if any(swarm.most_out[kind] > allowed[kind] for kind in allowed):
        raise BenchError(f"a roll of {nodes} nodes: {swarm.most_out} were out of service at a time, by whether they carry work, not {allowed}")
    seconds = lines[-1]["to"]["at"] - lines[0]["from"]["at"]
    cpu = used.cpu - hosts.cpu_seconds(on_hosts)
    return Roll(nodes, busy, _steps(lines, on_hosts), seconds, cpu, used.peak_mib, swarm.calls, swarm.most_out, allowed)


def _steps(lines: Iterable[dict], on_hosts: bytes) -> dict[str, Step]:
    """Return the steps in order. Other plays have their own names, and 'start' is before the first."""
    lines = list(lines)
    batches = list(dict.fromkeys(line["number"] for line in lines if line["play"] == WINDOW))
    steps: dict[str, Step] = {}
    for line in lines:
        name = line["play"] or line["task"]
        if name == WINDOW:
            at = batches.index(line["number"])
            name = MANAGER if at == len(batches) - 1 else IDLE if at < 2 else BUSY
        step, before, after = steps.setdefault(name, Step()), line["from"], line["to"]
        step.seconds += after["at"] - before["at"]
        step.cpu += after["cpu"] - before["cpu"] - hosts.cpu_seconds(on_hosts[before["hosts_bytes"] : after["hosts_bytes"]])
        step.runs += line["runs"]
        step.rss_mib = after["rss_kib"] / 1024
    return steps


def measure(sizes: tuple[int, ...] = SIZES) -> list[Row]:
    """Return seconds and MiB per node."""
    rolls = []
    for nodes in sizes:
        rolls.append(run(nodes))
        progress(_in_words(rolls[-1]))
    return rows(rolls)


def _in_words(roll: Roll) -> str:
    calls = ", ".join(f"{count} {name}" for name, count in sorted(roll.calls.items()))
    out = f"out of service at most {roll.most_out[False]} idle nodes and {roll.most_out[True]} with work"
    lines = [f"roll of {roll.nodes} nodes: {roll.seconds:.1f} s, CPU {roll.cpu:.1f} s, {roll.peak_mib:.0f} MiB, {out}; API calls: {calls}"]
    lines += [f"  {name}: {step.seconds:.1f} s, CPU {step.cpu:.1f} s, {step.runs} tasks, {step.rss_mib:.0f} MiB" for name, step in roll.steps.items()]
    return "\n".join(lines)


def rows(rolls: list[Roll]) -> list[Row]:
    few, middle, many = rolls[0], rolls[len(rolls) // 2], rolls[-1]
    made = [one for more in rolls[1:] or rolls for one in _compared(more, few)]
    if len(rolls) > 2:
        more = [(one.peak_mib - other.peak_mib) / (one.nodes - other.nodes) for one, other in ((many, middle), (middle, few))]
        made.append(row(f"roll, memory of the controller for a node more, above {middle.nodes} / below (MiB)", *more, None))
    for busy, words in ((False, "idle"), (True, "with work")):
        made.append(row(f"roll of {many.nodes}: nodes {words} out of service at a time / allowed", many.most_out[busy], many.allowed[busy], 1.0))
    return made


def _compared(many: Roll, few: Roll) -> list[Row]:
    what = f"roll, a node of {many.nodes} / of {few.nodes}"
    return [
        row(f"{what}: time (s)", many.seconds / many.nodes, few.seconds / few.nodes, None),
        row(f"{what}: CPU of the controller (s)", many.cpu / many.nodes, few.cpu / few.nodes, None),
        *(row(f"{what}: CPU, {name} (s)", many.cpu_of_one(step), few.cpu_of_one(step), None) for name, step in GROWING.items()),
        row(f"{what}: tasks", many.tasks_of_one(), few.tasks_of_one(), None),
        row(f"{what}: requests to the manager", *(sum(roll.calls.values()) / roll.nodes for roll in (many, few)), None),
        row(f"roll of {many.nodes} / of {few.nodes}: peak memory of the controller (MiB)", many.peak_mib, few.peak_mib, None),
    ]


def main(arguments: list[str]) -> None:
    """Measure rolling changes of these numbers of nodes: ``python -m tests.bench.roll 10 30``."""
    print(table(measure(tuple(map(int, arguments)) or SIZES)))


if __name__ == "__main__":
    main(sys.argv[1:])
