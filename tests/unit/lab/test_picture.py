# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The picture of the demo has the right text for each GPU and a complete legend."""

from __future__ import annotations

from tests.lab.picture import Gpu, Service, draw

TRAIN, CHAT = Service("train", "alice", "docker <train>"), Service("chat", "bob", "docker chat")
ALLOCATED = Gpu("g1", "X", "chat", "chat.1")
FREE = Gpu("g1", "X", None, None)
SICK = Gpu("g1", "?", None, None, "GPU is lost")


def test_it_shows_what_is_allocated_to_whom_which_card_failed_and_what_is_pending_and_why() -> None:
    drawn = draw([TRAIN, CHAT], [SICK, ALLOCATED, FREE], [("train", "needs 4 on one node: g1 has 1 free")])
    wanted = ("chat.1", ">bob<", ">free<", "GPU is lost", "not advertised", ">train<", "needs 4 on one node: g1 has 1 free", "3 × X", ">alice<")
    assert [text for text in wanted if text not in drawn] == []
    assert "docker &lt;train&gt;" in drawn


def test_each_service_has_a_colour_of_its_own() -> None:
    drawn = draw([TRAIN, CHAT], [ALLOCATED, Gpu("g1", "X", "train", "train.1"), Gpu("g1", "X", "other", "other.1")])
    assert [drawn.count(f'<rect class="{colour}"') for colour in ("s0", "s1", "any")] == [2, 2, 1]


def test_the_legend_explains_what_is_there_and_nothing_else() -> None:
    drawn = draw([CHAT], [ALLOCATED])
    assert [text for text in ("pending task", "free card", "failed card") if text in drawn] == []
    drawn = draw([CHAT], [ALLOCATED, FREE])
    assert "free card" in drawn
    assert [text for text in ("pending task", "failed card") if text in drawn] == []


def test_small_nodes_share_a_row() -> None:
    tall = [int(draw([CHAT], [Gpu(node, "X", None, None) for node in nodes]).split('viewBox="0 0 ')[1].split('"')[0].split()[1])
            for nodes in ("aaaaaaaa", "aaaaaaaab", "aaaaaaaabbbc")]  # fmt: skip
    assert tall[0] < tall[1] == tall[2]
