# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that the service on a manager keeps up to date, of a small fleet: the snapshot and the record."""

from __future__ import annotations

import json

from swarm_api import A, B, discrete, named, node, pending, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import KEY, LEFT_OUT
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.database import Database
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.schema import Allocation, Event
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view import fleet_cards, status

NOW = epoch("2026-11-20T14:00:00Z")
HOUR = 3600
OWNERS = {"train": "alice", "chat": "bob"}
LOST = "GPU-00000000-1111-2222-3333-444444444444"


def fleet():
    """Return the ledger: host-g1 has two cards, one of them faulty; host-g2 has slots, and host-g3 is paused. 'big' is pending."""
    first = node("g1", labels={"gpu.count": "2", "gpu.healthy": "true", "gpu.model": "H100"}, resources=named(A, B))
    first["Description"]["Engine"]["Labels"] = {KEY: f"fault {B} reason=lost"}
    shared = "GPU-9c1b0d2e-7777-4c53-9d1f-0c9a7d1e2f32"
    second = node("g2", labels={LEFT_OUT: f"fault {LOST} reason=lost"}, resources=named(f"{shared}.slot0", f"{shared}.slot1", kind="NVIDIA-SLOT"))
    nodes = [first, second, node("g3", availability="pause", resources=discrete(8000)), node("m1", leader=True)]
    tasks = [
        task("t1", "g1", named(A), service="s1", since="2026-11-20T12:00:00Z"),
        task("t2", "g2", named(f"{shared}.slot0", kind="NVIDIA-SLOT"), service="s2", since="2026-11-20T13:50:00Z"),
        task("t3", "g3", discrete(3000), service="s3"),
        pending("t4", {"NVIDIA-GPU": 1}, service="s4", since="2026-11-20T13:55:00Z"),
    ]
    services = [service(f"s{number}", name) for number, name in enumerate(("train", "chat", "share"), 1)]
    services.append(service("s4", "big", reserves={"NVIDIA-GPU": 1}))
    return {**ledger(Listed(nodes, tasks, services, NOW), "gpu-swarm.", ["*"]), "owners": OWNERS}


def write_snapshot(directory, answer=None, **others):
    """Write the snapshot of a ledger."""
    answer = answer or fleet()
    content = {"version": 1, "at": NOW, "manager": "m1", "swarm": "c1", "leads": True, "status": status.status(answer)}
    content = {**content, "cards": fleet_cards.cards(answer), **others}
    (directory / "snapshot.json").write_text(json.dumps(content), encoding="utf-8")


def write_record(directory, allocations=(), events=()):
    """Write a record that began 30 days ago, with a last reading 20 seconds ago."""
    with Database(str(directory)).transaction() as db:
        begin = int(NOW) - 30 * 24 * HOUR
        meta = {"recorded_since": begin, "last_reading": int(NOW) - 20, "rows_since": begin, "summed_until": begin}
        db.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        db.executemany("INSERT INTO nodes VALUES (?, ?)", [("g1", "host-g1"), ("g2", "host-g2")])
        for row in allocations:
            number = _insert(db, "allocations", row)
            db.execute("INSERT OR IGNORE INTO cards (uuid, model, mib) VALUES (?, ?, ?)", (row.value, row.model, row.mib))
            db.execute("INSERT INTO cards_of_allocations SELECT id, ? FROM cards WHERE uuid = ?", (number, row.value))
        for row in events:
            _insert(db, "events", row)


def _insert(db, table, row):
    columns = row._asdict()
    return db.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", tuple(columns.values())).lastrowid


def allocation(hours_ago, hours=None, task_id="t1", service_name="train", owner="alice", **others):
    """Return an allocation of card A that began some hours ago. Without ``hours`` it goes on."""
    begin = int(NOW - hours_ago * HOUR)
    end = None if hours is None else int(begin + hours * HOUR)
    values = dict(node="g1", kind="NVIDIA-GPU", value=A, amount=1, unit="GPU", mib=81559, model="H100", cards=1.0)
    values.update(begin=begin, sure_from=begin, sure_until=end, end=end, how=None if end is None else "complete")
    return Allocation(task_id, service_name, owner, **{**values, **others})


def event(hours_ago, what="fault", text="fault GPU-x lost", **others):
    at = int(NOW - hours_ago * HOUR)
    return Event(**{"at": at, "since": at, "what": what, "node": "g1", "hostname": "host-g1", "card": A, "cause": "lost", "text": text, **others})
