# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a node that one inspection has read, as a plain record.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from .._dockerd.flags import UnitFile
from .._files import Snapshot
from .._gpu.cards import Card
from .devices_state import DevicesState
from .guard_state import HOME, GuardState
from .watcher_state import WatcherState


class Observation(NamedTuple):
    """The state of a node. Everything is read once."""

    gpus: Sequence[dict[str, Any]]  # one record of _gpu for each GPU; empty if NVML is not read
    driver_version: str | None  # version of NVIDIA's driver; None if NVML is not read
    cuda_version: str | None  # the newest CUDA that the driver supports
    daemon: Snapshot  # the daemon.json that the option daemon_config names
    runtime: Snapshot  # the config.toml that the option runtime_config names
    record: dict[str, dict[str, Any]]  # {path: the original and the written content} of each file that this collection changed
    engine: dict[str, Any] | None  # the result of Engine.inspect; None if Docker Engine is not installed
    containers: Sequence[dict[str, Any]]  # the running containers
    toolkit_version: str | None  # None without a toolkit
    missing: list[str]  # the parts that are not installed on the node, for 'missing' in the module's result
    system_memory_mib: int | None = None  # the node's memory, which GPUs without memory of their own share; None without a GPU
    cpu: dict[str, Any] | None = None  # from the kernel; None without a GPU
    units: Sequence[UnitFile] = ()  # the files that decide how dockerd is started
    unit_problem: str | None = None  # why these files do not show how dockerd is started
    editable_units: Sequence[Snapshot] = ()  # the units that this collection may write
    held_packages: Sequence[str] = ()  # the toolkit's packages that the package manager does not upgrade
    unfinished: bool = False  # whether a killed run left its journal
    former_files: Sequence[Snapshot] = ()  # files that daemon_config and runtime_config named in an earlier run
    watcher: WatcherState = WatcherState((), None, None)  # the service that watches the GPUs between runs
    guard: GuardState = GuardState("/" + HOME)  # the program that checks containers before NVIDIA's runtime
    devices: DevicesState = DevicesState()  # the devices that CUDA needs besides the driver
    offered: Mapping[str, Sequence[str]] = {}  # {name: paths} of the devices that a service gets now if it asks for the name
    cards: Sequence[Card] = ()  # where each card is, from the node's record
    toolkit_problem: str | None = None  # why NVIDIA's toolkit cannot give GPUs to containers

    @property
    def files(self) -> list[Snapshot]:
        """Return every file that this collection may write."""
        return [self.daemon, self.runtime, *self.editable_units, *self.former_files]
