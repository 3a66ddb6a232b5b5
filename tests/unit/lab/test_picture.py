# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The picture of the demo: what it says of each GPU, and what its legend explains."""

from __future__ import annotations

from tests.lab.picture import Gpu, draw

HELD = Gpu("g1", "X", "GPU-aaaaaaaa-1", "demo.1")
FREE = Gpu("g1", "X", "GPU-bbbbbbbb-2", None)
SICK = Gpu("g1", "?", "GPU 2", None, "GPU is lost")


def test_it_shows_what_is_allocated_which_card_failed_and_who_is_pending() -> None:
    drawn = draw("docker <service>", [SICK, HELD, FREE], ["demo.2"])
    assert [text for text in ("demo.1", "GPU-aaaaaaaa…", ">free<", "GPU is lost", "not advertised", "demo.2", "3 × X") if text not in drawn] == []
    assert "docker &lt;service&gt;" in drawn


def test_the_legend_explains_what_is_there_and_nothing_else() -> None:
    drawn = draw("docker service", [HELD])
    assert "allocated to a task" in drawn
    assert [text for text in ("pending:", ">free<", "the card failed") if text in drawn] == []
