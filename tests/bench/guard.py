# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the guard adds to the start of a container: under it and under NVIDIA's runtime alone, in turn, and many side by side."""

from __future__ import annotations

import json
import statistics
import subprocess

from .fleets import BenchError, Fleet, Yard
from .runs import play
from .table import Row, row

NODE, ALONE = "n1", "alone"
ROUNDS, SIDE_BY_SIDE, TIMES = 30, 20, 5
GOAL, GOAL_TOGETHER = 1.15, 1.3
# It goes the guard's whole way: whose it is, what its task was assigned, a line for the journal. Either way NVIDIA's runtime adds nothing to it.
_RUN = "docker run --rm --runtime $1 --env NVIDIA_VISIBLE_DEVICES=void --label com.docker.swarm.task.id=bench lab/task true"
_TIMED = 'a=$(date +%s%N); {} >/dev/null || exit 1; echo $(($(date +%s%N) - a))'
ONE = _TIMED.format(_RUN)
MANY = _TIMED.format(f"(for n in $(seq {SIDE_BY_SIDE}); do {_RUN} & done; wait)")


def measure(yard: Yard) -> list[Row]:
    with yard.fleet(1) as fleet:
        play(fleet, "provision", "--extra-vars", json.dumps({"gpu_swarm_isolation": "reserved"}))
        _register(fleet)
        one, many = _medians(fleet, ONE, ROUNDS), _medians(fleet, MANY, TIMES)
    return [
        row("start of a container: under the guard / under NVIDIA's runtime alone (s)", one["nvidia"], one[ALONE], GOAL),
        row(f"{SIDE_BY_SIDE} starts side by side: under the guard / under NVIDIA's runtime alone (s)", many["nvidia"], many[ALONE], GOAL_TOGETHER),
    ]


def _register(fleet: Fleet) -> None:
    """NVIDIA's runtime under a name of its own, beside the guard."""
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
            if number:  # the first of each only warms up
                times.append(seconds)
    return {runtime: statistics.median(times) for runtime, times in found.items()}


def _run(fleet: Fleet, *words: str) -> str:
    command = ["docker", "exec", fleet.container(NODE), *words]
    return subprocess.run(command, env=fleet.environment, capture_output=True, text=True, check=True).stdout.strip()
