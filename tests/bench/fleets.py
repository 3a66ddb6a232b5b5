# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boots fleets for measurements in a separate lab, so that no other fleet is affected."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.lab import inventory
from tests.lab.lab import CHECKOUT, Lab
from tests.lab.nodes import container_name

LOGS = CHECKOUT / "build" / "bench"


class BenchError(Exception):
    """An error for the person at the terminal."""


@dataclass(frozen=True)
class Fleet:
    name: str
    inventory: Path
    environment: dict[str, str]
    # Most inventories set this, so a ping includes its cost.
    user: tuple[str, ...] = ("--extra-vars", "ansible_user=root")

    def over_ssh(self) -> Fleet:
        """Return the fleet for a user with sudo. The fleet must have been booted with SSH."""
        return replace(self, name=f"{self.name}-ssh", inventory=self.inventory.with_name(inventory.SSH), user=())

    def container(self, node: str) -> str:
        return container_name(self.name, node)


def settings_apart() -> dict[str, str]:
    """Return this process's environment without settings of the shell that would change the measurements."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "DOCKER_"))}


class Yard:
    """A lab that runs while the context is open."""

    def __init__(self) -> None:
        root = Lab.from_environment().root
        self._lab = Lab(root.with_name(f"{root.name}-bench"))
        self._environment = {**settings_apart(), "GPU_SWARM_LAB_ROOT": str(self._lab.root)}

    def __enter__(self) -> Yard:
        LOGS.mkdir(parents=True, exist_ok=True)
        (LOGS / "lab.log").write_bytes(b"")
        return self

    def __exit__(self, *_problem: object) -> None:
        self._lab_command("down", "--all")

    @contextmanager
    def fleet(self, nodes: int, ssh: bool = False) -> Iterator[Fleet]:
        """Boot fresh nodes with GPUs and the toolkit. The first one is also the manager."""
        name = f"bench-{nodes}"
        path = Path(
            self._lab_command("up", "--preset", "small", "--name", name, "--set", f"nodes={nodes}", "--set", f"ssh={str(ssh).lower()}").strip()
        )
        try:
            variables = inventory.variables(self._lab, path.parent)
            yield Fleet(name, path, {**self._environment, **variables})
        finally:
            self._lab_command("down", name)

    def machine(self, fleet: Fleet, node: str, machine: str) -> None:
        """Give the node other GPUs."""
        self._lab_command("nvml", f"{fleet.name}.{node}", machine)

    def _lab_command(self, *words: str) -> str:
        command = [sys.executable, "-m", "tests.lab", *words]
        with open(LOGS / "lab.log", "ab") as log:
            done = subprocess.run(command, cwd=CHECKOUT, env=self._environment, stdout=subprocess.PIPE, stderr=log, check=False)
        if done.returncode != 0:
            raise BenchError(f"{' '.join(words)} of the lab failed:\n{tail(LOGS / 'lab.log')}")
        return done.stdout.decode()


def tail(path: Path, lines: int = 15) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
