# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of the benchmark: which runs are compared, and in which order.

Compared runs take turns, so that other load on the machine affects all of them. Rows show the median, as {name, value, reference, ratio, goal}.
Lower ratios are better, and goal may be None.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

from . import guard, ledger_read, many_hosts, nvml_read, out_of_service, queue_decision, queue_simulation, record, roll, second_process, watcher
from .fleets import Fleet, Yard
from .runs import Run, play, play_first, play_unchanged, recipe
from .table import Row, row

STATUS_GOAL = 2.0  # for fleets of any size
NO_CHANGE_GOALS = {3: 2.2, 12: 1.8, 48: 1.6}
FEW, MANY = 12, 48  # four times as many nodes may take little more than four times as long
GROWTH_GOAL = 4.2
FIRST_RUN_NODES = 3
FIRST_RUN_GOAL = 0.7
# Switches off the services that work between two runs, because the handwritten playbook has no such services.
NO_SERVICES = ("--extra-vars", '{"gpu_node_health": false, "swarm_member_react": false, "gpu_swarm_record": false, "gpu_swarm_isolation": "off"}')
ONE = "ping of one host"
HANDWRITTEN = ("handwritten", "handwritten without facts")
# The runtime that provision registers by default. With another runtime, each of the two playbooks would undo the other's change.
SAME_RUNTIME = ("--extra-vars", "runtime=/usr/local/libexec/gpu-swarm/nvidia-guard")
OVER_SSH = " over SSH"
SSH_GOALS = {3: 2.5, 12: 2.0, 48: 1.8}
CPU_GOALS = {48: 1.5}
HANDWRITTEN_LIMIT = 12  # nodes; with more nodes, the playbook takes minutes and shows nothing new


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def no_change(yard: Yard, rounds: int, sizes: list[int]) -> list[Row]:
    """Measure how long a run without changes takes, as a multiple of a ping, and how this time grows with the number of nodes."""
    rows = []
    for nodes in sizes:
        with yard.fleet(nodes, ssh=True) as fleet:
            medians, cpu = _no_change_medians(fleet, rounds, _unchanged_runs(nodes))
        goals = {"provision": NO_CHANGE_GOALS.get(nodes)}
        rows += [
            row(f"no change, {nodes} nodes: {name} / ping (s)", medians[name], medians["ping"], goals.get(name))
            for name in ("provision", *HANDWRITTEN)
            if name in medians
        ]
        provision, ping = (f"{name}{OVER_SSH}" for name in ("provision", "ping"))
        rows += [
            row(f"no change over SSH, {nodes} nodes: provision / ping (s)", medians[provision], medians[ping], SSH_GOALS.get(nodes)),
            row(f"the controller's CPU over SSH, {nodes} nodes: provision / ping (s)", cpu[provision], cpu[ping], CPU_GOALS.get(nodes)),
        ]
        rows.append(row(f"status, {nodes} nodes / ping of one host (s)", medians["status"], medians[ONE], STATUS_GOAL))
        if nodes == MANY:
            rows += [
                row(f"growth, no change: {name} of {MANY} nodes / of {FEW} of them (s)", medians[name], medians[_of_few(name)], goal)
                for name, goal in (("ping", None), ("provision", GROWTH_GOAL))
            ]
    return rows


def _of_few(name: str) -> str:
    return f"{name} of {FEW}"


def _unchanged_runs(nodes: int) -> dict[str, tuple[str, ...]]:
    """Return the playbook and the options of each run."""
    runs: dict[str, tuple[str, ...]] = {name: (name,) for name in ("ping", "provision", "status", *HANDWRITTEN)}
    runs |= {name: (name, *SAME_RUNTIME) for name in HANDWRITTEN}
    runs |= {f"{name}{OVER_SSH}": (name,) for name in ("ping", "provision")}
    runs[ONE] = ("ping", "--limit", "all[0]")
    if nodes > HANDWRITTEN_LIMIT:
        runs = {name: run for name, run in runs.items() if name not in HANDWRITTEN}
    if nodes == MANY:
        # Both runs use the same fleet, so the daemons of the same number of nodes use these cores.
        runs |= {_of_few(name): (name, "--limit", f"all[0:{FEW - 1}]") for name in ("ping", "provision")}
    return runs


def _no_change_medians(fleet: Fleet, rounds: int, runs: dict[str, tuple[str, ...]]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the median seconds of each run, and the median CPU seconds of the controller."""
    for name in ("provision", *HANDWRITTEN):  # run each playbook once before, because they write the same settings in different forms
        if name in runs:
            progress(f"{fleet.name}: set up with {name}, {play(fleet, *runs[name]).seconds:.1f} s")
    play(fleet.over_ssh(), "ping")  # opens the connections, because only the first task of a run waits for them
    taken: dict[str, list[Run]] = {name: [] for name in runs}
    for number in range(rounds):
        for name, run in runs.items():
            if name in HANDWRITTEN and number % 2:
                continue  # this playbook is slow and has no goal, so half as many rounds are enough
            taken[name].append(play_unchanged(fleet.over_ssh() if name.endswith(OVER_SSH) else fleet, *run))
        progress(f"{fleet.name}, round {number + 1}: " + ", ".join(f"{name} {some[-1].seconds:.2f} s" for name, some in taken.items()))
    return (
        {name: statistics.median(run.seconds for run in some) for name, some in taken.items()},
        {name: statistics.median(run.cpu for run in some) for name, some in taken.items()},
    )


def first_run(yard: Yard, rounds: int) -> list[Row]:
    """Measure the first run. Each run gets freshly booted nodes. The playbooks take turns.

    The run that is compared with the handwritten playbook does the same work. A separate row shows the run with the services that work between two
    runs.
    """
    turns: list[tuple[str, int, Callable[[Fleet], float]]] = [
        ("provision", FIRST_RUN_NODES, lambda fleet: play_first(fleet, "provision")),
        ("provision without services", FIRST_RUN_NODES, lambda fleet: play_first(fleet, "provision", *NO_SERVICES)),
        ("handwritten", FIRST_RUN_NODES, lambda fleet: play_first(fleet, "handwritten")),
        ("recipe", 1, recipe),
    ]
    taken: dict[str, list[float]] = {name: [] for name, _nodes, _work in turns}
    for number in range(rounds):
        for name, nodes, work in turns if number % 2 == 0 else reversed(turns):
            with yard.fleet(nodes) as fleet:
                taken[name].append(work(fleet))
        progress(f"first run, round {number + 1}: " + ", ".join(f"{name} {seconds[-1]:.2f} s" for name, seconds in taken.items()))
    medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
    what, alike = f"first run, {FIRST_RUN_NODES} nodes: provision", medians["provision without services"]
    return [
        row(f"{what} without services / handwritten (s)", alike, medians["handwritten"], FIRST_RUN_GOAL),
        row(f"{what} / provision without services (s)", medians["provision"], alike, None),
        row(f"{what} / shell recipe on one node (s)", medians["provision"], medians["recipe"], None),
    ]


def out(yard: Yard, rounds: int) -> list[Row]:
    return out_of_service.measure(yard, rounds)


def guarded(yard: Yard) -> list[Row]:
    return guard.measure(yard)


def watched(yard: Yard) -> list[Row]:
    return watcher.measure(yard)


def many() -> list[Row]:
    return many_hosts.measure()


def rolled() -> list[Row]:
    return roll.measure()


def nvml() -> list[Row]:
    return nvml_read.measure()


def ledger() -> list[Row]:
    return ledger_read.measure()


def queue() -> list[Row]:
    return queue_decision.measure() + queue_simulation.measure()


def page() -> list[Row]:
    from . import page_paint  # imported here: the other parts need no browser

    return page_paint.measure()


def recorded() -> list[Row]:
    return record.measure() + second_process.measure()
