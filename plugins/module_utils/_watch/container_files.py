# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The running containers of this machine as dockerd's files show them, and what swarm gave to their tasks.

dockerd itself is not called: this is read each minute. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Mapping, NamedTuple, Sequence

from .._guard import bolt, engine_record
from .._guard.task_record import RecordError, TaskRecord
from .._health.allocation_findings import text_of
from .written import stamp

TASK, SERVICE = "com.docker.swarm.task.id", "com.docker.swarm.service.name"
_ID = re.compile(r"[0-9a-f]{64}")
_CONFIG, _HOST = "config.v2.json", "hostconfig.json"
# How the devices of NVIDIA's cards are named in CDI, and what stands for all of them.
_CDI, _EVERY = "nvidia.com/gpu=", "all"
_MOST = 64  # cards that one request can name


class Container(NamedTuple):
    """One that runs."""

    name: str
    task: str  # the id of its task, empty where it is of none
    service: str
    labels: Mapping[str, str]
    requests: Sequence[str] = ()  # of one that is of no task: the cards that dockerd was to give it, as that names them


class Given(NamedTuple):
    """One thing that swarm gave a task. ``amount``: its kind has no names, and it is a part of what the kind stands for."""

    kind: str
    value: str
    amount: bool = False


class Containers:
    """Read anew where a file has changed."""

    def __init__(self, data_root: str) -> None:
        self._data_root = data_root
        self._seen: dict[str, tuple[object, Container | None]] = {}
        self._given: dict[str, Sequence[Given]] = {}
        self._over: set[str] = set()

    def running(self) -> dict[str, Container]:
        """By their ids. Raises OSError where dockerd's directory cannot be read."""
        folder = os.path.join(self._data_root, "containers")
        there = [one for one in os.listdir(folder) if _ID.fullmatch(one)]
        seen = {}
        for one in there:
            path = os.path.join(folder, one, _CONFIG)
            now, known = stamp(path), self._seen.get(one)
            seen[one] = known if known and known[0] == now and now is not None else (now, _read(path))
        self._seen = seen
        found = {one: container for one, (_stamp, container) in seen.items() if container}
        tasks = {container.task for container in found.values()}
        self._given = {task: given for task, given in self._given.items() if task in tasks}
        self._over &= tasks
        return found

    def given(self, task: str) -> Sequence[Given] | None:
        """What swarm gave it; None where that cannot be read now."""
        if task not in self._given:
            try:
                record = engine_record.task(self._data_root, task)
            except (bolt.BoltError, RecordError, OSError):
                return None
            self._given[task] = _given(record) if record else ()
            if record is None:
                self._over.add(task)
        return self._given[task]

    def is_over(self, task: str) -> bool:
        """Whether swarm knows a task no more whose container runs: somebody started that by hand, or an image has the label of one."""
        return self.given(task) is not None and task in self._over


def requested(host: Mapping[str, Any]) -> tuple[str, ...]:
    """What `docker run --gpus` and `--device nvidia.com/gpu=…` requested: indices, UUIDs, or all. ``host`` is a container's HostConfig."""
    found: list[str] = []
    for one in host.get("DeviceRequests") or ():
        ids, driver = [str(name) for name in one.get("DeviceIDs") or ()], one.get("Driver") or ""
        if driver == "cdi":
            found += [name[len(_CDI) :] for name in ids if name.startswith(_CDI)]
        elif driver in ("", "nvidia") and any("gpu" in several for several in one.get("Capabilities") or ()):
            count = int(one.get("Count") or 0)
            # So many are the first ones (moby, daemon/nvidia_linux.go), also where Docker 29 injects them by CDI.
            found += ids or ([_EVERY] if count < 0 else map(str, range(min(count, _MOST))))
    return tuple(found[:_MOST])


def cards_of(requests: Sequence[str], cards: Sequence[Mapping[str, Any]]) -> list[str]:
    """The UUIDs of these cards and MIG devices that the requests name; ``cards`` are those of the node, as _gpu/processes reads them."""
    names = {one for one in requests if one}
    return [
        card["uuid"] for card in cards if names & {_EVERY, str(card["index"])} or any(card["uuid"].startswith(one) for one in names)
    ]


def _given(record: TaskRecord) -> tuple[Given, ...]:
    named = tuple(Given(kind, value) for kind, value in dict.fromkeys(record.named))
    return named + tuple(Given(kind, "", True) for kind, amount in record.amounts if amount)


def _read(path: str) -> Container | None:
    """None for one that does not run, or of which nothing can be read: it is being made, or removed."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            found = json.load(stream)
        if found["State"]["Running"] is not True:
            return None
        one = _container(found)
        return one if one.task else one._replace(requests=_requests(os.path.join(os.path.dirname(path), _HOST)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _requests(path: str) -> Sequence[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return requested(json.load(stream))
    except (OSError, ValueError, TypeError, AttributeError):
        return ()


def _container(found: Mapping[str, Any]) -> Container:
    labels = {str(key): str(value) for key, value in (found["Config"].get("Labels") or {}).items()}
    return Container(text_of(str(found["Name"]).lstrip("/")), labels.get(TASK, ""), labels.get(SERVICE, ""), labels)
