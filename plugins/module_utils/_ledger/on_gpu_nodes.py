# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds services that reserve no generic resource, but run tasks on nodes with GPUs (pure).

Also returns the command that keeps such a service off these nodes.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import shlex
from typing import Any, Iterable, Mapping, Sequence

from .._policy.labels import DEDICATED, Options
from .._tasks.tasks import is_global, is_job_service, is_pull, reservations
from .node_labels import prefixes
from .unreserved import has_gpus

# A service's mode in the API -> its name on the command line.
_MODES = {"Global": "global", "GlobalJob": "global-job", "ReplicatedJob": "replicated-job"}


def on_gpu_nodes(records: Iterable[Mapping[str, Any]], services: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the services as [{service, mode, tasks, nodes, dedicated, command}], ordered by name."""
    with_gpus = [record for record in records if has_gpus(record)]
    keys = _dedicated_keys(with_gpus)
    dedicated = {record["id"] for record in with_gpus if any(record["labels"].get(key) == "true" for key in keys)}
    places: dict[str, list[Mapping[str, Any]]] = {}
    for record in with_gpus:
        for task in record["tasks"]:
            if not task["holding"]:
                places.setdefault(task["service"], []).append(record)
    rows = []
    for service in services if places else ():
        name = service["Spec"]["Name"]
        if name in places and not is_pull(service) and not reservations(service["Spec"].get("TaskTemplate") or {}).get("GenericResources"):
            nodes = {record["id"]: record["hostname"] for record in places[name]}
            rows.append(
                {
                    "service": name,
                    "mode": next((mode for api_mode, mode in _MODES.items() if api_mode in service["Spec"].get("Mode", ())), "replicated"),
                    "tasks": len(places[name]),
                    "nodes": sorted(nodes.values()),
                    "dedicated": not dedicated.isdisjoint(nodes),
                    "command": _command(service, keys),
                }
            )
    return sorted(rows, key=lambda row: row["service"])


def _dedicated_keys(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the keys of the label for dedicated nodes: one key for each prefix that the labels of these nodes have."""
    used = {prefix for record in records for prefix in prefixes(record["labels"])}
    return sorted(prefix + DEDICATED for prefix in used or {Options().prefix})


def _command(service: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    """Return the command that keeps the service off dedicated nodes.

    None for a global service, because a global service is meant to run on each node. None also for a job, because any update would run the job again
    (moby#53632).
    """
    if is_global(service) or is_job_service(service):
        return None
    placement = (service["Spec"].get("TaskTemplate") or {}).get("Placement") or {}
    present = {"".join(constraint.split()) for constraint in placement.get("Constraints") or []}
    missing = [constraint for constraint in ("node.labels.%s!=true" % key for key in keys) if constraint not in present]
    options = " ".join("--constraint-add %s" % shlex.quote(constraint) for constraint in missing)
    return "docker service update %s %s" % (options, shlex.quote(service["Spec"]["Name"])) if missing else None
