# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Draws which task has which GPU: a box for each node, a cell for each GPU, and the pending tasks below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

CELL, TALL, GAP, PAD = 104, 60, 8, 16
HEAD = 58  # the node's name and model, above its cells
TOP = 52  # the typed command
QUEUE = 60  # the pending tasks
LEGEND = 44
WIDEST = 7.6  # the width of a letter of the legend, in its widest font
ALLOCATED, FREE, SICK, PENDING = "allocated", "free", "sick", "pending"
MEANINGS = (
    (ALLOCATED, "allocated to a task, which sees this GPU alone"),
    (FREE, "free"),
    (SICK, "not advertised: the card failed"),
    (PENDING, "pending: no GPU is free"),
)
STYLE = """
text { font-family: ui-sans-serif, system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1b2733 }
.page { fill: #ffffff; stroke: #d5dde5 }
.node { fill: #f3f6f9; stroke: #c9d3dd }
.allocated { fill: #76b900 }
.free { fill: #ffffff; stroke: #9fb0bf; stroke-dasharray: 4 3 }
.sick { fill: #fbe3e1; stroke: #c8392b }
.pending { fill: #fff3cf; stroke: #c29a1a; stroke-dasharray: 4 3 }
.name { font-weight: 600; font-size: 16px }
.small { font-size: 13px; fill: #4c5b69 }
.code, .uuid { font-family: ui-monospace, SFMono-Regular, "DejaVu Sans Mono", monospace }
.code { font-size: 14px }
.task { font-weight: 600; font-size: 12.5px; fill: #12220a }
.waits { font-weight: 600; font-size: 13px; fill: #5c4608 }
.uuid { font-size: 11px; fill: #24401a }
.note { font-size: 13px; fill: #6b7a89 }
.fault { font-size: 12px; fill: #a32417 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.page { fill: #0d1117; stroke: #30363d }
.node { fill: #161b22; stroke: #3d444d }
.free { fill: #0d1117; stroke: #6b7a89 }
.sick { fill: #4a1a17; stroke: #f0716a }
.pending { fill: #3a3010; stroke: #d9b13a }
.small { fill: #a9b6c2 }
.task { fill: #12220a }
.uuid { fill: #24401a }
.waits { fill: #f3d98b }
.note { fill: #93a1ae }
.fault { fill: #ffb3ad }
}
"""


class Gpu(NamedTuple):
    node: str
    model: str
    uuid: str
    task: str | None  # the task that has it
    sick: str = ""  # the reason why it is not advertised


def draw(command: str, gpus: Iterable[Gpu], pending: Sequence[str] = ()) -> str:
    """Return the picture as SVG. ``command`` is the typed command, ``pending`` are the tasks for which no node has room."""
    boxes: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        boxes.setdefault(gpu.node, []).append(gpu)
    width = 2 * PAD + max(len(box) for box in boxes.values()) * (CELL + GAP) + 2 * PAD
    parts, top = [f'<text x="{PAD}" y="32" class="code">$ {escape(command)}</text>'], TOP
    for node, box in boxes.items():
        parts += _node(node, box, top, width)
        top += HEAD + TALL + PAD + GAP
    if pending:
        parts += _queue(pending, top + GAP)
        top += QUEUE
    parts += _legend(top + 14, {_kind(gpu) for box in boxes.values() for gpu in box} | ({PENDING} if pending else set()))
    height = top + LEGEND
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="Which task has which GPU">\n<style>{STYLE}</style>\n'
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _kind(gpu: Gpu) -> str:
    return SICK if gpu.sick else ALLOCATED if gpu.task else FREE


def _node(name: str, box: list[Gpu], top: int, width: int) -> list[str]:
    model = f"{len(box)} × {next((gpu.model for gpu in box if not gpu.sick), '?')}"
    parts = [
        f'<rect class="node" x="{PAD}" y="{top}" width="{width - 2 * PAD}" height="{HEAD + TALL + PAD}" rx="8"/>',
        f'<text x="{2 * PAD}" y="{top + 26}" class="name">{escape(name)}</text>',
        f'<text x="{2 * PAD}" y="{top + 45}" class="small">{escape(model)}</text>',
    ]
    for place, gpu in enumerate(box):
        parts += _cell(gpu, 2 * PAD + place * (CELL + GAP), top + HEAD)
    return parts


def _cell(gpu: Gpu, x: int, y: int) -> list[str]:
    kind = _kind(gpu)
    lines = {
        ALLOCATED: [(26, "task", gpu.task or ""), (45, "uuid", gpu.uuid[:12] + "…")],
        FREE: [(TALL // 2 + 4, "note", "free")],
        SICK: [(26, "fault", gpu.sick), (45, "fault", "not advertised")],
    }[kind]
    rect = f'<rect class="{kind}" x="{x}" y="{y}" width="{CELL}" height="{TALL}" rx="6"/>'
    return [
        rect,
        *(f'<text x="{x + CELL // 2}" y="{y + down}" class="{style}" text-anchor="middle">{escape(text)}</text>' for down, style, text in lines),
    ]


def _queue(pending: Sequence[str], top: int) -> list[str]:
    parts = [f'<text x="{2 * PAD}" y="{top + 27}" class="small">pending</text>']
    for place, task in enumerate(pending):
        x = 2 * PAD + CELL - 20 + place * (CELL + GAP)
        parts += [
            f'<rect class="{PENDING}" x="{x}" y="{top + 4}" width="{CELL}" height="36" rx="6"/>',
            f'<text x="{x + CELL // 2}" y="{top + 27}" class="waits" text-anchor="middle">{escape(task)}</text>',
        ]
    return parts


def _legend(top: int, kinds: set[str]) -> list[str]:
    parts, x = [], 2.0 * PAD
    for kind, meaning in MEANINGS:
        if kind in kinds:
            parts += [
                f'<rect class="{kind}" x="{x:.0f}" y="{top}" width="15" height="15" rx="3"/>',
                f'<text x="{x + 22:.0f}" y="{top + 12}" class="small">{meaning}</text>',
            ]
            x += 50 + WIDEST * len(meaning)
    return parts
