# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A day on a small fleet, as a manager records it: services come and go, a card fails and returns, and the manager is away for a while."""

from __future__ import annotations

import json

from readings import node, reading, service, task
from swarm_api import named

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.recorder import Recorder
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch, stamp
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view import fleet_cards, status

MORNING = int(epoch("2026-11-20T06:00:00Z"))
MINUTE, HOUR = 60, 3600
H100 = [f"GPU-{digits}-9c1b-5d0a-8f6e-27d1c0a4b3e{number}" for number, digits in enumerate(("5fa2e7a4", "0b7c19d8"))]
T4 = [f"GPU-{digits}-1d4e-5b7f-9a21-6c0d8e4f2a1{number}" for number, digits in enumerate(("c3d81f60", "7e2a9b55", "a41f0c37", "18d6e2b9"))]
LABELS = {"gpu.healthy": "true", "gpu.memory": "80"}
BROKEN = H100[1]
SERVICES = [("train", "alice"), ("chat", "bob"), ("sweep", "alice"), ("notebook", None)]


def at(hours, minutes=0):
    return MORNING + hours * HOUR + minutes * MINUTE


def _nodes(now):
    first = {"labels": {**LABELS, "gpu.count": "2", "gpu.model": "NVIDIA-H100-80GB-HBM3"}, "health": "ok"}
    if at(3, 7) <= now < at(5):
        first["health"] = f"fault {BROKEN} reason=lost since={at(3, 6)}"
        marks = {"gpu-swarm.former-availability": "active", "gpu-swarm.paused-for": first["health"], "gpu-swarm.paused-since": stamp(at(3, 7))}
        first.update(availability="pause", labels={**first["labels"], **marks})
    second = {"labels": {**LABELS, "gpu.count": "4", "gpu.model": "Tesla-T4", "gpu.memory": "16"}, "health": "ok"}
    nodes = [node("n1", named(*H100), **first), node("n2", named(*T4), **second), node("m1", [], leader=True)]
    for made, hostname in zip(nodes, ("gpu-1", "gpu-2", "m1"), strict=True):
        made["Description"]["Hostname"] = hostname
    return nodes


def _tasks(now):
    """The tasks that the manager lists: those that have begun, and those that have ended in the last hour."""
    plan = [
        ("t1", "s1", "n1", H100[0], at(0, 30), None, 1),
        ("t2", "s1", "n1", BROKEN, at(0, 30), at(3, 6), 2),
        ("t3", "s2", "n2", T4[0], at(1), None, 1),
        ("t4", "s2", "n2", T4[1], at(1), at(4), 2),
        ("t5", "s3", "n1", BROKEN, at(5, 30), at(6, 10), 1),  # while the manager is away
        ("t6", "s4", "n2", T4[2], at(7), None, 1),
    ]
    made = []
    for task_id, service_id, node_id, card, begin, end, slot in plan:
        state, since = ("running", begin) if end is None or now < end else ("failed" if card == BROKEN and slot == 2 else "complete", end)
        if begin <= now and (end is None or now < end + HOUR):
            desired = "shutdown" if end else "running"
            made.append(task(task_id, since, state, named(card), begin - 5, service=service_id, node_id=node_id, slot=slot, desired=desired))
    return made


def readings():
    """Yield a reading each minute. From 05:10 to 06:40 after the morning the manager is away."""
    services = [service(f"s{number}", name, owner) for number, (name, owner) in enumerate(SERVICES, 1)]
    for now in range(MORNING, at(8) + 1, MINUTE):
        if not at(5, 10) < now < at(6, 40):
            yield reading(now, _tasks(now), _nodes(now), services)


def play(directory):
    """Record the day in a directory, and return the time at its end."""
    recorder, lines = Recorder(str(directory)), []
    for one in readings():
        lines += recorder.observe(one)
    assert lines == []
    content = {"version": 1, "at": one.at, "manager": "m1", "swarm": "c1", "leads": True}
    content.update(status=status.status(one.ledger), cards=fleet_cards.cards(one.ledger))
    (directory / "snapshot.json").write_text(json.dumps(content), encoding="utf-8")
    return one.at
