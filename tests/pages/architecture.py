# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/pictures/architecture.svg and its table: the rooms of plugins/, and the imports between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from . import layers
from .blocks import table
from .rooms import ALL, CONTROLLER, GROUND, MANAGER, NODE, ROOMS, Room

BOX_W, BOX_H, GAP_X, GAP_Y = 172, 54, 22, 46
LANE = 14  # space for an edge that crosses a row
MARGIN, HEAD, FOOT = 24, 120, 54
STYLE = """
text { font-family: ui-sans-serif, system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1b2733 }
.page { fill: #ffffff; stroke: #d5dde5 }
.panel { fill: #f3f6f9 }
.name { font-family: ui-monospace, SFMono-Regular, "DejaVu Sans Mono", monospace; font-weight: 600; font-size: 15px }
.title { font-size: 12.5px; fill: #43525f }
.head { font-weight: 600; font-size: 15px }
.note { font-size: 13px; fill: #43525f }
.edge { fill: none; stroke: #8796a5; stroke-width: 1.6 }
.tip { fill: #8796a5 }
.box { stroke-width: 1.6 }
.controller { fill: #dcebfb; stroke: #3b82c4 }
.manager { fill: #eee4fa; stroke: #8a5cc7 }
.node { fill: #e4f3d1; stroke: #5f9a00 }
.all { fill: #fdf3d3; stroke: #c29a1a }
.door { fill: #ffffff; stroke: #8796a5; stroke-dasharray: 5 3 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.page { fill: #0d1117; stroke: #30363d }
.panel { fill: #161b22 }
.title, .note { fill: #a9b6c2 }
.edge { stroke: #6b7a89 }
.tip { fill: #6b7a89 }
.controller { fill: #12304d; stroke: #58a6ff }
.manager { fill: #2f2148; stroke: #b28af0 }
.node { fill: #1e3510; stroke: #85c437 }
.all { fill: #3a3010; stroke: #d9b13a }
.door { fill: #0d1117; stroke: #6b7a89 }
}
"""
LEGEND = ((CONTROLLER, "runs on the controller"), (MANAGER, "runs on a manager"), (NODE, "runs on the node"), (ALL, "used by all"))


def draw(edges: Iterable[tuple[str, str]], rooms: Sequence[Room] = ROOMS) -> str:
    by_name = {room.folder: room for room in rooms}
    kept = layers.reduced(edges)
    depth = layers.depths(list(by_name), kept)
    side = {folder: int(not folder.startswith("plugin_utils")) for folder in by_name}
    made = layers.arrange(depth, kept, side)
    left, right = _width(made, 0), _width(made, 1)
    width = 2 * MARGIN + left + right + 3 * GAP_X
    height = HEAD + len(made.rows) * (BOX_H + GAP_Y) + FOOT
    places = _places(made, MARGIN + GAP_X / 2, left, right)
    parts = [*_frame(width, height, left, right), *_edges(made, places)]
    parts += [part for folder, room in by_name.items() for part in _box(room, *places[folder])]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" role="img" '
        f'aria-label="The rooms of plugins/: an arrow leads from a room to one that it imports, always downwards">\n'
        f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def listed() -> str:
    """Return the table of rooms, in their order."""
    return table(("room", "what it is for"), [(f"`plugins/{room.folder}/`", room.what) for room in ROOMS])


def _size(place: object) -> float:
    return BOX_W if isinstance(place, str) else LANE


def _width(made: layers.Rows, side: int) -> float:
    rows = [[place for place in row if made.side[place] == side] for row in made.rows]
    return max(sum(_size(place) for place in row) + GAP_X * (len(row) - 1) for row in rows if row)


def _places(made: layers.Rows, start: float, left: float, right: float) -> dict[object, tuple[float, float]]:
    """Return the middle of the upper edge of each place."""
    begin = (start, start + left + 2 * GAP_X)
    room = (left, right)
    found: dict[object, tuple[float, float]] = {}
    for number, row in enumerate(made.rows):
        y = HEAD + GAP_Y / 2 + number * (BOX_H + GAP_Y)
        for side in (0, 1):
            here = [place for place in row if made.side[place] == side]
            free = room[side] - sum(map(_size, here)) - GAP_X * (len(here) - 1)
            x = begin[side] + free / 2
            for place in here:
                found[place] = (x + _size(place) / 2, y)
                x += _size(place) + GAP_X
    return found


def _ports(made: layers.Rows, places: Mapping[object, tuple[float, float]], end: int) -> dict[tuple[tuple[str, str], int], float]:
    """Return where each edge leaves (0) or enters (-1) its box: side by side, in the order of the boxes where the edges start."""
    by_box: dict[object, list[tuple[float, tuple[str, str]]]] = {}
    for edge, chain in made.chains.items():
        by_box.setdefault(chain[end], []).append((places[chain[1] if end == 0 else chain[-2]][0], edge))
    found = {}
    for box, ends in by_box.items():
        step = min(26.0, (BOX_W - 40) / len(ends))
        for index, (dummy_x, edge) in enumerate(sorted(ends)):
            found[edge, end] = places[box][0] + (index - (len(ends) - 1) / 2) * step
    return found


def _edges(made: layers.Rows, places: Mapping[object, tuple[float, float]]) -> list[str]:
    ports = {**_ports(made, places, 0), **_ports(made, places, -1)}
    parts = []
    for edge, chain in made.chains.items():
        x, y = ports[edge, 0], places[chain[0]][1] + BOX_H
        way = f"M{_n(x)} {_n(y)}"
        for place in chain[1:]:
            last = place is chain[-1]
            to_x, to_y = (ports[edge, -1], places[place][1] - 7) if last else places[place]
            half = (to_y - y) / 2
            way += f" C{_n(x)} {_n(y + half)} {_n(to_x)} {_n(to_y - half)} {_n(to_x)} {_n(to_y)}"
            if not last:
                way += f" V{_n(to_y + BOX_H)}"
            x, y = to_x, to_y + BOX_H
        tip_x, tip_y = ports[edge, -1], places[chain[-1]][1]
        parts += [f'<path class="edge" d="{way}"/>', f'<path class="tip" d="M{_n(tip_x)} {_n(tip_y)} l-4.5 -8.5 h9 z"/>']
    return parts


def _box(room: Room, x: float, y: float) -> list[str]:
    name = "*.py" if room == GROUND else room.name + "/"
    return [
        f'<rect class="box {room.where}" x="{_n(x - BOX_W / 2)}" y="{_n(y)}" width="{BOX_W}" height="{BOX_H}" rx="7"/>',
        f'<text class="name" x="{_n(x)}" y="{_n(y + 23)}" text-anchor="middle">{escape(name)}</text>',
        f'<text class="title" x="{_n(x)}" y="{_n(y + 42)}" text-anchor="middle">{escape(room.title)}</text>',
    ]


def _frame(width: float, height: float, left: float, right: float) -> list[str]:
    split = MARGIN + left + GAP_X
    parts = [f'<rect class="page" x="0.5" y="0.5" width="{_n(width - 1)}" height="{_n(height - 1)}" rx="10"/>']
    for x, wide, doors, tree in (
        (MARGIN, left + GAP_X, "action/  filter/", "plugin_utils/"),
        (split + GAP_X, right + GAP_X, "modules/", "module_utils/"),
    ):
        parts += [
            f'<rect class="panel" x="{_n(x)}" y="{HEAD - 38}" width="{_n(wide)}" height="{_n(height - HEAD - FOOT + 38)}" rx="8"/>',
            f'<rect class="box door" x="{_n(x)}" y="{MARGIN}" width="{_n(wide)}" height="42" rx="7"/>',
            f'<text class="name" x="{_n(x + wide / 2)}" y="{MARGIN + 26}" text-anchor="middle">{doors}</text>',
            f'<text class="head" x="{_n(x + 12)}" y="{HEAD - 14}">{tree}</text>',
        ]
    x = float(MARGIN)
    for kind, text in LEGEND:
        parts += [
            f'<rect class="box {kind}" x="{_n(x)}" y="{_n(height - 36)}" width="16" height="16" rx="4"/>',
            f'<text class="note" x="{_n(x + 23)}" y="{_n(height - 23)}">{text}</text>',
        ]
        x += 58 + 6.6 * len(text)
    return [*parts, f'<text class="note" x="{_n(width - MARGIN)}" y="{_n(height - 23)}" text-anchor="end">arrow: imports</text>']


def _n(number: float) -> str:
    return f"{number:.1f}".rstrip("0").rstrip(".")
