# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services of a queue in the form of the API."""

from __future__ import annotations

from swarm_api import reserving

GPU = "NVIDIA-GPU"
CREATED = "2026-11-20T12:00:00.123456789Z"


def queued(name="train", reserves=None, queue="research", state=None, replicas=0, mode=None, condition="none", **labels):
    """Return a service of a queue. An underscore in a label's name stands for a hyphen; ``owner="alice"`` is gpu-swarm.owner=alice."""
    own = {
        "gpu-swarm." + key.replace("_", "-"): value for key, value in {"queue": queue, "queue_state": state, **labels}.items() if value is not None
    }
    template = {"ContainerSpec": {"Image": "my/training:1"}, "Placement": {}, "Resources": reserving({GPU: 2} if reserves is None else reserves)}
    if condition:
        template["RestartPolicy"] = {"Condition": condition}
    spec = {"Name": name, "Labels": own, "Mode": {"Replicated": {"Replicas": replicas}} if mode is None else mode, "TaskTemplate": template}
    return {"ID": "id" + name, "CreatedAt": CREATED, "Spec": spec}
