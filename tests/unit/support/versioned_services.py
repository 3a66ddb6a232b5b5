# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A manager whose services have versions, like in swarm. An update fails if somebody else has written the service after it was read."""

from __future__ import annotations

import copy
import struct

import swarm_api

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import NotFound, OutOfSequence, SwarmError


class VersionedServices:
    """Tests set ``before`` to act between two calls. ``before`` gets the name of each call and the id of the service."""

    time = "2026-11-21T02:10:00Z"
    spec = swarm_api.cluster()["Spec"]

    def __init__(self, services=(), tasks=(), lease=None, nodes=(), log=b"hello\n"):
        self._services = {one["ID"]: copy.deepcopy({"Version": {"Index": 1}, **one}) for one in services}
        self._tasks = [dict(copy.deepcopy(one)) for one in tasks]
        self._labels = {"gpu-swarm.lease": lease} if lease else {}
        self._nodes, self._log = list(nodes), log
        self.removed, self.updated, self.created = [], [], []
        self._gone = {}  # removed services whose tasks have not ended yet
        self.before = lambda call, service_id: None

    def cluster(self):
        return {**swarm_api.cluster(self._labels), "UpdatedAt": self.time}, self.time

    def update_cluster(self, version, spec):
        self._labels = spec["Labels"]

    def leader(self):
        return "m1"

    def nodes(self):
        return self._nodes

    def each_service(self, label=""):
        yield from self.services_labelled(label)

    def services_labelled(self, label):
        return self._labelled(self._services, label)

    def _labelled(self, services, label):
        key, _equals, value = label.partition("=")
        found = [one for one in services.values() if not key or (one["Spec"].get("Labels") or {}).get(key, None) is not None]
        return copy.deepcopy([one for one in found if not value or one["Spec"]["Labels"][key] == value])

    def services(self):
        return copy.deepcopy(list(self._services.values()))

    def service(self, service_id):
        self.before("service", service_id)
        if service_id not in self._services:
            raise NotFound("no such service")
        return copy.deepcopy(self._services[service_id])

    def tasks(self):
        yield from copy.deepcopy(self._tasks)

    def tasks_labelled(self, label):
        mine = {one["ID"] for one in self._labelled({**self._gone, **self._services}, label)}
        return [copy.deepcopy(one) for one in self._tasks if one["ServiceID"] in mine]

    def tasks_of(self, service_id):
        self.before("tasks_of", service_id)
        return [copy.deepcopy(one) for one in self._tasks if one["ServiceID"] == service_id]

    def task_log(self, task_id):
        yield struct.pack(">BxxxI", 1, len(self._log)) + self._log if self._log else struct.pack(">BxxxI", 3, 2) + b"no"

    def create_service(self, spec):
        if any(one["Spec"]["Name"] == spec["Name"] for one in self._services.values()):
            raise SwarmError("The manager refused to create it: name conflicts with an existing object.")
        service_id = f"new{len(self.created)}"
        self.created.append(spec["Name"])
        self._services[service_id] = {"ID": service_id, "Version": {"Index": 1}, "Spec": copy.deepcopy(dict(spec))}
        return service_id

    def update_service(self, service_id, version, spec):
        self.before("update_service", service_id)
        self.write(service_id, version, spec)
        self.updated.append(service_id)

    def write(self, service_id, version, spec):
        if service_id not in self._services:
            raise NotFound("no such service")
        one = self._services[service_id]
        if one["Version"]["Index"] != version:
            raise OutOfSequence("update out of sequence")
        self._services[service_id] = {**one, "Version": {"Index": version + 1}, "Spec": copy.deepcopy(spec)}

    def force(self, service_id):
        """Run the service again, as another user would. The new task exists a moment later."""
        one = self.service_as_it_is(service_id)
        template = one["Spec"]["TaskTemplate"]
        spec = dict(one["Spec"], TaskTemplate=dict(template, ForceUpdate=template.get("ForceUpdate", 0) + 1))
        self.write(service_id, one["Version"]["Index"], spec)

    def service_as_it_is(self, service_id):
        return copy.deepcopy(self._services[service_id])

    def add_task(self, one):
        self._tasks.append(one)

    def remove_service(self, service_id):
        self.before("remove_service", service_id)
        if service_id in self._services:
            self._gone[service_id] = self._services.pop(service_id)
            self.removed.append(service_id)
