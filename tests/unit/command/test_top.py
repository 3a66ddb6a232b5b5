# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The picture of gpu-swarm top, and its keys."""

from __future__ import annotations

import json

import pytest
from manager_files import NOW, A, write_snapshot
from swarm_api import named, node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._command import top
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._command.screen import split_keys
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._command.written_files import read_snapshot
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed


@pytest.fixture
def snapshot(tmp_path):
    write_snapshot(tmp_path)
    return read_snapshot(str(tmp_path))


def lines(snapshot, state=None, size=(80, 24), activity=None, now=NOW + 12):
    return [text for text, _colour in top.frame(snapshot, activity or {}, state or top.State(), size, now).lines]


def cards(snapshot, *keys, size=(80, 24)):
    state = top.State()
    for key in keys:
        state = top.press(state, key, top.page_of(size[1]))
    return [line.split()[:3:2] for line in lines(snapshot, state, size)[5:-1] if line]


def test_the_picture_fits_80_columns_and_says_how_old_it_is(snapshot):
    picture = lines(snapshot)
    assert len(picture) == 24
    assert max(map(len, picture)) <= 80
    assert picture[:3] == ["Read 12 s ago by m1.", "nodes: 4, ready: 1   cards: 3 allocated, 1 excluded, 1 faulty", "pending: big 1"]
    assert picture[5].split() == ["host-g1", A[:12], "allocated", "1/1", "H100", "alice", "2", "h", "train.1"]
    assert picture[9].split()[:4] == ["host-g3", "VRAM", "allocated", "3000/8000"]
    assert picture[-1].startswith("1-5 of 5  by node  q quit")


@pytest.mark.parametrize("size", [(1, 1), (10, 3), (40, 8), (80, 24), (300, 100)])
def test_no_line_is_wider_than_the_terminal(snapshot, size):
    picture = lines(snapshot, size=size)
    assert len(picture) <= size[1]
    assert max(map(len, picture)) <= size[0]


def test_keys_sort_reverse_and_filter(snapshot):
    assert [state for _node, state in cards(snapshot, "s")] == ["faulty", "excluded", "allocated", "allocated", "allocated"]
    assert cards(snapshot, "r") == cards(snapshot)[::-1]
    assert cards(snapshot, "/", *"ALICE", "\r") == [["host-g1", "allocated"]]
    assert cards(snapshot, "/", *"alicf", "\x7f", "e", "\r", "s") == [["host-g1", "allocated"]]
    assert cards(snapshot, "/", *"alice", "\x1b") == cards(snapshot)
    assert cards(snapshot, "/", *"alice", "\r", "\x1b") == cards(snapshot)
    assert cards(snapshot, "/", *"nobody") == []
    assert cards(snapshot, *"sssss") == cards(snapshot)


def test_the_list_scrolls_no_further_than_its_end(tmp_path):
    nodes = [node("n1", resources=named(*(f"GPU-{number:04d}" for number in range(100))))]
    write_snapshot(tmp_path, ledger(Listed(nodes, [], [], NOW), "gpu-swarm."))
    found = read_snapshot(str(tmp_path))

    def first(*keys):
        state = top.State()
        for key in keys:
            state = top.frame(found, {}, top.press(state, key, 18), (80, 24), NOW).state
        return state.first

    assert [first(), first("j"), first("\x1b[B", "k"), first("k"), first(" "), first(*"    "), first(*" " * 50, "b")] == [0, 1, 0, 0, 18, 72, 64]


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_a_key_ends_it(key):
    assert top.press(top.State(), key, 1).done
    assert top.press(top.State(typing=True), "\x03", 1).done


@pytest.mark.parametrize("key", ["x", "\x1b[1;5C", "\x00", "\u202e", "é", ""])
def test_other_keys_change_nothing(key):
    assert top.press(top.State(), key, 1) == top.State()
    assert top.press(top.State(typing=True), "\x00", 1) == top.State(typing=True)


def test_this_machines_cards_show_what_they_are_doing(snapshot):
    reading = {"utilisation_percent": 97, "temperature_c": 71, "power_w": None}
    assert "97% 71°C" in lines(snapshot, activity={A: reading}, size=(100, 24))[5]
    assert "now" not in lines(snapshot, activity={"GPU-elsewhere": reading}, size=(100, 24))[4].split()


def test_old_data_is_yellow(snapshot):
    assert [top.frame(snapshot, {}, top.State(), (80, 24), now).lines[0][1] for now in (NOW, NOW + 3600)] == ["", "yellow"]


def test_names_cannot_move_the_cursor(tmp_path):
    write_snapshot(tmp_path)
    text = (tmp_path / "snapshot.json").read_text().replace("train", json.dumps("\x1b[2J\n")[1:-1])
    (tmp_path / "snapshot.json").write_text(text)
    picture = lines(read_snapshot(str(tmp_path)))
    assert [line for line in picture if not line.isprintable()] == []
    assert "\\x1b[2J" in picture[5]


@pytest.mark.parametrize(
    ("sent", "keys"),
    [("", []), ("q", ["q"]), ("sj", ["s", "j"]), ("\x1b", ["\x1b"]), ("\x1b[Ak", ["\x1b[A", "k"]), ("\x1b[6~\x1b[5~", ["\x1b[6~", "\x1b[5~"]),
     ("\x1b[", ["\x1b["])],
)  # fmt: skip
def test_an_arrow_is_one_key(sent, keys):
    assert split_keys(sent) == keys


def test_a_free_card_of_a_node_that_takes_no_tasks_is_closed(tmp_path):
    nodes = [node("n1", resources=named(A)), node("n2", availability="pause", resources=named("GPU-2"))]
    write_snapshot(tmp_path, ledger(Listed(nodes, [], [], NOW), "gpu-swarm."))
    found = read_snapshot(str(tmp_path))
    assert lines(found)[1] == "nodes: 2, ready: 1   cards: 1 free, 1 closed"
    assert cards(found, "s") == [["host-n2", "closed"], ["host-n1", "free"]]
