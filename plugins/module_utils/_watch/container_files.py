# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the running containers, and the resources of their tasks, from dockerd's files.

It does not call dockerd, because the watcher reads these files each minute. Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Mapping, NamedTuple, Sequence

from .._guard import bolt, engine_record
from .._guard.task_record import RecordError, TaskRecord
from .._health.allocation_findings import short_text
from .written import stamp

TASK, SERVICE = "com.docker.swarm.task.id", "com.docker.swarm.service.name"
_ID = re.compile(r"[0-9a-f]{64}")
_CONFIG, _HOST = "config.v2.json", "hostconfig.json"
# The beginning of the names of NVIDIA's cards in CDI, and the name that means all cards.
_CDI, _EVERY = "nvidia.com/gpu=", "all"
_MOST = 64  # the most cards in one request


class Container(NamedTuple):
    """A running container."""

    name: str
    task: str  # the task's id; empty without a task
    service: str
    labels: Mapping[str, str]
    requests: Sequence[str] = ()  # the cards that a container without a task requested, by dockerd's names


class Assigned(NamedTuple):
    """One resource that swarm assigned to a task. ``amount``: whether the resource is an amount, which has no name."""

    kind: str
    value: str
    amount: bool = False


class Containers:
    """The running containers. A file is read again only if it has changed."""

    def __init__(self, data_root: str) -> None:
        self._data_root = data_root
        self._cache: dict[str, tuple[object, Container | None]] = {}
        self._assigned: dict[str, Sequence[Assigned]] = {}
        self._over: set[str] = set()

    def running(self) -> dict[str, Container]:
        """Return the running containers by id. Raises OSError if dockerd's directory cannot be read."""
        folder = os.path.join(self._data_root, "containers")
        ids = [container_id for container_id in os.listdir(folder) if _ID.fullmatch(container_id)]
        seen = {}
        for container_id in ids:
            path = os.path.join(folder, container_id, _CONFIG)
            file_stamp, cached = stamp(path), self._cache.get(container_id)
            seen[container_id] = cached if cached and cached[0] == file_stamp and file_stamp is not None else (file_stamp, _read(path))
        self._cache = seen
        running = {container_id: container for container_id, (_stamp, container) in seen.items() if container}
        tasks = {container.task for container in running.values()}
        self._assigned = {task: resources for task, resources in self._assigned.items() if task in tasks}
        self._over &= tasks
        return running

    def assigned(self, task: str) -> Sequence[Assigned] | None:
        """Return the resources that swarm assigned to this task; None if the record cannot be read now."""
        if task not in self._assigned:
            try:
                record = engine_record.task(self._data_root, task)
            except (bolt.BoltError, RecordError, OSError):
                return None
            self._assigned[task] = _assigned_resources(record) if record else ()
            if record is None:
                self._over.add(task)
        return self._assigned[task]

    def is_over(self, task: str) -> bool:
        """Return whether swarm does not know the task of a running container, because someone started the container by hand with the label of a
        task."""
        return self.assigned(task) is not None and task in self._over


def requested_cards(host: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cards that `docker run --gpus` or `--device nvidia.com/gpu=…` requested: indices, UUIDs, or all. ``host`` is the HostConfig."""
    cards: list[str] = []
    for request in host.get("DeviceRequests") or ():
        ids, driver = [str(name) for name in request.get("DeviceIDs") or ()], request.get("Driver") or ""
        if driver == "cdi":
            cards += [name[len(_CDI) :] for name in ids if name.startswith(_CDI)]
        elif driver in ("", "nvidia") and any("gpu" in capabilities for capabilities in request.get("Capabilities") or ()):
            count = int(request.get("Count") or 0)
            # A count requests the first cards (moby, daemon/nvidia_linux.go), even if Docker 29 adds the cards by CDI.
            cards += ids or ([_EVERY] if count < 0 else map(str, range(min(count, _MOST))))
    return tuple(cards[:_MOST])


def cards_of(requests: Sequence[str], cards: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the UUIDs that the requests name. ``cards`` are the node's cards and MIG devices, as _gpu/processes reads them."""
    names = {name for name in requests if name}
    return [
        card["uuid"] for card in cards if names & {_EVERY, str(card["index"])} or any(card["uuid"].startswith(name) for name in names)
    ]


def _assigned_resources(record: TaskRecord) -> tuple[Assigned, ...]:
    with_names = tuple(Assigned(kind, value) for kind, value in dict.fromkeys(record.named))
    return with_names + tuple(Assigned(kind, "", True) for kind, amount in record.amounts if amount)


def _read(path: str) -> Container | None:
    """Return a container. None if the container does not run, or if its files cannot be read while it is being created or removed."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            config = json.load(stream)
        if config["State"]["Running"] is not True:
            return None
        container = _container(config)
        return container if container.task else container._replace(requests=_requests(os.path.join(os.path.dirname(path), _HOST)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _requests(path: str) -> Sequence[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return requested_cards(json.load(stream))
    except (OSError, ValueError, TypeError, AttributeError):
        return ()


def _container(config: Mapping[str, Any]) -> Container:
    labels = {str(key): str(value) for key, value in (config["Config"].get("Labels") or {}).items()}
    return Container(short_text(str(config["Name"]).lstrip("/")), labels.get(TASK, ""), labels.get(SERVICE, ""), labels)
