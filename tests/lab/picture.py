# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who got which GPU, as a picture: a box for each node, a cell for each GPU, the task that holds it in the cell."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import NamedTuple

CELL, GAP, PAD = 104, 8, 16
HEAD = 58  # the node's name and model, above its cells
STYLE = """
text { font-family: ui-sans-serif, system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1b2733 }
.page { fill: #ffffff }
.node { fill: #f3f6f9; stroke: #c9d3dd }
.held { fill: #76b900 }
.free { fill: #ffffff; stroke: #c9d3dd; stroke-dasharray: 4 3 }
.name { font-weight: 600; font-size: 16px }
.small { font-size: 12px; fill: #4c5b69 }
.code, .uuid { font-family: ui-monospace, "DejaVu Sans Mono", monospace }
.code { font-size: 14px }
.task { font-weight: 600; font-size: 12px; fill: #12220a }
.uuid { font-size: 10px; fill: #24401a }
.nobody { font-size: 12px; fill: #8895a1 }
"""


class Gpu(NamedTuple):
    node: str
    model: str
    uuid: str
    task: str | None  # who holds it


def draw(command: str, gpus: Iterable[Gpu]) -> str:
    """The picture as SVG. ``command`` is what was typed to get there."""
    boxes: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        boxes.setdefault(gpu.node, []).append(gpu)
    width = 2 * PAD + max(len(box) for box in boxes.values()) * (CELL + GAP) + 2 * PAD
    parts, top = [f'<text x="{PAD}" y="32" class="code">$ {escape(command)}</text>'], 52
    for node, box in boxes.items():
        parts += _node(node, box, top, width)
        top += HEAD + CELL + PAD + GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top + PAD - GAP}" role="img" '
        f'aria-label="Which task holds which GPU">\n<style>{STYLE}</style>\n'
        f'<rect class="page" width="{width}" height="{top + PAD - GAP}" rx="10"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _node(name: str, box: list[Gpu], top: int, width: int) -> list[str]:
    model = f"{len(box)} × {box[0].model}"
    parts = [
        f'<rect class="node" x="{PAD}" y="{top}" width="{width - 2 * PAD}" height="{HEAD + CELL + PAD}" rx="8"/>',
        f'<text x="{2 * PAD}" y="{top + 26}" class="name">{escape(name)}</text>',
        f'<text x="{2 * PAD}" y="{top + 45}" class="small">{escape(model)}</text>',
    ]
    for place, gpu in enumerate(box):
        parts += _cell(gpu, 2 * PAD + place * (CELL + GAP), top + HEAD)
    return parts


def _cell(gpu: Gpu, x: int, y: int) -> list[str]:
    middle = x + CELL // 2
    rect = f'<rect class="{"held" if gpu.task else "free"}" x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="6"/>'
    if not gpu.task:
        return [rect, f'<text x="{middle}" y="{y + CELL // 2 + 4}" class="nobody" text-anchor="middle">free</text>']
    return [
        rect,
        f'<text x="{middle}" y="{y + 42}" class="task" text-anchor="middle">{escape(gpu.task)}</text>',
        f'<text x="{middle}" y="{y + 64}" class="uuid" text-anchor="middle">{escape(gpu.uuid[:12])}…</text>',
    ]
