# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A manager that is away for some seconds does not end the wait for a stack; one that stays away does."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.plugin_utils._stack.patience import patient


class Lost(Exception):
    pass


def asked(*answers: Any) -> tuple[list[Any], list[str]]:
    """What comes of a manager that answers so, once in ten seconds; None for no answer."""
    left, said, now = list(answers), [], [0.0]

    def query() -> Any:
        now[0] += 10
        found = left.pop(0)
        if found is None:
            raise Lost("m1 cannot be reached")
        return found

    again = patient(query, {"n": 0}, Lost, said.append, 30, lambda: now[0])
    found: list[Any] = []
    while left:
        try:
            found.append(again()["n"])
        except Lost:
            found.append("lost")
    return found, said


@pytest.mark.parametrize(
    ("answers", "found", "notes"),
    [
        (({"n": 1}, {"n": 2}), [1, 2], 0),
        ((None, {"n": 2}), [0, 2], 1),
        (({"n": 1}, None, None, None, {"n": 2}), [1, 1, 1, 1, 2], 1),
        (({"n": 1}, None, None, None, None), [1, 1, 1, 1, "lost"], 1),
        (({"n": 1}, None, {"n": 2}, None, {"n": 3}), [1, 1, 2, 2, 3], 2),
    ],
)
def test_patience(answers: Any, found: list[Any], notes: int) -> None:
    seen, said = asked(*answers)
    assert (seen, len(said)) == (found, notes)
    assert all(one == "no answer; queried again for up to 30 s: m1 cannot be reached" for one in said)
