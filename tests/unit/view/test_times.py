# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Times that people write and read."""

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.times import moment, since_of

NOW = 1795183200  # 2026-11-20T14:00:00Z


@pytest.mark.parametrize(
    ("text", "ago"),
    [("90s", 90), ("30m", 1800), ("30min", 1800), ("12h", 43200), (" 7D ", 604800), ("2 w", 1209600), ("2026-11-20", 50400), ("999999d", NOW)],
)
def test_a_time_is_an_age_or_a_day(text, ago):
    assert since_of(text, NOW) == NOW - ago


@pytest.mark.parametrize("text", ["", "soon", "7", "-7d", "7d7d", "1e9s", "2026-13-01", "20.11.2026", "٧d", "9999999s", "\x1b[2K", "7d\n8"])
def test_anything_else_is_refused(text):
    with pytest.raises(GpuSwarmError, match=r"Write a time such as 30m, 12h") as caught:
        since_of(text, NOW)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("at", [None, "x", -1, 1e300, float("nan"), float("inf"), True, []])
def test_an_odd_time_is_a_dash(at):
    assert [moment(at), moment(NOW), moment(NOW + 0.9)] == ["–", "2026-11-20 14:00", "2026-11-20 14:00"]
