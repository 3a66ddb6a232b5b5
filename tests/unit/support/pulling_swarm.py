# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A manager of a swarm whose nodes pull images for services."""

from __future__ import annotations

import swarm_api
from versioned_services import VersionedServices

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import SwarmError

DIGEST, NEXT = "sha256:" + 64 * "a", "sha256:" + 64 * "b"
NO_SUCH = "No such image: reg/web:2@" + NEXT
PULL = "gpu-swarm.pull"
PULLED, HANGS, GONE, CLOSED = "pulled", "hangs", "gone", "closed"
NO_NODE = "no suitable node (1 node not available for new tasks)"


class PullingSwarm(VersionedServices):
    """``nodes_do`` says by node what a pull there does: PULLED, HANGS, GONE (its node goes down), CLOSED (its node is paused), or the error with
    which it fails.

    A pull ends at the second reading of its task. ``registry`` has the digest of each image. ``killed`` ends the run before a call of this name.
    """

    def __init__(self, services=(), tasks=(), nodes=(), nodes_do=None, registry=None):
        super().__init__(services, tasks, nodes=nodes)
        self.nodes_do, self.registry = dict(nodes_do or {}), dict(registry or {})
        self.node_id, self.looked_up, self.logins, self.most = "n1", [], [], 0
        self._read, self.killed = {}, None

    def image_digest(self, image, login=None):
        self.looked_up.append((image, login))
        if image not in self.registry:
            raise SwarmError("The manager refused to look up the image %s: manifest unknown." % image)
        return self.registry[image]

    def create_service(self, spec, login=None):
        if self.killed == "create_service" and self.created:
            raise KeyboardInterrupt
        self.logins.append(login)
        service_id = super().create_service(spec)
        self.most = max(self.most, len(self.pulling()))
        return service_id

    def pulling(self):
        """Return (node, image) of each service that pulls."""
        return [(_node_of(one["Spec"]), _image_of(one["Spec"])) for one in self.services_labelled(PULL)]

    def tasks_labelled(self, label):
        return [task for one in self.services_labelled(label) for task in self._task(one["ID"], one["Spec"])]

    def _task(self, service_id, spec):
        self._read[service_id] = self._read.get(service_id, 0) + 1
        node_id = _node_of(spec)
        does, ended = self.nodes_do.get(node_id, PULLED), self._read[service_id] > 1
        task = swarm_api.task("p-" + service_id, node_id, service=service_id, state="preparing", restart="none", said="preparing")
        if ended and does == PULLED:
            task["DesiredState"] = "shutdown"
            task["Status"].update(State="failed", Err="starting container failed: no such file", ContainerStatus={"ContainerID": "c1"})
        elif ended and does == GONE:
            task["DesiredState"] = "shutdown"
        elif does == CLOSED:
            task["Status"].update(State="pending", Err=NO_NODE)
        elif ended and does != HANGS:
            task["DesiredState"] = "shutdown"
            task["Status"].update(State="rejected", Err=does)
        return [task]

    def configs_labelled(self, _label=""):
        return []

    secrets_labelled = networks_labelled = configs_labelled

    def networks(self):
        return []

    def create_config(self, name, data, labels):
        pass

    def remove_config(self, config_id):
        pass

    remove_secret = remove_config

    def image_environment(self, _image):
        return []


def _node_of(spec):
    (constraint,) = spec["TaskTemplate"]["Placement"]["Constraints"]
    return constraint.partition("node.id==")[2]


def _image_of(spec):
    return spec["TaskTemplate"]["ContainerSpec"]["Image"]
