# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readings of a small swarm at chosen times, for the code that observes a swarm between two runs."""

from __future__ import annotations

import swarm_api
from swarm_api import A, named

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import KEY
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.owners import owners_of
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.read import labels_of, ledger_with_findings
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.reading import Reading
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.owned_labels import PREFIX
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import stamp

DAY_S, HOUR = 86400, 3600
T = 20400 * DAY_S  # 2025-11-08
DAY = "2025-11-08"


def task(task_id="t1", since=T, state="running", given=None, created=None, **options):
    made = swarm_api.task(task_id, given=named(A) if given is None else given, state=state, since=None if since is None else stamp(since), **options)
    if created is None and since is not None:
        created = since
    return {**made, "CreatedAt": stamp(created) if created is not None else None}


def node(node_id="n1", resources=None, health=None, **options):
    made = swarm_api.node(node_id, resources=named(A) if resources is None else resources, **options)
    if health:
        made["Description"]["Engine"]["Labels"] = {KEY: health}
    return made


def service(service_id="s1", name="train", owner=None):
    made = swarm_api.service(service_id, name)
    if owner:
        made["Spec"]["Labels"] = {"gpu-swarm.owner": owner}
    return made


def reading(at=T, tasks=(), nodes=None, services=None, labels=None, leads=True, swarm_id="c1"):
    """Return a reading of these objects of the API. By default the swarm has node n1, which leads and has card A, and service train of alice."""
    nodes = [node(leader=True)] if nodes is None else nodes
    services = [service(owner="alice")] if services is None else services
    spec, listed = {"Labels": dict(labels or {})}, Listed(nodes, tasks, services, at)
    ledger = ledger_with_findings(listed, spec, PREFIX)
    ledger["owners"] = owners_of(services)
    ledger["swarm"] = dict(labels_of(spec, stamp(at), listed), id=swarm_id, node_id="n1")
    return Reading(at, nodes, list(tasks), services, spec, ledger, leads, "n1", "host-n1", swarm_id, ledger["owners"])
