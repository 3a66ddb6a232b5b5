# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was found on a node: a plain record.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from .._dockerd.flags import UnitFile
from .._files import Snapshot
from .._gpu.cards import Card
from .devices_seen import DevicesSeen
from .guard_seen import HOME, GuardSeen
from .watcher_seen import WatcherSeen


class Observation(NamedTuple):
    """What was found on a node, all of it read once."""

    gpus: Sequence[dict[str, Any]]  # records as of _gpu; none where NVML is not read
    driver_version: str | None  # of NVIDIA's driver; None where NVML is not read
    cuda_version: str | None  # the newest that the driver supports
    daemon: Snapshot  # of the file that daemon_config names
    runtime: Snapshot  # of the file that runtime_config names
    record: dict[str, dict[str, Any]]  # by path, of each file that this collection changed: what it was, and what was written
    engine: dict[str, Any] | None  # as Engine.inspect returns it; None where Docker Engine is not installed
    containers: Sequence[dict[str, Any]]  # those that run
    toolkit_version: str | None  # None where there is no toolkit
    missing: list[str]  # what the node lacks, as 'missing' of the module's result
    system_memory_mib: int | None = None  # which cards without memory of their own share; None where there is no GPU
    cpu: dict[str, Any] | None = None  # as the kernel reports it; None where there is no GPU
    units: Sequence[UnitFile] = ()  # what decides how dockerd is started
    misread: str | None = None  # why it is not known what that starts, in a sentence
    own: Sequence[Snapshot] = ()  # of those of the units that may be written
    held: Sequence[str] = ()  # the toolkit's packages that the package manager keeps at their version
    unfinished: bool = False  # whether a run that was killed has left its journal
    left: Sequence[Snapshot] = ()  # of what else is on record, under names that daemon_config and runtime_config had before
    watcher: WatcherSeen = WatcherSeen((), None, None)  # what watches the GPUs between two runs
    guard: GuardSeen = GuardSeen("/" + HOME)  # what stands before NVIDIA's runtime
    devices: DevicesSeen = DevicesSeen()  # what CUDA needs besides the driver
    cards: Sequence[Card] = ()  # which card is where, by the node's record of them
    tried: str | None = None  # why NVIDIA's toolkit gives no container its GPU, in words

    @property
    def files(self) -> list[Snapshot]:
        """Every file that may be written."""
        return [self.daemon, self.runtime, *self.own, *self.left]
