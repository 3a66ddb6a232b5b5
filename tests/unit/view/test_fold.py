# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.fold import fold, longest_unit, paragraphs
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report import terminal

UUID = "GPU-eafc7885-1034-5571-91b2-9dbfbdddf10a"


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("a word", None, ["a word"]),
        ("a word", 6, ["a word"]),
        ("", 6, [""]),
        # A line is never broken inside a name.
        (f"fault: {UUID} lost", 30, ["fault:", UUID, "lost"]),
        (UUID, 30, [UUID]),
        ("image registry.example.com/team-a/llm-server:2.1-cuda", 30, ["image", "registry.example.com/team-a/llm-server:2.1-cuda"]),
        # A line ends after a clause or an item of a list, if the clause or item fits.
        ("restarts dockerd; changes node labels; joins", 37, ["restarts dockerd;", "changes node labels; joins"]),
        ("services web-1, web-2 (12 tasks), web-3", 30, ["services web-1,", "web-2 (12 tasks), web-3"]),
        ("train.1 (alice, 3 h), train.2 (bob, 4 h)", 27, ["train.1 (alice, 3 h),", "train.2 (bob, 4 h)"]),
        ("a (b, c), d (e), f, g", 9, ["a (b, c),", "d (e), f,", "g"]),
        # This rule does not apply if it would leave a line nearly empty.
        ("Yes, it returns to service with the next run", 40, ["Yes, it returns to service with the next", "run"]),
        # A number and its unit are on the same line.
        ("it wants 16 NVIDIA-GPU", 14, ["it wants", "16 NVIDIA-GPU"]),
        ("toolkit 1.17.8-1 → 1.20.0-1", 20, ["toolkit 1.17.8-1", "→ 1.20.0-1"]),
        ("1 × 45.0 GiB + 2 × 15.0 GiB", 16, ["1 × 45.0 GiB", "+ 2 × 15.0 GiB"]),
        ("8 NVIDIA-H100-80GB-HBM3", 10, ["8", "NVIDIA-H100-80GB-HBM3"]),
    ],
)
def test_lines_end_between_names(text, width, lines):
    assert fold(text, width) == lines


def test_the_cost_grows_with_the_length_of_the_text():
    """A node can claim very many kinds, and status shows them in one cell."""

    def seconds(count):
        text = ", ".join(f"7 KIND{number}" for number in range(count))
        times = []
        for _time in range(3):
            began = time.process_time()
            fold(text, 80)
            times.append(time.process_time() - began)
        return min(times)

    assert seconds(8000) < 10 * seconds(2000)


def test_further_lines_are_indented_as_wanted():
    assert fold("waiting: gpu-1, gpu-2, gpu-3", 18, "", "  ") == ["waiting: gpu-1,", "  gpu-2, gpu-3"]
    assert fold("feasible nodes: gpu-1", 20, "    ", "  ") == ["    feasible nodes:", "  gpu-1"]
    assert paragraphs(["failed: gpu-1, gpu-2", "waiting: a"], 15) == "failed: gpu-1,\n  gpu-2\nwaiting: a"
    assert paragraphs([""], 15) == ""


def test_the_longest_part_has_its_number():
    assert longest_unit("it wants 16 NVIDIA-GPU") == len("16 NVIDIA-GPU")


@pytest.mark.parametrize(("environment", "width"), [(None, 79), ("", 79), ("0", 79), ("wide", 79), ("-3", 79), ("²", 79), ("200", 200)])
def test_tables_have_these_widths(environment, width, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    if environment is not None:
        monkeypatch.setenv("COLUMNS", environment)
    assert terminal.width(79) == width
