# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import label
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import Label

CARD = "GPU-00000000-1111-2222-3333-444444444444"
MIG = "MIG-00000000-1111-2222-3333-444444444444"

TEXTS = [
    (Label("ok"), "ok"),
    (Label("unwatched"), "unwatched"),
    (Label("ok", drift="1f2e3d4c"), "ok drift=1f2e3d4c"),
    (Label("fault", CARD, xid=79), f"fault {CARD} xid=79"),
    (Label("fault", MIG, "lost", since=1764000000), f"fault {MIG} reason=lost since=1764000000"),
    (Label("warning", CARD, "degraded", None, 3, 1764000000, "1f2e3d4c"), f"warning {CARD} reason=degraded since=1764000000 drift=1f2e3d4c cards=3"),
]


@pytest.mark.parametrize(("one", "value"), TEXTS)
def test_a_label_is_written_and_read(one, value):
    assert label.text(one) == value
    assert label.parse(value) == one


def test_the_longest_label_is_short():
    longest = Label("unwatched", CARD, "x" * 20, 10**12 - 1, 10**12 - 1, 10**12 - 1, "ffffffff")
    assert len(label.text(longest).encode()) <= label.LIMIT


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("", Label("unknown")),
        ("fine, really", Label("unknown")),
        ("ok GPU-0", Label("ok")),
        ("fault GPU-00000000-1111-2222-3333-44444444444X", Label("fault")),
        ("fault reason=\x1b[31mred xid=-1 since=soon cards=0 drift=zz", Label("fault")),
        ("fault xid=" + "9" * 400, Label("fault")),
        ("fault = == a= =b", Label("fault")),
    ],
)
def test_whatever_a_node_has_there_is_read_as_these_words_or_not_at_all(value, found):
    assert label.parse(value) == found
