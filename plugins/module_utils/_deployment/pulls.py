# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans which nodes pull which image before an update, and interprets the tasks that pull (pure).

A pull is a one-shot service on one node. Its entrypoint does not exist in any image, so nothing of the image runs: the node pulls the image, creates
the container, and fails to start it. A global job of swarm would run again at any update.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import hashlib
from typing import Any, Iterable, Mapping, Sequence

from .._ledger.listed import Listed
from .._placement.shortage import size_of
from .._swarm.owned_labels import PULL
from .._tasks.tasks import ALLOCATED, ENDED, PULL_NAME, WAITING, WANTED

# How many nodes pull at the same time, because all of them load one registry.
AT_ONCE = 5
ENTRYPOINT = "/gpu-swarm-pull"
STOP_GRACE_NS = 1000000000
QUEUED, PULLING, PULLED, FAILED = "queued", "pulling", "pulled", "failed"
NODE_GONE = "the node is down, or takes no tasks any more"
# The agent of a node only logs why a pull failed, and then reports that it has no such image (moby daemon/cluster/executor/container/controller.go).
_NO_IMAGE, _LOOK = "No such image", "%s. On the node, 'journalctl -u docker' says why after 'pulling image failed': often a full disk or a login"


def plan(images: Mapping[str, str], specs: Iterable[Mapping[str, Any]], explained: Iterable[Mapping[str, Any]], listed: Listed) -> dict[str, Any]:
    """Return (``pulls``) which nodes have to pull, and (``there``) the images that some of the nodes have already.

    ``images`` has the image of each service, with its digest. The nodes are those where tasks of the service run now, and one more node where the
    service fits for each replica that is new. A node that runs a task with the same digest has the image.
    """
    open_nodes = {node["ID"]: node["Description"].get("Hostname", "") for node in listed.nodes if _takes_tasks(node)}
    service_ids = {service["Spec"]["Name"]: service["ID"] for service in listed.services}
    live = [task for task in listed.tasks if _is_live(task) and task.get("NodeID") in open_nodes]
    present = {(task["NodeID"], _digest_of(task)) for task in live if task["Status"]["State"] == "running"}
    feasible = {explanation["service"]: explanation["feasible"] for explanation in explained}
    wanted: dict[tuple[str, str], None] = {}
    for spec in specs:
        name = spec["Name"]
        if name in images:
            tasks_on = [task["NodeID"] for task in live if task.get("ServiceID") == service_ids.get(name)]
            nodes = _nodes(spec, tasks_on, [node_id for node_id in feasible.get(name, ()) if node_id in open_nodes])
            wanted.update(((node_id, images[name]), None) for node_id in nodes)
    missing = [(node_id, image) for node_id, image in wanted if (node_id, _digest(image)) not in present]
    pulls = [{"node": node_id, "hostname": open_nodes[node_id], "image": image} for node_id, image in missing]
    return {"pulls": pulls, "there": sorted({image for node_id, image in wanted if (node_id, image) not in missing})}


def _nodes(spec: Mapping[str, Any], tasks_on: Sequence[str], feasible: Iterable[str]) -> list[str]:
    now = list(dict.fromkeys(tasks_on))
    others = [node_id for node_id in feasible if node_id not in now]
    at_once = size_of({"Spec": spec}).at_once
    return now + (others if at_once is None else others[: max(0, at_once - len(tasks_on))])


def _takes_tasks(node: Mapping[str, Any]) -> bool:
    return node["Status"].get("State") == "ready" and node["Spec"].get("Availability") == "active"


def _is_live(task: Mapping[str, Any]) -> bool:
    return task["Status"]["State"] in ALLOCATED and task.get("DesiredState") in WANTED


def _digest_of(task: Mapping[str, Any]) -> str:
    return _digest(((task.get("Spec") or {}).get("ContainerSpec") or {}).get("Image") or "")


def _digest(image: str) -> str:
    """Return the digest in an image's reference. '' if the reference has none; no image with a digest is equal to that."""
    return image.partition("@")[2]


def service(stack: str, node_id: str, image: str) -> dict[str, Any]:
    """Return the specification of the service with which a node pulls an image. It reserves nothing, and requests no GPU."""
    # Docker allows at most 63 characters in a name, and a stack's name has at most 40.
    suffix = hashlib.sha256(("%s %s" % (node_id, image)).encode("utf-8")).hexdigest()[:7]
    return {
        "Name": "%s%s-%s" % (PULL_NAME, stack, suffix),
        "Labels": {PULL: stack},
        "Mode": {"Replicated": {"Replicas": 1}},
        "TaskTemplate": {
            "ContainerSpec": {
                "Image": image,
                "Command": [ENTRYPOINT],
                "Env": ["NVIDIA_VISIBLE_DEVICES=void"],  # every CUDA image requests all GPUs
                "StopGracePeriod": STOP_GRACE_NS,
            },
            "Placement": {"Constraints": [_constraint(node_id)]},
            "RestartPolicy": {"Condition": "none"},
            # The daemon's default driver may need more than the node can give.
            "LogDriver": {"Name": "json-file"},
        },
    }


def is_for(spec: Mapping[str, Any], pull: Mapping[str, Any]) -> bool:
    """Return whether this service pulls this image on this node."""
    template = spec.get("TaskTemplate") or {}
    image, placement = (template.get("ContainerSpec") or {}).get("Image"), template.get("Placement") or {}
    return image == pull["image"] and placement.get("Constraints") == [_constraint(pull["node"])]


def _constraint(node_id: str) -> str:
    return "node.id==%s" % node_id


def outcome(task: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return the state of a pull, and why it failed or does not begin.

    A container exists only if the image is on the node, whatever happened to the container then.
    """
    if task is None:
        return PULLING, ""
    status = task["Status"]
    if (status.get("ContainerStatus") or {}).get("ContainerID"):
        return PULLED, ""
    if status["State"] in ENDED:
        reason = str(status.get("Err") or status.get("Message") or "no reason given").rstrip(".")
        return FAILED, _LOOK % reason if _NO_IMAGE in reason else reason
    if task.get("DesiredState") not in WANTED:
        return FAILED, NODE_GONE
    # The scheduler says why the task waits, if the node takes no tasks at the moment.
    return PULLING, str(status.get("Err") or "") if status["State"] in WAITING else ""
