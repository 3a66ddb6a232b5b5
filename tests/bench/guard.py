# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures the time that the guard adds to the start of a container, one by one and in parallel, and the guard's memory.

The containers are started by hand with the labels of tasks that have slots. So the guard does all of its work. It reads dockerd's and the agent's
records and the map of slots, takes the lock, records the hold, and writes the variables.
"""

from __future__ import annotations

import json
import statistics
import subprocess

from .fleets import BenchError, Fleet, Yard
from .runs import play
from .table import Row, row

NODE, ALONE = "n1", "alone"
ROUNDS, SIDE_BY_SIDE, TIMES = 30, 20, 5
GOAL, GOAL_TOGETHER, LIMIT_MIB = 1.15, 1.3, 20.0
SLOTS_OF_A_CARD = 5  # the node has four cards
SETTINGS = {"gpu_swarm_isolation": "exclusive", "gpu_node_advertise": [{"as": "slots", "slots": SLOTS_OF_A_CARD}]}
HOME, HOLDS = "/usr/local/libexec/gpu-swarm", "/run/gpu-swarm-guard/holds"
TASKS, FAILED = "/run/bench-tasks", "/run/bench-failed"  # each line has a task and its card
# Both runtimes start the same container. In both cases NVIDIA's runtime gives this card to the container.
_RUN = "docker run --rm --runtime $1 --env NVIDIA_VISIBLE_DEVICES=$card --label com.docker.swarm.task.id=$task lab/task"
_TIMED = "a=$(date +%s%N); {}; [ ! -e " + FAILED + " ] || exit 1; echo $(($(date +%s%N) - a))"
_ONE = f"{_RUN} true </dev/null >/dev/null || touch {FAILED}"
ONE = f"read task card <{TASKS}; " + _TIMED.format(_ONE)
MANY = _TIMED.format(f"(while read task card; do ({_ONE}) & done <{TASKS}; wait)")
PROBE = f"read task card <{TASKS}; {_RUN} sh -c 'echo $GPU_SWARM_SLOTS'"
GOES_ON = 10  # the guard calls this if a container may start (_guard/call.py)
# Runs the guard's program for an existing container, and prints the peak memory of its process.
PEAK = """
import sys

del sys.argv[0]
code = sys.argv[0]
try:
    with open(code, "rb") as stream:
        exec(compile(stream.read(), code, "exec"), {"__file__": code, "__name__": "__main__"})
finally:
    with open("/proc/self/status") as status:
        print(next(line for line in status if line.startswith("VmHWM")).split()[1])
"""


def measure(yard: Yard) -> list[Row]:
    with yard.fleet(1) as fleet:
        play(fleet, "provision", "--extra-vars", json.dumps(SETTINGS))
        _register(fleet)
        _reserve(fleet)
        memory = _peak_mib(fleet)
        _run(fleet, "sh", "-c", f"rm {HOLDS}/*")  # the service's containers keep running, and its tasks' slots are free for the measured ones
        if ".slot" not in _run(fleet, "sh", "-c", PROBE, "-", "nvidia"):
            raise BenchError(f"{NODE} of {fleet.name}: the guard does not find the slot of the task that it is called for")
        one, many = _medians(fleet, ONE, ROUNDS), _medians(fleet, MANY, TIMES)
    return [
        row("start of a container: under the guard / under NVIDIA's runtime alone (s)", one["nvidia"], one[ALONE], GOAL),
        row(f"{SIDE_BY_SIDE} starts side by side: under the guard / under NVIDIA's runtime alone (s)", many["nvidia"], many[ALONE], GOAL_TOGETHER),
        row(f"the guard's memory at a start, at its peak / {LIMIT_MIB:.0f} MiB (MiB)", memory, LIMIT_MIB, 1.0),
    ]


def _reserve(fleet: Fleet) -> None:
    """Start a task with its own slot for each parallel start. Record the tasks with their cards."""
    service = ("--generic-resource", "NVIDIA-SLOT=1", "--replicas", str(SIDE_BY_SIDE), "--name", "bench", "lab/task", "sleep", "99999")
    _run(fleet, "docker", "service", "create", "--quiet", "--no-resolve-image", *service)  # returns when all tasks run
    there = _run(fleet, "docker", "service", "ps", "--quiet", "--no-trunc", "--filter", "desired-state=running", "bench").split()
    found = json.loads(_run(fleet, "docker", "inspect", "--type", "task", *there))
    slots = [(one["ID"], one["GenericResources"][0]["NamedResourceSpec"]["Value"].partition(".")[0]) for one in found]
    if len(slots) != SIDE_BY_SIDE:
        raise BenchError(f"{NODE} of {fleet.name} has {len(slots)} tasks, and is to have {SIDE_BY_SIDE}")
    lines = "".join(f"{task} {card}\n" for task, card in slots)
    _run(fleet, "sh", "-c", 'printf %s "$1" >"$2"', "-", lines, TASKS)


def _peak_mib(fleet: Fleet) -> float:
    """Return the guard's peak memory. Call the guard for one of the service's containers, with a copy of its description."""
    container = _run(fleet, "docker", "ps", "--quiet", "--no-trunc", "--filter", "label=com.docker.swarm.service.name=bench").split()[0]
    described = f"/run/containerd/io.containerd.runtime.v2.task/moby/{container}/config.json"
    _run(fleet, "sh", "-c", f"mkdir -p /run/bench-bundle && cp {described} /run/bench-bundle/")
    code = _run(fleet, "sh", "-c", f"echo {HOME}/code-*/__main__.py")
    words = ["python3", "-IS", "-c", PEAK, code, HOME, "create", "--bundle", "/run/bench-bundle", container]
    done = subprocess.run(_command(fleet, *words), env=fleet.environment, capture_output=True, text=True, check=False)
    if done.returncode != GOES_ON:
        raise BenchError(f"the guard of {NODE} of {fleet.name} ended with {done.returncode}: {done.stderr}")
    return int(done.stdout) / 1024


def _register(fleet: Fleet) -> None:
    """Register NVIDIA's runtime under another name, beside the guard."""
    path = "/etc/docker/daemon.json"
    document = json.loads(_run(fleet, "cat", path))
    if not document["runtimes"]["nvidia"]["path"].endswith("/nvidia-guard"):
        raise BenchError(f"{NODE} of {fleet.name} has no guard: {document['runtimes']}")
    document["runtimes"][ALONE] = {"path": "nvidia-container-runtime"}
    _run(fleet, "sh", "-c", 'printf %s "$1" >"$2" && systemctl reload docker', "-", json.dumps(document), path)
    _run(fleet, "sh", "-c", f"until docker info --format '{{{{json .Runtimes}}}}' | grep -q {ALONE}; do sleep 0.1; done")


def _medians(fleet: Fleet, script: str, rounds: int) -> dict[str, float]:
    found: dict[str, list[float]] = {"nvidia": [], ALONE: []}
    for number in range(rounds + 1):
        for runtime, times in found.items():
            seconds = int(_run(fleet, "sh", "-c", script, "-", runtime)) / 1e9
            if number:  # the first start with each runtime is a warm-up
                times.append(seconds)
    return {runtime: statistics.median(times) for runtime, times in found.items()}


def _run(fleet: Fleet, *words: str) -> str:
    return subprocess.run(_command(fleet, *words), env=fleet.environment, capture_output=True, text=True, check=True).stdout.strip()


def _command(fleet: Fleet, *words: str) -> list[str]:
    return ["docker", "exec", fleet.container(NODE), *words]
