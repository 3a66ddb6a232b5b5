# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the running containers, and what swarm gave to their tasks, from dockerd's files.

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
# The names of NVIDIA's cards in CDI, and the name for all of them.
_CDI, _EVERY = "nvidia.com/gpu=", "all"
_MOST = 64  # cards that one request can name


class Container(NamedTuple):
    """A running container."""

    name: str
    task: str  # the task's id; empty if it belongs to none
    service: str
    labels: Mapping[str, str]
    requests: Sequence[str] = ()  # without a task: the cards that were requested of dockerd, by dockerd's names


class Given(NamedTuple):
    """One resource that swarm gave a task. ``amount``: a part of the kind's cards, without a name."""

    kind: str
    value: str
    amount: bool = False


class Containers:
    """The containers. A file is read again only if it has changed."""

    def __init__(self, data_root: str) -> None:
        self._data_root = data_root
        self._seen: dict[str, tuple[object, Container | None]] = {}
        self._given: dict[str, Sequence[Given]] = {}
        self._over: set[str] = set()

    def running(self) -> dict[str, Container]:
        """Return the running containers by id. Raises OSError if dockerd's directory cannot be read."""
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
        """Return what swarm gave this task; None if that cannot be read now."""
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
        """Return whether a container runs whose task swarm does not know: started by hand, or its image has the label of a task."""
        return self.given(task) is not None and task in self._over


def requested(host: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what `docker run --gpus` and `--device nvidia.com/gpu=…` requested: indices, UUIDs, or all. ``host`` is the HostConfig."""
    found: list[str] = []
    for one in host.get("DeviceRequests") or ():
        ids, driver = [str(name) for name in one.get("DeviceIDs") or ()], one.get("Driver") or ""
        if driver == "cdi":
            found += [name[len(_CDI) :] for name in ids if name.startswith(_CDI)]
        elif driver in ("", "nvidia") and any("gpu" in several for several in one.get("Capabilities") or ()):
            count = int(one.get("Count") or 0)
            # A count means the first cards (moby, daemon/nvidia_linux.go), also if Docker 29 injects them by CDI.
            found += ids or ([_EVERY] if count < 0 else map(str, range(min(count, _MOST))))
    return tuple(found[:_MOST])


def cards_of(requests: Sequence[str], cards: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the UUIDs that the requests name. ``cards`` are the node's cards and MIG devices, as _gpu/processes reads them."""
    names = {one for one in requests if one}
    return [
        card["uuid"] for card in cards if names & {_EVERY, str(card["index"])} or any(card["uuid"].startswith(one) for one in names)
    ]


def _given(record: TaskRecord) -> tuple[Given, ...]:
    named = tuple(Given(kind, value) for kind, value in dict.fromkeys(record.named))
    return named + tuple(Given(kind, "", True) for kind, amount in record.amounts if amount)


def _read(path: str) -> Container | None:
    """Return a container. None if it does not run or cannot be read, because it is being created or removed."""
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
