# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Saves what a deployment reads of its swarm, and answers a deployment from what was saved (pure, apart from the calls of a manager).

The saved ledger belongs into a repository, so it has only the fields that are compared: no environment, no arguments, no contents of configs and
secrets, and of a service's labels only those of Docker and of this collection.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
from typing import Any, Mapping

from .._errors import GpuSwarmError
from .._swarm.manager import Manager
from .._swarm.owned_labels import PREFIX
from .._tasks.tasks import ALLOCATED, WAITING, WANTED
from . import swarm_answer
from .stack import NAMESPACE

# The first key of the file. Its value is the version of the file's form.
MARK = "gpu_swarm_ledger"
VERSION = 1
SAVE = "Save the ledger again: ansible-playbook -i inventory.yml fleet.gpu_swarm.status -e output=ledger -e to=ledger.json."

# Which fields are kept: ANY keeps a value as it is, NAME keeps a text that is needed, a mapping keeps these keys, and a list keeps each entry.
ANY, NAME = None, "name"
_PORTS = {"Ports": ANY}
_TASK_SPEC = {
    "ContainerSpec": {"Labels": {NAMESPACE: ANY}, "Mounts": [{"Type": ANY, "VolumeOptions": {"DriverConfig": {"Name": ANY}}}]},
    "Resources": {"Reservations": ANY},
    "RestartPolicy": ANY,
    "Placement": ANY,
    "LogDriver": {"Name": ANY},
    "ForceUpdate": ANY,
}
_NODE = {
    "ID": ANY,
    "UpdatedAt": ANY,
    "Spec": {"Role": ANY, "Availability": ANY, "Labels": ANY},
    "Description": {
        "Hostname": ANY,
        "Platform": ANY,
        "Resources": ANY,
        "Engine": {"EngineVersion": ANY, "Labels": ANY, "Plugins": ANY},
    },
    "Status": {"State": ANY, "Message": ANY, "Addr": ANY},
    "ManagerStatus": {"Leader": ANY, "Reachability": ANY, "Addr": ANY},
}
_TASK = {
    "ID": ANY,
    "CreatedAt": ANY,
    "ServiceID": ANY,
    "NodeID": ANY,
    "Slot": ANY,
    "DesiredState": ANY,
    "JobIteration": ANY,
    "Status": {"State": ANY, "Timestamp": ANY, "PortStatus": _PORTS},
    "Spec": _TASK_SPEC,
    "GenericResources": ANY,
    "AssignedGenericResources": ANY,
    "NetworksAttachments": [{"Network": {"ID": ANY, "DriverState": {"Name": ANY}, "Spec": {"Name": ANY, "Ingress": ANY}}}],
}
_SERVICE = {
    "ID": ANY,
    "Spec": {"Name": NAME, "Labels": ANY, "Mode": ANY, "EndpointSpec": _PORTS, "UpdateConfig": ANY, "TaskTemplate": _TASK_SPEC},
    "PreviousSpec": {"EndpointSpec": _PORTS},
    "Endpoint": _PORTS,
    "UpdateStatus": {"State": ANY, "StartedAt": ANY},
    "JobStatus": ANY,
}
_NETWORK = {
    "Id": ANY,
    "Name": NAME,
    "Scope": ANY,
    "Ingress": ANY,
    "Labels": {NAMESPACE: ANY},
    "IPAM": {"Config": [{"Subnet": ANY}]},
}
_OBJECT = {"ID": ANY, "Spec": {"Name": NAME, "Labels": {NAMESPACE: ANY}}}
_LISTS: dict[str, Any] = {"nodes": _NODE, "tasks": _TASK, "services": _SERVICE, "networks": _NETWORK, "configs": _OBJECT, "secrets": _OBJECT}
_NO_OPTIONS: dict[str, Any] = {
    "services": [],
    "labels": {},
    "images": [],
    "networks": [],
    "external": {},
    "compared": None,
    "prune": False,
}


def save(manager: Manager) -> dict[str, Any]:
    """Read the swarm, and return the ledger to save."""
    lists: dict[str, Any] = {
        "nodes": manager.nodes(),
        "tasks": [task for task in manager.tasks() if task["Status"]["State"] in ALLOCATED | WAITING or task.get("DesiredState") in WANTED],
        "services": [_without_foreign_labels(service) for service in manager.services()],
        "networks": manager.networks(),
        "configs": manager.configs_labelled(),
        "secrets": manager.secrets_labelled(),
    }
    kept = {kind: [_kept(item, shape, kind) for item in lists[kind]] for kind, shape in _LISTS.items()}
    return {MARK: VERSION, "at": manager.time, "manager": manager.node_id, **kept}


def to_text(ledger: Mapping[str, Any]) -> str:
    """Return the text of the file, with a line for each object, so that a comparison of two files is readable."""
    parts = ['"%s": %s' % (key, json.dumps(value)) for key, value in ledger.items() if key not in _LISTS]
    lines = {kind: ",\n".join(json.dumps(item, sort_keys=True) for item in ledger[kind]) for kind in _LISTS}
    return "{\n%s\n}\n" % ",\n".join([*parts, *('"%s": [%s]' % (kind, "\n%s\n" % text if text else "") for kind, text in lines.items())])


def load(text: str, file: str) -> SavedSwarm:
    """Return the swarm that was saved. Raise GpuSwarmError if the text is no saved ledger, or one of another version."""
    try:
        ledger = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise GpuSwarmError("%s is no saved ledger: it is not JSON (%s). %s" % (file, exc, SAVE)) from exc
    if not isinstance(ledger, dict) or MARK not in ledger:
        raise GpuSwarmError("%s is no saved ledger: it has no %s. What status prints with output=json is something else. %s" % (file, MARK, SAVE))
    if ledger[MARK] != VERSION:
        words = "%s has version %s of the saved ledger, and this release of fleet.gpu_swarm reads version %d. %s"
        raise GpuSwarmError(words % (file, json.dumps(ledger[MARK])[:20], VERSION, SAVE))
    try:
        kept = {kind: [_kept(item, shape, kind) for item in _list(ledger.get(kind), kind)] for kind, shape in _LISTS.items()}
        return SavedSwarm(ledger.get("at"), ledger.get("manager"), kept, file)
    except ValueError as exc:
        raise _damaged(file, exc) from exc


class SavedSwarm:
    """Answers the questions of a deployment like a manager. It knows no images, no registries, and no contents of configs and secrets."""

    def __init__(self, at: Any, manager: Any, lists: Mapping[str, list[dict[str, Any]]], file: str) -> None:
        self.time = at
        self.node_id = manager
        self._lists = lists
        self._file = file

    def answer(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the module swarm_stack_on_manager would answer. Raise GpuSwarmError if the file is damaged."""
        manager: Any = self
        unknown: dict[str, Any] = {"stack_file": None, "query": {}, "logins": None}
        try:
            return swarm_answer.read(manager, {**_NO_OPTIONS, **options, **unknown})
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as exc:  # a field has another type than Docker's API gives it
            raise _damaged(self._file, exc) from exc

    # -- in place of a Manager -------------------------------------------------------------------------------------

    def nodes(self) -> list[dict[str, Any]]:
        return self._lists["nodes"]

    def tasks(self) -> list[dict[str, Any]]:
        return self._lists["tasks"]

    def services(self) -> list[dict[str, Any]]:
        return self._lists["services"]

    def networks(self) -> list[dict[str, Any]]:
        return self._lists["networks"]

    def names(self) -> dict[str, list[str]]:
        return {kind: [item["Spec"]["Name"] for item in self._lists[kind]] for kind in ("services", "secrets", "configs")}

    def services_labelled(self, label: str) -> list[dict[str, Any]]:
        return self._labelled("services", label)

    def configs_labelled(self, label: str = "") -> list[dict[str, Any]]:
        return self._labelled("configs", label)

    def secrets_labelled(self, label: str = "") -> list[dict[str, Any]]:
        return self._labelled("secrets", label)

    def networks_labelled(self, label: str) -> list[dict[str, Any]]:
        return [network for network in self._lists["networks"] if _has_label(network.get("Labels"), label)]

    def image_environment(self, dummy_image: str) -> list[str]:
        return []

    def _labelled(self, kind: str, label: str) -> list[dict[str, Any]]:
        return [item for item in self._lists[kind] if not label or _has_label(item["Spec"].get("Labels"), label)]


def _has_label(labels: Mapping[str, str] | None, label: str) -> bool:
    key, equal, value = label.partition("=")
    return (labels or {}).get(key) == value if equal else key in (labels or {})


def _without_foreign_labels(service: Mapping[str, Any]) -> dict[str, Any]:
    labels = service["Spec"].get("Labels") or {}
    own = {key: value for key, value in labels.items() if key.startswith(PREFIX) or key == NAMESPACE}
    return {**service, "Spec": {**service["Spec"], "Labels": own}}


def _kept(value: Any, shape: Any, where: str) -> Any:
    """Return the fields of the shape. Raise ValueError if the value has another form. A missing part stays missing."""
    if shape is NAME and not isinstance(value, str):
        raise ValueError("%s is no text" % where)
    if shape in (ANY, NAME) or value is None:
        return value
    if isinstance(shape, list):
        return [_kept(item, shape[0], where) for item in _list(value, where)]
    if not isinstance(value, dict):
        raise ValueError("%s is no object" % where)
    return {key: _kept(value[key], below, "%s.%s" % (where, key)) for key, below in shape.items() if key in value}


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("%s is no list" % where)
    return value


def _damaged(file: str, problem: Exception) -> GpuSwarmError:
    return GpuSwarmError("The saved ledger %s is damaged: %s. %s" % (file, str(problem) or type(problem).__name__, SAVE))
