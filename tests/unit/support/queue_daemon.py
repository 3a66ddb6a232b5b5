# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fake dockerd in front of a ``QueueSwarm``: its API over HTTP."""

from __future__ import annotations

import json
import re
import struct
from urllib.parse import parse_qs, urlsplit

from docker_daemon import VERSION, Daemon, Streamed

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import NotFound, OutOfSequence


def frame(text, source=1):
    data = text.encode()
    return struct.pack(">BxxxI", source, len(data)) + data


class QueueDaemon(Daemon):
    """``logs`` has the parts of the log of each task by the name of its service. Parts in ``later`` come only in a stream that follows."""

    def __init__(self, at, swarm):
        super().__init__(at, {"Api-Version": "1.41"})
        self.swarm, self.logs, self.later, self.refusal = swarm, {}, {}, None

    def answer(self, path):
        url, method = urlsplit(VERSION.sub("", path)), self.methods[-1]
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        filters = json.loads(query.get("filters", "{}"))
        kind, _slash, rest = url.path.strip("/").partition("/")
        if kind == "_ping":
            return 200, "OK"
        if kind == "info":
            found, clock = self.swarm.cluster()
            swarm = {"LocalNodeState": "active", "ControlAvailable": True, "NodeID": "m1", "Cluster": found}
            return {"Swarm": swarm, "SystemTime": clock}
        if kind == "networks":
            return []
        if kind == "nodes":
            return self.swarm.nodes_now
        if kind == "services":
            return self._services(method, rest, query, filters)
        if rest.endswith("/logs"):
            return self._log(rest.partition("/")[0], "follow" in query)
        if "service" in filters:
            return self.swarm.tasks_of(filters["service"][0])
        return self.swarm.tasks_labelled(filters["label"][0]) if "label" in filters else list(self.swarm.tasks())

    def _services(self, method, rest, query, filters):
        name, _slash, verb = rest.partition("/")
        try:
            if rest == "create":
                return self._create(self.bodies[-1])
            if verb == "update":
                self.swarm.update_service(name, int(query["version"]), self.bodies[-1])
                return {}
            if method == "DELETE":
                self.swarm.remove_service(name)
                return {}
            if name:
                return self.swarm.service(name)
        except NotFound:
            return 404, '{"message":"service not found"}'
        except OutOfSequence:
            return 500, '{"message":"rpc error: code = Unknown desc = update out of sequence"}'
        return self.swarm.services_labelled(filters["label"][0]) if "label" in filters else self.swarm.services()

    def _create(self, spec):
        if self.refusal:
            return 400, json.dumps({"message": self.refusal(spec)})
        names = [service["Spec"]["Name"] for service in self.swarm.services_now.values()]
        if spec["Name"] in names:
            return 409, '{"message":"name conflicts with an existing object: service %s already exists"}' % spec["Name"]
        self.swarm.create_service(spec)
        return 201, json.dumps({"ID": next(reversed(self.swarm.services_now))})

    def _log(self, task_id, follow):
        service_id = next(task["ServiceID"] for task in self.swarm.tasks_now if task["ID"] == task_id)
        name = re.sub("^id", "", service_id)
        return Streamed([*self.logs.get(name, []), *(self.later.get(name, []) if follow else [])])
