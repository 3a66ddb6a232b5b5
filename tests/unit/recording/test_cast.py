# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests how the recording of a terminal is cut."""

from __future__ import annotations

import json

from tests.recording.cast import END, FRAME, GAPS, HOLD, SHORT, cut, length

HEAD = {"version": 2, "width": 98, "height": 28, "timestamp": 1795897841, "env": {"SHELL": "/bin/bash"}}


def recorded(*events: tuple[float, str]) -> str:
    return "\n".join([json.dumps(HEAD), *(json.dumps([at, "o", data]) for at, data in events)]) + "\n"


def frames(text: str) -> list[tuple[float, str]]:
    return [(at, data) for at, _kind, data in map(json.loads, text.splitlines()[1:])]


def test_a_long_wait_is_cut_and_a_mark_becomes_a_pause() -> None:
    made = cut(recorded((0.0, "a"), (60.0, f"b{HOLD.format(3)}"), (61.0, "c")))
    assert frames(made) == [(0.0, "a"), (GAPS[0], "b"), (round(GAPS[0] + 3 + GAPS[0], 3), "c")]


def test_a_run_of_a_slow_machine_has_shorter_waits_and_no_more_pictures() -> None:
    lines = [(float(second), "x") for second in range(int(SHORT / GAPS[0]) + 40)]
    made = cut(recorded(*lines))
    assert length(made) <= SHORT
    assert len(frames(made)) < len(lines)


def test_the_pause_at_the_end_counts_and_the_mark_of_the_end_is_not_shown() -> None:
    made = cut(recorded((0.0, "a"), (0.1, f"{HOLD.format(5)}{END}")))
    assert length(made) >= 5
    assert "".join(data for _at, data in frames(made)) == "a"


def test_what_changes_at_once_is_one_picture() -> None:
    made = cut(recorded((0.0, "a"), (FRAME / 4, "b"), (FRAME / 2, "c"), (FRAME * 1.1, "d")))
    assert [data for _at, data in frames(made)] == ["abc", "d"]


def test_nothing_of_this_machine_stays_in_its_head() -> None:
    assert json.loads(cut(recorded((0.0, "a"))).splitlines()[0]) == {"version": 2, "width": 98, "height": 28}
