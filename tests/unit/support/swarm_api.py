# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""JSON of a manager's API: small objects in the form of Docker 20.10.24, and whole recorded answers."""

from __future__ import annotations

import json
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data" / "swarm"
# When the answers in DATA were recorded.
RECORDED_AT = "2026-11-21T01:44:12.450732515Z"

A = "GPU-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30"
B = "GPU-5fa2e7a4-7777-4c53-9d1f-0c9a7d1e2f31"


def named(*values, kind="NVIDIA-GPU"):
    return [{"NamedResourceSpec": {"Kind": kind, "Value": value}} for value in values]


def discrete(count, kind="VRAM"):
    return [{"DiscreteResourceSpec": {"Kind": kind, **({"Value": count} if count else {})}}]


def node(node_id="n1", labels=None, availability="active", resources=(), engine="26.1.5+dfsg1", leader=False, **status):
    made = {
        "ID": node_id,
        "Version": {"Index": 9},
        "Spec": {"Labels": dict(labels or {}), "Role": "manager" if leader else "worker", "Availability": availability},
        "Description": {
            "Hostname": "host-" + node_id,
            "Platform": {"Architecture": "x86_64", "OS": "linux"},
            "Resources": {"NanoCPUs": 2000000000, "MemoryBytes": 25276510208},
            "Engine": {"EngineVersion": engine, "Plugins": []},
        },
        "Status": {"State": "ready", "Addr": "192.0.2.1", **status},
    }
    if resources:
        made["Description"]["Resources"]["GenericResources"] = list(resources)
    if leader:
        made["ManagerStatus"] = {"Leader": True, "Reachability": "reachable", "Addr": "192.0.2.9:2377"}
    return made


def recorded(name):
    """Return a recorded answer of a manager with Docker 26.1.5: nodes, services or tasks."""
    return json.loads((DATA / (name + ".json")).read_text(encoding="utf-8"))


def reserving(wants):
    """Return the resources of a specification. The keys NanoCPUs and MemoryBytes have the same meaning as in the API."""
    plain = {key: wants[key] for key in ("NanoCPUs", "MemoryBytes") if key in wants}
    generic = [item for kind, count in wants.items() if kind not in plain for item in discrete(count, kind)]
    return {"Reservations": {**plain, **({"GenericResources": generic} if generic else {})}} if wants else {}


def placement(constraints=(), platforms=()):
    found = {"Constraints": list(constraints)} if constraints else {}
    if platforms:
        found["Platforms"] = [{"OS": system, "Architecture": architecture} for system, architecture in platforms]
    return found


def task(
    task_id,
    node_id="n1",
    given=(),
    state="running",
    desired="running",
    service="s1",
    constraints=(),
    slot=1,
    reserves=None,
    platforms=(),
    restart="any",
    job=False,
    said="started",
    error=None,
    since="2026-11-20T12:00:00.123456789Z",
):
    made = {
        "ID": task_id,
        "Version": {"Index": 20},
        "CreatedAt": since,
        "Labels": {},
        "Spec": {
            "ContainerSpec": {"Image": "bb:1", "Init": False},
            "Resources": reserving(reserves or {}),
            "Placement": placement(constraints, platforms),
            "ForceUpdate": 0,
        },
        "ServiceID": service,
        "Status": {"Timestamp": since, "State": state, "Message": said, "PortStatus": {}},
        "DesiredState": desired,
    }
    if restart:
        made["Spec"]["RestartPolicy"] = {"Condition": restart, "Delay": 5000000000, "MaxAttempts": 0}
    if error:
        made["Status"]["Err"] = error
    if job:
        made["JobIteration"] = {}
    if slot:
        made["Slot"] = slot
    if node_id:
        made["NodeID"] = node_id
    if given:
        made["GenericResources"] = list(given)
    return made


def pending(task_id, reserves=None, error="no suitable node (insufficient resources on 1 node)", **options):
    options = {"node_id": None, "state": "pending", "said": "pending task scheduling", **options}
    return task(task_id, reserves=reserves, error=error, **options)


def service(service_id="s1", name="train", mode="Replicated", constraints=(), env=(), reserves=None, platforms=()):
    template = {"ContainerSpec": {"Image": "bb:1"}, "Placement": placement(constraints, platforms)}
    if env:
        template["ContainerSpec"]["Env"] = list(env)
    if reserves:
        template["Resources"] = reserving(reserves)
    return {"ID": service_id, "Spec": {"Name": name, "Mode": {mode: {}}, "TaskTemplate": template}}


def cluster(labels=None):
    """Return the swarm as /info shows it, without the join tokens that /swarm has."""
    return {
        "ID": "c1",
        "Version": {"Index": 10},
        "Spec": {
            "Name": "default",
            "Labels": dict(labels or {}),
            "Orchestration": {"TaskHistoryRetentionLimit": 5},
            "Raft": {"SnapshotInterval": 10000, "KeepOldSnapshots": 0, "LogEntriesForSlowFollowers": 500, "ElectionTick": 10, "HeartbeatTick": 1},
            "Dispatcher": {"HeartbeatPeriod": 5000000000},
            "CAConfig": {"NodeCertExpiry": 7776000000000000},
            "TaskDefaults": {},
            "EncryptionConfig": {"AutoLockManagers": True},
        },
    }
