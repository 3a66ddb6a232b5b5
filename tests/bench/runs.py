# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One timed run on a fleet, with a check that it did its work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.lab.lab import CHECKOUT

from .fleets import LOGS, BenchError, Fleet, tail

REFERENCE = Path(__file__).resolve().parent / "reference"
# ansible-playbook finds the playbook by this name in the installed collection.
PLAYBOOKS = {
    "ping": [str(REFERENCE / "ping.yml")],
    "provision": [str(CHECKOUT / "playbooks" / "provision.yml")],
    "status": [str(CHECKOUT / "playbooks" / "status.yml")],
    "handwritten": [str(REFERENCE / "handwritten.yml")],
    "handwritten without facts": [str(REFERENCE / "handwritten.yml"), "--extra-vars", "facts=false"],
}
RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.M)


@dataclass(frozen=True)
class Run:
    seconds: float
    cpu: float  # user and system seconds of ansible-playbook and all of its children
    changed: dict[str, int]  # by host


def play(fleet: Fleet, name: str, *options: str) -> Run:
    """Run a playbook from start to end, as a user would start it."""
    playbook = str(Path(sys.executable).with_name("ansible-playbook"))
    command = [playbook, "--inventory", str(fleet.inventory), *fleet.user, *PLAYBOOKS[name], *options]
    seconds, cpu, log = _timed(fleet, command, name)
    recap = RECAP.findall(log.read_text())
    if not recap or any(unreachable != "0" or failed != "0" for _host, _changed, unreachable, failed in recap):
        raise BenchError(f"{name} on {fleet.name} reports hosts that failed, in {log}")
    return Run(seconds, cpu, {host: int(changed) for host, changed, _unreachable, _failed in recap})


def play_unchanged(fleet: Fleet, name: str, *options: str) -> Run:
    """Run a playbook that finds nothing to do."""
    run = play(fleet, name, *options)
    if any(run.changed.values()):
        raise BenchError(f"{name} on {fleet.name} should have had nothing to do, and changed {run.changed}")
    return run


def play_first(fleet: Fleet, name: str, *options: str) -> float:
    """Return the seconds of a run that provisions fresh nodes."""
    run = play(fleet, name, *options)
    if not all(run.changed.values()):
        raise BenchError(f"{name} on {fleet.name} should have changed every host, and changed {run.changed}")
    advertised(fleet)
    return run.seconds


def recipe(fleet: Fleet) -> float:
    """Return the seconds of the shell recipe on the fleet's first node."""
    with open(REFERENCE / "recipe.sh", "rb") as script:
        seconds, _cpu, _log = _timed(fleet, ["docker", "exec", "--interactive", fleet.container("n1"), "sh", "-s"], "recipe", script)
    advertised(fleet, ["n1"])
    return seconds


def advertised(fleet: Fleet, nodes: list[str] | None = None) -> None:
    """Check that every dockerd runs and advertises GPUs."""
    for node in nodes or re.findall(r"^    (n\d+):$", fleet.inventory.read_text(), re.M):
        command = ["docker", "exec", fleet.container(node), "docker", "info", "--format", "{{json .GenericResources}}"]
        words = subprocess.run(command, env=fleet.environment, capture_output=True, text=True, check=True).stdout
        if "GPU-" not in words:
            raise BenchError(f"node {node} of {fleet.name} advertises no GPU: {words.strip()}")


def _timed(fleet: Fleet, command: list[str], name: str, stdin=subprocess.DEVNULL) -> tuple[float, float, Path]:
    log = LOGS / f"{fleet.name}-{name.replace(' ', '-')}.log"
    with open(log, "wb") as out:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=CHECKOUT, env=fleet.environment, stdin=stdin, stdout=out, stderr=out)
        _pid, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)  # os.wait4 has already reaped the child
    if process.returncode:
        raise BenchError(f"{name} on {fleet.name} failed ({log}):\n{tail(log)}")
    return seconds, used.ru_utime + used.ru_stime, log
