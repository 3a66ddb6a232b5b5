# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Example fleets for the page, as rows of status, cards and the record."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from plugins.module_utils._page.page import page
from plugins.module_utils._page.page_data import page_data
from plugins.plugin_utils._page_template.page_template import page_template
from tests.unit.support.page_fleet import card, node, part, status

AT = 1795176300.0  # 2026-11-20 12:05 UTC
HOUR = 3600
OWNERS = {
    "alice": ("llama-train", "sweep"), "bob": ("chat",), "carol": ("notebook", "whisper"), "dmitri": ("diffusion",), "eun-ji": ("protein-fold",),
    "fatima": ("embeddings",),
}  # fmt: skip
H100, A100, L40S, T4 = ("NVIDIA-H100-80GB-HBM3", 81559), ("NVIDIA-A100-SXM4-80GB", 81920), ("NVIDIA-L40S", 46068), ("Tesla-T4", 15360)
HOSTILE = '</script><img src=x onerror="document.title=1">\x1b[31m\u202e"\'&<b>'
Row = dict[str, Any]


class Shown(NamedTuple):
    """The arguments of ``page_data``, except for the time."""

    status: Row
    cards: list[Row]
    usage: list[Row] | None
    days: list[Row] | None
    events: list[Row] | None

    def html(self, at: float = AT, interval: float | None = 60, grafana_url: str = "https://grafana.example.com/d/gpu-swarm") -> str:
        return page(page_template(), page_data(*self, at, "m1", grafana_url, interval))


def busy() -> Shown:
    """A fleet in which one card has failed, a node is drained, two services are pending, and work waits in queues."""
    chance = random.Random(15)
    nodes = [dict(node("m1"), role="manager"), *(node(f"gpu-{number:02}") for number in range(1, 9))]
    nodes[2].update(state="drained, by maintain (runs driver.yml)", verdict="waiting", why="it returns to active with the next run of provision")
    cards = [*_whole(chance, "gpu-01", H100), *_whole(chance, "gpu-02", H100), *_slots(chance, "gpu-03"), _amount("gpu-04")]
    cards += [*_whole(chance, "gpu-05", L40S, 4), *_whole(chance, "gpu-06", A100), *_whole(chance, "gpu-07", T4, 4), *_whole(chance, "gpu-08", A100)]
    failed = next(row for row in cards if row["node"] == "gpu-06")
    failed.update(state="faulty", reason=f"fault {failed['card']} XID 79")
    nodes[6].update(
        state="paused for a fault", verdict="failed", since="2026-11-20T10:02:00Z",
        why=f"{failed['card']} XID 79 (PCI address 00000000:C1:00.0, slot 12); it returns to active with the first run of provision that finds "
        "nothing wrong",
    )  # fmt: skip
    for row in cards:
        row["schedulable"] = row["node"] not in ("gpu-02", "gpu-06")
    cards[-1].update(state="excluded", reason="lost (its loss is accepted)", parts=[])
    return Shown(status(*nodes, pending=_pending(), queue=_queue(130)), cards, _usage(), list(_days(chance)), _events())


def calm() -> Shown:
    """A fleet in which all is well."""
    chance = random.Random(4)
    nodes = [node("m1"), *(node(f"gpu-{number:02}") for number in range(1, 6))]
    cards = [row for one in nodes[1:] for row in _whole(chance, one["node"], H100)]
    return Shown(status(*nodes), cards, _usage(), list(_days(chance)), [])


def unrecorded() -> Shown:
    """A fleet whose managers record nothing."""
    return Shown(*calm()[:2], None, None, None)


def large(nodes: int = 1000, cards: int = 8) -> Shown:
    chance = random.Random(1)
    names = [f"gpu-{number:04}.example.com" for number in range(nodes)]
    rows = [node(name, *(("failed", "down") if chance.random() < 0.004 else ())) for name in names]
    found = [dict(row, schedulable=one["verdict"] == "done") for one in rows for row in _whole(chance, one["node"], H100, cards)]
    return Shown(status(*rows, pending=_pending(), queue=_queue(10_000)), found, _usage(), [], _events())


def hostile() -> Shown:
    """A fleet in which every text is an attack."""
    shown = busy()
    for one in shown.status["nodes"]:
        one.update(node=HOSTILE + one["node"], why=HOSTILE)
    for row in shown.cards:
        row.update(reason=HOSTILE, model=HOSTILE)
        for one in row["parts"]:
            one.update(service=HOSTILE, task=HOSTILE + ".1", owner=HOSTILE)
    for row in [*shown.status["pending"], *shown.status["queue"]["work"], *(shown.usage or ()), *(shown.days or ()), *(shown.events or ())]:
        row.update({name: HOSTILE for name, value in row.items() if name in ("service", "text", "name", "what", "hostname", "owner", "node")})
    return shown


# -- rows ------------------------------------------------------------------------------------------------------------


def _uuid(chance: random.Random) -> str:
    digits = f"{chance.getrandbits(128):032x}"
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _held(chance: random.Random, number: int) -> Row:
    owner = chance.choice(list(OWNERS))
    service = chance.choice(OWNERS[owner])
    return {"service": service, "task": f"{service}.{number}", "owner": owner, "since": AT - chance.randint(30, 900_000)}


def _whole(chance: random.Random, name: str, model: tuple[str, int], cards: int = 8) -> Iterator[Row]:
    """Cards that belong to one task each. A task has several of them."""
    left, held = 0, None
    for number in range(cards):
        if not left:
            left = chance.choice((1, 2, 4, cards))
            held = None if chance.random() < 0.22 else _held(chance, number + 1)
        left -= 1
        uuid = _uuid(chance)
        state = "allocated" if held else "free"
        yield card(name, uuid=uuid, model=model[0], mib=model[1], state=state, parts=[part(value=uuid, state=state, **(held or {}))])


def _slots(chance: random.Random, name: str) -> Iterator[Row]:
    for _card in range(4):
        uuid, held = _uuid(chance), [_held(chance, number) if chance.random() < 0.7 else {} for number in range(4)]
        parts = [part(kind="SLOT", value=f"{uuid}#{number}", state="allocated" if one else "free", **one) for number, one in enumerate(held)]
        yield card(name, uuid=uuid, model=L40S[0], mib=L40S[1], state="allocated", parts=parts)


def _amount(name: str) -> Row:
    held = [("carol", "notebook", 24), ("bob", "chat", 16)]
    parts = [part(kind="VRAM", amount=gib, service=service, task=f"{service}.1", owner=owner, since=AT - 4000) for owner, service, gib in held]
    return card(name, uuid=None, model=A100[0], parts=[*parts, part(kind="VRAM", amount=40, state="free")])


def _queue(waiting: int) -> Row:
    """Return queues in which work runs, waits and is lost. The queue research has this many waiting pieces."""
    first = "it is next, and gpu-01 is kept for it; it starts at 2026-11-20T15:10:00Z at the latest"
    cap = "the queue research uses 20 of at most 24 NVIDIA-GPU and keeps 8 for llama-train-7, and it needs 2"
    lost = "gpu-05 does not answer, so its container may still run; 'gpu-swarm retry fold-11' runs it elsewhere"
    never = "no node could hold it, not even an empty one: wants 16 NVIDIA-GPU; the most that a node has: 8 (gpu-01)"
    running = [_work("llama-train-6", "alice", "running", node="gpu-06", hours=5.2, ends="2026-11-20T15:10:00Z")]
    running += [_work(f"sweep-{number}", "alice", "running", node="gpu-01", hours=1 + number / 10) for number in range(12)]
    nightly = [
        _work("fold-11", "eun-ji", "lost", "nightly", text=lost, node="gpu-05", hours=20),
        _work("protein-fold-with-a-name-that-is-as-long-as-swarm-takes-it-63-x", "dr-eun-ji-of-the-institute-of-protein-research", "starting",
              "nightly", text="swarm shows its task as preparing", node="gpu-07", hours=0.01),
        _work("giant", "fatima", "waiting", "nightly", 1, never, "fits-nowhere", hours=30),
        _work("embed-3", "fatima", "held", "nightly", text="it is held: it was scaled to 0; 'gpu-swarm release embed-3' lets it run"),
    ]  # fmt: skip
    waits = [_work("llama-train-7", "alice", "waiting", position=1, text=first, reason="next", hours=9)]
    waits += [_work(f"sweep-{number}", "alice", "waiting", position=number, text=cap, reason="cap", hours=3) for number in range(2, waiting + 1)]
    unknown = [_work("typo", "bob", "waiting", "reserch", text="there is no queue reserch; the queues are nightly, research", reason="no-queue")]
    queues = [
        {"queue": "nightly", "weight": 1, "share": 0.031, "used": {"NVIDIA-GPU": 3}, "max": {},
         "states": {"lost": 1, "starting": 1, "waiting": 1, "held": 1}},
        {"queue": "research", "weight": 3, "share": 0.182, "used": {"NVIDIA-GPU": 20, "VRAM": 24}, "max": {"NVIDIA-GPU": 24},
         "states": {"running": len(running), "waiting": waiting}},
        {"queue": "", "weight": None, "share": None, "used": {}, "max": {}, "states": {"waiting": 1}},
    ]  # fmt: skip
    for row in queues:
        row["since"] = "2026-11-20T03:05:00Z"
    return {"problem": "", "queues": queues, "work": [*running, *nightly, *waits, *unknown]}


def _work(
    service: str, owner: str, state: str, queue: str = "research", position: int | None = None, text: str = "", reason: str = "",
    node: str | None = None, hours: float = 2.0, ends: str | None = None,
) -> Row:  # fmt: skip
    row = {"service": service, "owner": owner, "state": state, "queue": queue, "position": position, "text": text, "reason": reason, "node": node}
    return {**row, "since": AT - hours * HOUR, "ends": ends}


def _pending() -> list[Row]:
    why = "needs 4 NVIDIA-GPU on one node: gpu-01 has 2 NVIDIA-GPU free and would have 4 if chat.2, chat.3 ended"
    most = "needs 16 NVIDIA-GPU on one node: wants 16 NVIDIA-GPU; the most that a node has: 8 (gpu-01)"
    miss = {"text": "gpu-08 has 1 NVIDIA-GPU free and would have 4 if notebook.1 ended"}
    return [
        {"service": "sweep", "needed": 3, "since": "2026-11-20T11:40:00Z", "age": 1500, "verdict": "waiting", "text": why, "nearest": [miss]},
        {"service": "giant", "needed": 1, "since": "2026-11-20T06:00:00Z", "age": 22000, "verdict": "failed", "text": most, "nearest": []},
    ]


_SHARES = {"alice": 220.0, "bob": 90.0, "carol": 60.0, "dmitri": 45.0, "eun-ji": 30.0, "fatima": 18.0}


def _usage() -> list[Row]:
    rows = enumerate(_SHARES.items())
    return [
        {"name": name, "kind": "NVIDIA-GPU", "unit": "GPU", "hours": 6 * hours, "cards": 6 * hours, "estimated": 0.24 * hours * (i % 3), "running": 1}
        for i, (name, hours) in rows
    ]


def _days(chance: random.Random) -> Iterator[Row]:
    for day in range(14, 21):
        for name, hours in _SHARES.items():
            yield {"day": f"2026-11-{day}", "name": name, "cards": hours * chance.uniform(0.5, 1.3) * (0.5 if day in (14, 15) else 1)}


def _events() -> list[Row]:
    rows = [
        (0.2, "node-drained", "gpu-02", "by maintain (runs driver.yml)"),
        (0.2, "run", "", "maintain of ops@controller: gpu-02 drained, 1 of 8 hosts changed"),
        (2.0, "node-paused", "gpu-06", "by the managers' service, for a fault"),
        (2.05, "fault", "gpu-06", "XID 79 (PCI address 00000000:C1:00.0, slot 12)"),
        (5.3, "leader", "m1", "m1 leads; before, m2 led"),
        (9.1, "node-returned", "gpu-03", "by hand"),
        (13.7, "guard-refusal", "gpu-01", "no-reservation"),
        (14.0, "gap", "", "nothing was read for 22 min"),
    ]
    return [{"at": AT - hours * HOUR, "what": what, "hostname": host, "text": text} for hours, what, host, text in rows]
