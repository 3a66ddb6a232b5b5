# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.table import render


@pytest.mark.parametrize(
    ("headings", "rows", "lines"),
    [
        (["node", "state"], [], ["node  state", "────  ─────"]),
        (["node", "n"], [["gpu-1", "8"], ["b", None]], ["node   n", "─────  ─", "gpu-1  8", "b"]),
        (["node", "GPUs"], [["a", 8], ["b", 16]], ["node  GPUs", "────  ────", "a        8", "b       16"]),
        (["node", "GPUs"], [["a", 8], ["b", "–"]], ["node  GPUs", "────  ────", "a     8", "b     –"]),
    ],
)
def test_columns_are_aligned(headings, rows, lines):
    assert render(headings, rows, None).splitlines() == lines


LONG = [["gpu-1", "paused since the driver was upgraded"]]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (None, ["node   state", "─────  ────────────────────────────────────", "gpu-1  paused since the driver was upgraded"]),
        (43, ["node   state", "─────  ────────────────────────────────────", "gpu-1  paused since the driver was upgraded"]),
        (30, ["node   state", "─────  ───────────────────────", "gpu-1  paused since the driver", "       was upgraded"]),
        (24, ["node: gpu-1", "  state: paused since", "    the driver was", "    upgraded"]),
    ],
)
def test_a_table_fits_a_terminal(width, lines):
    assert render(["node", "state"], LONG, width).splitlines() == lines


UUID = "GPU-eafc7885-1034-5571-91b2-9dbfbdddf10a"


@pytest.mark.parametrize(
    ("headings", "rows", "width", "lines"),
    [
        # Each column that is too wide is folded. A list is folded between its items.
        (
            ["node", "GPUs", "state"],
            [["g1", "8 × NVIDIA-H100-80GB-HBM3 (79.6 GiB), 4 × Tesla-T4 (15.0 GiB)", "waiting for service train"]],
            70,
            [
                "node  GPUs                                   state",
                "────  ─────────────────────────────────────  ─────────────────────────",
                "g1    8 × NVIDIA-H100-80GB-HBM3 (79.6 GiB),  waiting for service train",
                "      4 × Tesla-T4 (15.0 GiB)",
            ],
        ),
        (
            ["kind", "most on one node"],
            [["NVIDIA-GPU", 8]],
            19,
            ["kind        most on", "                one", "               node", "──────────  ───────", "NVIDIA-GPU        8"],
        ),
        # If a name does not fit into its column, no table is printed, and the name is not broken.
        (
            ["node", "task", "owner", "resource"],
            [["g1", "train.1", "alice", UUID], ["g2", "train.2", "–", UUID]],
            52,
            ["node: g1", "  task: train.1  owner: alice", f"  resource: {UUID}", "node: g2", "  task: train.2", f"  resource: {UUID}"],
        ),
        # If a name is longer than the terminal is wide, only its line is too long. The other columns fit.
        (
            ["image", "on", "state"],
            [[f"registry/{UUID}", "g1", "there"], ["a", "g1", "there"], ["b", "g2", "pulled"]],
            40,
            ["image:", f"    registry/{UUID}", "  on: g1  state: there", "image: a", "  on: g1  state: there", "image: b", "  on: g2  state: pulled"],
        ),
        # If a cell has several lines, nothing is printed beside it.
        (
            ["node", "state", "free"],
            [["a-node-with-a-long-name", "paused, by hand, for more than a day", "8"]],
            34,
            ["node: a-node-with-a-long-name", "  state: paused, by hand,", "    for more than a day", "  free: 8"],
        ),
        # Rows are printed as blocks of lines if that takes fewer lines.
        (
            ["node", "impact"],
            [["a-node-with-a-long-name", "restarts dockerd; changes node labels; joins the swarm"]],
            50,
            [
                "node                     impact",
                "───────────────────────  ────────────────────",
                "a-node-with-a-long-name  restarts dockerd;",
                "                         changes node labels;",
                "                         joins the swarm",
            ],
        ),
        (
            ["node", "impact"],
            [["a-node-with-a-long-name", "restarts dockerd; changes node labels; joins the swarm; holds the toolkit's version"]],
            50,
            [
                "node: a-node-with-a-long-name",
                "  impact: restarts dockerd; changes node labels;",
                "    joins the swarm; holds the toolkit's version",
            ],
        ),
    ],
)
def test_wide_text_is_folded_and_names_stay_whole(headings, rows, width, lines):
    assert render(headings, rows, width).splitlines() == lines


NAMES = st.from_regex(r"[a-zA-Z0-9](?:[a-zA-Z0-9.:/-]{0,40}[a-zA-Z0-9])?", fullmatch=True)


@given(st.lists(st.lists(st.lists(NAMES, min_size=1, max_size=12), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(1, 200))
def test_any_table_fits_and_keeps_names_whole(names, width):
    rows = [[(", " if len(cell) % 2 else " ").join(cell) for cell in row] for row in names]
    text = render(["node", "advertised", "state"], rows, width)
    words = text.replace(",", " ").split()
    assert [name for row in names for cell in row for name in cell if name not in words] == []
    # Only a line with a long name may be too long. Besides the name, the line contains at most a heading, an indent and a comma.
    longest = max(len(name) for row in names for cell in row for name in cell)
    assert max(map(len, text.splitlines())) <= max(width, longest + len("    advertised: ,"))
