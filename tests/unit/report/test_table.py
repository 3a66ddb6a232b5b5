# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report.table import render


@pytest.mark.parametrize(
    ("headings", "rows", "lines"),
    [
        (["node", "state"], [], ["node  state", "────  ─────"]),
        (["node", "n"], [["gpu-1", "8"], ["b", None]], ["node   n", "─────  ─", "gpu-1  8", "b"]),
        (["node", "GPUs"], [["a", 8], ["b", 16]], ["node  GPUs", "────  ────", "a        8", "b       16"]),
        (["node", "GPUs"], [["a", 8], ["b", "–"]], ["node  GPUs", "────  ────", "a     8", "b     –"]),
    ],
)
def test_columns(headings, rows, lines):
    assert render(headings, rows).splitlines() == lines


LONG = [["gpu-1", "paused since the driver was upgraded"]]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (None, ["node   state", "─────  ────────────────────────────────────", "gpu-1  paused since the driver was upgraded"]),
        (30, ["node   state", "─────  ───────────────────────", "gpu-1  paused since the driver", "       was upgraded"]),
        (24, ["node: gpu-1", "  state: paused since", "    the driver was", "    upgraded"]),
    ],
)
def test_a_table_fits_a_terminal(width, lines):
    assert render(["node", "state"], LONG, width).splitlines() == lines
