# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Work in the queues of a fleet: submits it with the Docker CLI, lets it end, and reads its state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .fleet import Fleet, Node, wait_until
from .swarm import KIND

QUEUE, STATE = "gpu-swarm.queue", "gpu-swarm.queue-state"
UNIT = "gpu-swarm-manager.service"
# On each GPU node. A task writes a line when it begins, and ends when a file with its name, or ``all``, is there.
FOLDER = "/run/queued"
PROGRAM = f'echo $0 >> {FOLDER}/began; until [ -e {FOLDER}/$0 ] || [ -e {FOLDER}/all ]; do sleep 0.2; done; echo "$0 is done"'


class Queued:
    """The queued work of a fleet. ``by`` is the manager whose Docker CLI is used."""

    def __init__(self, fleet: Fleet, gpu_nodes: Iterable[str], managers: Iterable[str]) -> None:
        self.fleet, self.gpu_nodes, self.managers, self.by = fleet, list(gpu_nodes), list(managers), "m1"
        for name in self.gpu_nodes:
            fleet[name].run("mkdir", "--parents", FOLDER)

    @property
    def manager(self) -> Node:
        return self.fleet[self.by]

    def submit(self, name: str, *options: str, queue: str = "research", gpus: int = 1, owner: str = "", program: str = PROGRAM) -> None:
        labels = {QUEUE: queue, **({"gpu-swarm.owner": owner} if owner else {})}
        self.manager.docker(
            "service", "create", "--detach", "--quiet", "--no-resolve-image", "--name", name, "--replicas", "0", "--restart-condition", "none",
            *(word for label in labels.items() for word in ("--label", "=".join(label))),
            "--generic-resource", f"{KIND}={gpus}", "--mount", f"type=bind,source={FOLDER},target={FOLDER}", *options,
            "lab/task", "sh", "-c", program, name,
        )  # fmt: skip

    def spec(self, name: str) -> dict[str, Any]:
        return self.manager.docker_json("service", "inspect", name)[0]["Spec"]  # type: ignore[no-any-return]

    def state(self, name: str) -> str:
        """Return the label with the state of the work."""
        return self.spec(name)["Labels"].get(STATE, "waiting")  # type: ignore[no-any-return]

    def await_state(self, name: str, begin: str, end: str = "", seconds: float = 60) -> str:
        def reached() -> str:
            state = self.state(name)
            return state if state.startswith(begin) and state.endswith(end) else ""

        return wait_until(f"{name}: {begin}… {end}", reached, seconds, self.shown)  # type: ignore[no-any-return]

    def end(self, *names: str) -> None:
        """Let work end. ``all`` is all work."""
        for node in self.gpu_nodes:
            self.fleet[node].run("touch", *(f"{FOLDER}/{name}" for name in names))

    def running(self) -> dict[str, str]:
        """Return the nodes of the running work, by name."""
        form = '{{.Label "com.docker.swarm.service.name"}}'
        return {name: node for node in self.gpu_nodes for name in self.fleet[node].docker("ps", "--format", form).split()}

    def await_running(self, *names: str, seconds: float = 60) -> dict[str, str]:
        """Wait until this work runs, perhaps beside other work. Return the nodes of all running work."""

        def all_run() -> dict[str, str]:
            found = self.running()
            return found if set(names) <= found.keys() else {}

        return wait_until(f"{', '.join(names)} to run", all_run, seconds, self.shown)  # type: ignore[no-any-return]

    def began(self) -> list[str]:
        """Return the name of the work for each time that a task began."""
        return [name for node in self.gpu_nodes for name in self.fleet[node].run("sh", "-c", f"cat {FOLDER}/began", check=False).split()]

    def node_id(self, name: str) -> str:
        return self.fleet[name].swarm()["NodeID"]  # type: ignore[no-any-return]

    def open(self, availability: str, *nodes: str) -> None:
        for node in nodes or self.gpu_nodes:
            self.manager.docker("node", "update", "--availability", availability, self.node_id(node))

    def names(self) -> list[str]:
        return self.manager.docker("service", "ls", "--format", "{{.Name}}", "--filter", f"label={QUEUE}").split()

    def remove(self, *names: str) -> None:
        if names:
            self.manager.docker("service", "rm", *names)

    def nothing_left(self) -> None:
        """Remove all work of queues, and wait for the end of its containers."""
        self.remove(*self.names())
        wait_until("all work to end", lambda: not self.running(), shown=self.running)
        for node in self.gpu_nodes:
            self.fleet[node].run("sh", "-c", f"rm --force {FOLDER}/*")

    def shown(self) -> str:
        """Return what is known about the queues, for the message of a failed test."""
        parts = [f"{name}: {self.state(name)}" for name in self.names()]
        command = ("journalctl", "--unit", UNIT, "--output", "short-precise", "--no-pager", "--lines", "40")
        parts += [f"== {name}\n{self.fleet[name].run(*command, check=False)}" for name in self.managers]
        return "\n".join(["", *parts, str(self.running())])
