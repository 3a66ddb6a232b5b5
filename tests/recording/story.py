# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The story of the recorded terminal: types each command, runs the command on the lab fleet, and lets a card fail in between.

The commands and their output are real. `docker …` runs in the manager, with one more option, because the lab has no registry.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time

from tests.lab import fleet, nodes
from tests.lab.lab import Lab, LabError, output

from .cast import END, HOLD

FLEET = "recording"
PLAYBOOK = "ansible-playbook -i inventory.yml fleet.gpu_swarm."
SERVICE = "docker service create --name chat --generic-resource NVIDIA-GPU=1 --replicas 6 lab/cuda"
PAUSED_WITHIN = 120  # seconds, from a fault to the pause of its node
WAITS = 75  # the exit status of a playbook if something waits
BOLD, CYAN, GREEN, PLAIN, CLEAR = "\x1b[1m", "\x1b[36m", "\x1b[32m", "\x1b[0m", "\x1b[2J\x1b[H"


def main() -> int:
    lab = Lab.from_environment()
    os.chdir(output(FLEET))
    manager = nodes.get(lab, f"{FLEET}.m1")
    write(CLEAR)
    tell("Three machines with Docker, two of them with GPUs. One command makes them a swarm:")
    run(f"{PLAYBOOK}provision")
    hold(3.5)
    scene("A service with six tasks. Each gets a GPU of its own:")
    enter = ["docker", "--host", lab.docker_host, "exec", "--tty", manager.name]
    run(SERVICE, [*enter, *shlex.split(SERVICE.replace(" create ", " create --no-resolve-image "))])
    hold(2)
    scene("A card of g1 falls off the bus.")
    nodes.swap_machine(nodes.get(lab, f"{FLEET}.g1"), fleet.machine("h100x8-one-lost", fleet.HERE) or "")
    seconds = await_pause(manager)
    hold(1.5)
    tell(f"{seconds} seconds later, nobody did anything:")
    run(f"{PLAYBOOK}status", exits=(0, 2, WAITS))
    hold(5)
    write(END)
    return 0


def await_pause(manager: nodes.Container) -> int:
    """Return how many seconds it takes until the managers have paused g1."""
    start = time.monotonic()
    while (passed := time.monotonic() - start) < PAUSED_WITHIN:
        said = nodes.run(manager, "docker", "node", "inspect", "g1")
        if said and json.loads(said)[0]["Spec"]["Availability"] == "pause":
            return round(passed)
        time.sleep(0.5)
    raise LabError(f"g1 was not paused within {PAUSED_WITHIN} s after its card failed")


def run(typed: str, command: list[str] | None = None, exits: tuple[int, ...] = (0,)) -> None:
    """Type a command and run it. If this machine cannot run the typed command, ``command`` runs instead."""
    write(f"{GREEN}${PLAIN} {BOLD}")
    for place in range(0, len(typed), 4):
        write(typed[place : place + 4])
        time.sleep(0.08)
    write(f"{PLAIN}\n")
    code = subprocess.run(command or shlex.split(typed), check=False).returncode
    if code not in exits:
        raise LabError(f"{typed} ended with {code}")


def scene(text: str) -> None:
    write(CLEAR)
    tell(text)


def tell(text: str) -> None:
    write(f"{CYAN}# {text}{PLAIN}\n")
    hold(1.2)


def hold(seconds: float) -> None:
    """Show the picture unchanged for this many seconds of the final recording."""
    write(HOLD.format(seconds))


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
