# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Draws which task has which GPU: a line for each service, a box for each node, a cell for each GPU, and the pending tasks below."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

CELL, TALL, GAP, PAD = 104, 60, 8, 16
LINE = 26  # a service
HEAD = 44  # the node's name and model, above its cells
WORDS = 18  # a line of a reason
REASON_WIDTH = 92  # letters of a reason in a line
LEGEND = 44
WIDEST = 7.6  # the width of a letter of the legend, in its widest font
NARROWEST = 3  # cells: the name and model of a node need this width
COLOURS = 3  # for services; a fourth service gets the first colour again
FREE, SICK, PENDING = "free", "sick", "pending"
MEANINGS = {
    FREE: "free card",
    SICK: "failed card: not advertised, so no task gets it",
    PENDING: "pending task: no node has room",
}
STYLE = """
text { font-family: ui-sans-serif, system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1b2733 }
.page { fill: #ffffff; stroke: #d5dde5 }
.node { fill: #f3f6f9; stroke: #c9d3dd }
.s0 { fill: #cfe4fc; stroke: #2f78c4 }
.s1 { fill: #d8f0c2; stroke: #5f9a00 }
.s2 { fill: #e9dcfa; stroke: #8a5cc7 }
.free { fill: #ffffff; stroke: #9fb0bf; stroke-dasharray: 4 3 }
.sick { fill: #fbe3e1; stroke: #c8392b }
.pending { stroke-width: 1.6; stroke-dasharray: 5 4 }
.any { fill: #ffffff; stroke: #4c5b69 }
.name { font-weight: 600; font-size: 16px }
.small { font-size: 13px; fill: #4c5b69 }
.code { font-family: ui-monospace, SFMono-Regular, "DejaVu Sans Mono", monospace; font-size: 13.5px }
.task { font-weight: 600; font-size: 13px }
.owner { font-size: 12.5px; fill: #33424f }
.note { font-size: 13px; fill: #5c6b79 }
.fault { font-size: 12.5px; fill: #a32417 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.page { fill: #0d1117; stroke: #30363d }
.node { fill: #161b22; stroke: #3d444d }
.s0 { fill: #14365a; stroke: #58a6ff }
.s1 { fill: #23400f; stroke: #85c437 }
.s2 { fill: #38265a; stroke: #b28af0 }
.free { fill: #0d1117; stroke: #6b7a89 }
.sick { fill: #4a1a17; stroke: #f0716a }
.any { fill: #0d1117; stroke: #a9b6c2 }
.small { fill: #a9b6c2 }
.owner { fill: #c3ced9 }
.note { fill: #93a1ae }
.fault { fill: #ffb3ad }
}
"""


class Service(NamedTuple):
    name: str
    owner: str
    command: str  # the command as a user types it


class Gpu(NamedTuple):
    node: str
    model: str
    service: str | None  # the service that has the GPU
    task: str | None
    sick: str = ""  # the reason why the GPU is not advertised


def draw(services: Sequence[Service], gpus: Iterable[Gpu], pending: Sequence[tuple[str, str]] = ()) -> str:
    """Return the picture as SVG. ``pending`` has the services with a task that fits on no node, each with the reason."""
    colours = {service.name: f"s{place % COLOURS}" for place, service in enumerate(services)}
    owners = {service.name: service.owner for service in services}
    boxes: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        boxes.setdefault(gpu.node, []).append(gpu)
    width = 2 * PAD + max(len(box) for box in boxes.values()) * (CELL + GAP) + 2 * PAD
    parts, top = [], PAD
    for service in services:
        parts += _service(service, colours[service.name], top, width)
        top += LINE
    top += PAD // 2
    for row in _rows(boxes, width - 2 * PAD):
        for node, x, wide in row:
            parts += _node(node, boxes[node], (x, top, wide), colours, owners)
        top += HEAD + TALL + PAD + GAP
    for name, reason in pending:
        lines = textwrap.wrap(reason, REASON_WIDTH)
        parts += _pending(name, owners.get(name, ""), lines, colours.get(name, "any"), top + GAP)
        top += 2 * GAP + max(TALL, WORDS * len(lines))
    shown = {SICK if gpu.sick else FREE for box in boxes.values() for gpu in box if not gpu.task} | ({PENDING} if pending else set())
    parts += _legend(top + 14, shown)
    height = top + LEGEND
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="Which task has which GPU">\n<style>{STYLE}</style>\n'
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _text(x: float, y: float, style: str, text: str, anchor: str = "") -> str:
    place = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{style}"{place}>{escape(text)}</text>'


def _service(service: Service, colour: str, top: int, width: int) -> list[str]:
    return [
        f'<rect class="{colour}" x="{PAD}" y="{top + 3}" width="15" height="15" rx="3"/>',
        _text(PAD + 25, top + 15, "code", f"$ {service.command}"),
        _text(width - PAD, top + 15, "task", service.owner, "end"),
    ]


def _rows(boxes: Mapping[str, Sequence[Gpu]], room: int) -> list[list[tuple[str, int, int]]]:
    """Return rows of nodes, each node with the place and width of its box. Small nodes share a row, and the last box of a row fills it."""
    rows: list[list[tuple[str, int, int]]] = []
    x = room
    for node, box in boxes.items():
        wide = max(len(box), NARROWEST) * (CELL + GAP) - GAP + 2 * PAD
        if x + wide > room:
            rows.append([])
            x = 0
        rows[-1].append((node, PAD + x, wide))
        x += wide + GAP
    return [[*row[:-1], (row[-1][0], row[-1][1], PAD + room - row[-1][1])] for row in rows]


def _node(name: str, box: list[Gpu], place: tuple[int, int, int], colours: Mapping[str, str], owners: Mapping[str, str]) -> list[str]:
    x, y, wide = place
    model = f"{len(box)} × {next((gpu.model for gpu in box if not gpu.sick), '?')}"
    parts = [
        f'<rect class="node" x="{x}" y="{y}" width="{wide}" height="{HEAD + TALL + PAD}" rx="8"/>',
        f'<text x="{x + PAD}" y="{y + 28}"><tspan class="name">{escape(name)}</tspan><tspan class="small" dx="12">{escape(model)}</tspan></text>',
    ]
    for number, gpu in enumerate(box):
        if gpu.sick:
            kind, lines = SICK, [("fault", gpu.sick), ("fault", "not advertised")]
        elif gpu.task:
            kind, lines = colours.get(gpu.service or "", "any"), [("task", gpu.task), ("owner", owners.get(gpu.service or "", ""))]
        else:
            kind, lines = FREE, [("note", "free")]
        parts += _cell(kind, x + PAD + number * (CELL + GAP), y + HEAD, lines)
    return parts


def _cell(kind: str, x: int, y: int, lines: Sequence[tuple[str, str]]) -> list[str]:
    first = y + TALL / 2 + 4.5 - 9.5 * (len(lines) - 1)
    return [
        f'<rect class="{kind}" x="{x}" y="{y}" width="{CELL}" height="{TALL}" rx="6"/>',
        *(_text(x + CELL / 2, first + 19 * number, style, text, "middle") for number, (style, text) in enumerate(lines)),
    ]


def _pending(name: str, owner: str, lines: Sequence[str], colour: str, top: int) -> list[str]:
    first = top + TALL / 2 + 4.5 - WORDS / 2 * (len(lines) - 1)
    return [
        *_cell(f"{colour} {PENDING}", 2 * PAD, top, [("task", name), ("owner", owner)]),
        *(_text(2 * PAD + CELL + PAD, first + WORDS * number, "small", line) for number, line in enumerate(lines)),
    ]


def _legend(top: int, shown: set[str]) -> list[str]:
    parts, x = [], 2.0 * PAD
    for kind, meaning in MEANINGS.items():
        if kind in shown:
            style = f"any {PENDING}" if kind == PENDING else kind
            parts += [f'<rect class="{style}" x="{x:.0f}" y="{top}" width="15" height="15" rx="3"/>', _text(x + 22, top + 12, "small", meaning)]
            x += 50 + WIDEST * len(meaning)
    return parts
