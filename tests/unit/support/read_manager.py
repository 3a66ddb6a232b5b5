# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A manager with one task and one service, for code that reads the swarm from time to time. It counts the readings, and each takes time."""

from __future__ import annotations

from swarm_api import A, named, node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import KEY
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import SwarmError

NOW = "2026-11-20T13:00:00.5Z"
LAST_RUN = '{"ended": "2026-11-20T12:00:00Z", "hosts": {"done": 3}}'


class ReadManager:
    swarm_id, node_id = "c1", "n1"

    def __init__(self, takes=0.0):
        self.takes, self.now, self.readings, self.failure = takes, 1000.0, 0, None

    def clock(self):
        return self.now

    def cluster(self):
        return {"Spec": {"Labels": {"gpu-swarm.last-run": LAST_RUN}}}, NOW

    def tasks(self):
        self.readings += 1
        self.now += self.takes
        if self.failure:
            raise SwarmError(self.failure)
        return iter([task("t1", given=named(A))])

    def services(self):
        return [service()]


def nodes(availability="active", label="ok", **status):
    one = node(resources=named(A), availability=availability, leader=True, **status)
    one["Description"]["Engine"]["Labels"] = {KEY: label}
    return [one]
