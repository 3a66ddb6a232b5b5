# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fleet, its currently wanted state, and the accidents of runs that should reach this state."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.fleet import Fleet, wait_until
from tests.e2e.swarm import KIND, availabilities, member

from .plan import CONTROLLER, MODULES, NODE, RESOURCES, SAME, TOOLKIT, Accident
from .run import UnderWay, await_boot, kill_modules, lose

MANAGER = "m1"
GPU_NODES = ["g1", "g2", "g3"]
NODES = [MANAGER, *GPU_NODES]
# An operator keeps this node drained.
DRAINED = "g3"
AVAILABILITY = {name: "drain" if name == DRAINED else "active" for name in NODES}
OTHER_TOOLKIT = {"1.20.0": "1.19.1", "1.19.1": "1.20.0"}
SERVICES = {
    "gpu": ("lab/cuda", "--replicas", "2", "--generic-resource", f"{KIND}=1"),  # fits on each node
    "web": ("lab/task", "--replicas", "3"),
    "agent": ("lab/task", "--mode", "global"),
}
REPLICAS = {"gpu": "2/2", "web": "3/3", "agent": f"{len(NODES) - 1}/{len(NODES) - 1}"}
# Exit statuses of Ansible if hosts failed or were lost. Any other status is a failure of Ansible itself.
ENDS = (0, 2, 4)


@dataclass
class Yard:
    fleet: Fleet
    inventory: Path
    say: Callable[[str], None]
    # The wanted state of every GPU node.
    ssds: int = 1
    toolkit: str = "1.20.0"
    # Seconds of an undisturbed run, by the change that the run makes.
    lengths: dict[str, float] = field(default_factory=dict)
    # Changes of the drained node's availability, and the time until which events were read.
    became: list[str] = field(default_factory=list)
    since: str = ""

    # -- the wanted state ----------------------------------------------------------------------------------------------------

    def change(self, what: str) -> None:
        if what != SAME:
            self.ssds += 1
        if what == TOOLKIT:
            self.toolkit = OTHER_TOOLKIT[self.toolkit]

    def start(self) -> UnderWay:
        wanted = {"gpu_node_extra_resources": [f"SSD={self.ssds}"], "nvidia_container_toolkit_version": self.toolkit}
        return UnderWay(self.fleet, "--inventory", str(self.inventory), "--extra-vars", json.dumps(wanted), "fleet.gpu_swarm.provision")

    def employ(self) -> None:
        """Start tasks on the nodes that are not drained."""
        manager = self.fleet[MANAGER]
        manager.docker("node", "update", "--availability", AVAILABILITY[DRAINED], member(self.fleet, DRAINED)["ID"])
        self.since = manager.run("date", "+%s.%N")
        for name in set(SERVICES) - set(self.replicas()):
            image, *options = SERVICES[name]
            manager.docker(
                "service", "create", "--detach", "--quiet", "--no-resolve-image", "--stop-grace-period", "1s", "--name", name, *options, image
            )  # fmt: skip
        self.await_work()

    def replicas(self) -> dict[str, str]:
        return dict(line.split() for line in self.fleet[MANAGER].docker("service", "ls", "--format", "{{.Name}} {{.Replicas}}").splitlines())

    def await_work(self) -> None:
        wait_until("every service to have its replicas", lambda: self.replicas() == REPLICAS)

    # -- accidents ----------------------------------------------------------------------------------------------------------

    def befall(self, accident: Accident) -> None:
        """Start a run, and let the accident happen while it is running."""
        change = accident.change
        for part in accident.moments():
            self.change(change)
            run = self.start()
            moment = part * self.lengths.get(change, self.lengths[TOOLKIT])
            if run.lasts(moment):
                self._hit(run, accident, f"{accident.number}: {' and '.join(sorted(accident.ends))} at {moment:.1f} s of a run to {self._wanted()}")
                break
            assert run.end().rc == 0, run.output
            self.say(f"{accident.number}: a run to {self._wanted()} had ended after {run.seconds:.1f} s, before {moment:.1f} s")
            self.lengths[change] = run.seconds
            change = RESOURCES  # the run has nothing left to do
        self.read_events()

    def _wanted(self) -> str:
        return f"toolkit {self.toolkit}, {self.ssds} SSD"

    def _hit(self, run: UnderWay, accident: Accident, text: str) -> None:
        node = self.fleet[accident.lost]
        if NODE in accident.ends:
            text += f", {accident.lost} lost"
            self.read_events()  # a manager forgets its events when it boots
            lose(node)
        if CONTROLLER in accident.ends:
            run.kill()
        if MODULES in accident.ends:
            kill_modules([self.fleet[name] for name in NODES])
        text += f": {run.task}"
        if CONTROLLER not in accident.ends:
            end = run.end()
            text += f"; it ended with {end.rc} after {run.seconds:.1f} s"
            assert end.rc in ENDS, end.output
        self.say(text)
        if NODE in accident.ends:
            await_boot(node)
            self._await_nodes()

    def _await_nodes(self) -> None:
        """Wait for the nodes.

        A worker waits longer after each failed attempt to reach its manager, up to 8 s. On a busy machine, each attempt takes long.
        """
        wait_until("every node to be there again", lambda: self._statuses() == ["Ready"] * len(NODES), seconds=180, shown=self._statuses)

    def _statuses(self) -> list[str]:
        return self.fleet[MANAGER].run("docker", "node", "ls", "--format", "{{.Status}}", check=False).split()

    def read_events(self) -> None:
        """Record changes of the drained node since the last call. A manager keeps only its most recent events."""
        now = self.fleet[MANAGER].run("date", "+%s.%N")
        self.became += availabilities(self.fleet, DRAINED, self.since)
        self.since = now
