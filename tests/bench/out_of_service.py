# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures how long a busy node is out of service: from the end of its last task until swarm may place tasks there again.

The log of the node's containerd has the end of the container. The swarm's node events have the return. systemd's journal has the restart of dockerd.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from typing import Any

from .fleets import BenchError, Fleet, Yard
from .runs import play
from .table import Row, row

NODES = 3
SPARE_S = 1.5  # more than the restart
MANAGER = "n1"
LIMIT_S = 60


def measure(yard: Yard, rounds: int) -> list[Row]:
    taken = []
    with yard.fleet(NODES) as fleet:
        play(fleet, "provision")
        workers = [f"n{number}" for number in range(2, NODES + 1)]
        create = ["service", "create", "--quiet", "--no-resolve-image", "--replicas", str(2 * NODES), "--stop-grace-period", "1s"]
        _docker(fleet, MANAGER, *create, "--name", "web", "lab/task")
        for number in range(rounds):
            since = time.time()
            # Another amount of a resource, which dockerd reads only at its start.
            play(fleet, "provision", "--limit", ",".join(workers), "--extra-vars", json.dumps({"gpu_node_extra_resources": [f"SSD={number + 1}"]}))
            taken += [(_out(fleet, node, since), _restart(fleet, node, since)) for node in workers]
            _spread(fleet)
    out, restart = (sorted(column)[len(taken) // 2] for column in zip(*taken, strict=True))
    return [row(f"a node is out: emptied until active / restart of dockerd ({restart:.1f} s) and {SPARE_S} s (s)", out, restart + SPARE_S, 1.0)]


def _docker(fleet: Fleet, node: str, *words: str) -> str:
    return _run(fleet, node, "docker", *words)


def _run(fleet: Fleet, node: str, *words: str) -> str:
    command = ["docker", "exec", fleet.container(node), *words]
    return subprocess.run(command, env=fleet.environment, capture_output=True, text=True, check=True).stdout


def _spread(fleet: Fleet) -> None:
    """Make swarm place the tasks on all nodes again, and wait until they run."""
    _docker(fleet, MANAGER, "service", "update", "--quiet", "--force", "--update-parallelism", "0", "web")
    end = time.monotonic() + LIMIT_S
    while f"{2 * NODES}/{2 * NODES}" not in _docker(fleet, MANAGER, "service", "ls"):
        if time.monotonic() > end:
            raise BenchError(f"the tasks of {fleet.name} did not come back in {LIMIT_S} s")
        time.sleep(0.2)


def _out(fleet: Fleet, node: str, since: float) -> float:
    message = _docker(fleet, MANAGER, "events", "--since", str(since), "--until", str(time.time()), "--filter", "type=node", "--format", "{{json .}}")
    events: list[dict[str, Any]] = [json.loads(line) for line in message.splitlines()]
    active = [
        event["timeNano"] / 1e9
        for event in events
        if event["Actor"]["Attributes"].get("name") == node and event["Actor"]["Attributes"].get("availability.new") == "active"
    ]
    # Not the tasks' own time stamps: a restarted dockerd reports the states of its tasks again, and has removed their containers.
    log = _run(fleet, node, "journalctl", "--output", "short-unix", "--no-pager", "--since", f"@{since:.0f}", "--unit", "containerd.service")
    ended = [float(moment) for moment in re.findall(r"^(\S+) .*shim disconnected", log, re.MULTILINE)]
    if len(active) != 1 or not ended:
        raise BenchError(f"{node} of {fleet.name} was to be emptied and returned to service once; active at {active}, tasks ended at {ended}")
    return active[0] - max(ended)


def _restart(fleet: Fleet, node: str, since: float) -> float:
    log = _run(fleet, node, "journalctl", "--output", "short-unix", "--no-pager", "--since", f"@{since:.0f}", "_PID=1", "UNIT=docker.service")
    stopping, started = (re.findall(rf"^(\S+) .*: {word} docker\.service", log, re.MULTILINE) for word in ("Stopping", "Started"))
    if len(stopping) != 1 or len(started) != 1:
        raise BenchError(f"dockerd of {node} of {fleet.name} was to be restarted once:\n{log}")
    return float(started[0]) - float(stopping[0])
