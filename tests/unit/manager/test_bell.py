# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events of nodes wake the service on a manager. Their stream may end, break or never start."""

from __future__ import annotations

import select

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.bell import LONGEST_S, PAUSE_S, Bell
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import SwarmError


class Enough(Exception):
    """Ends a loop that would run forever."""


def rings(bell, seconds=0.0):
    return bool(select.select(bell.handles(), [], [], seconds)[0])


def test_the_bell_rings_when_the_stream_opens_and_at_each_event():
    heard = []

    def stream():
        for _event in range(3):
            yield
            heard.append((rings(bell), bell.listens))
            bell.silence()
            heard.append(rings(bell))

    bell = Bell(stream)
    assert not rings(bell)
    assert bell.hear()
    assert heard == [(True, True), False] * 3
    assert not bell.listens


def test_many_events_ring_once_and_never_wait_for_a_listener():
    bell = Bell(lambda: range(100_000))
    bell.hear()
    assert rings(bell)
    bell.silence()
    assert not rings(bell)


@pytest.mark.parametrize("opens", [True, False])
def test_a_stream_that_ends_is_opened_again_with_growing_pauses(opens):
    """If a stream was open, the service opens it again soon."""
    waited: list[float] = []

    def stream():
        if opens:
            yield
        raise SwarmError("The Docker daemon does not answer")

    def pause(seconds):
        waited.append(seconds)
        if len(waited) == 9:
            raise Enough

    with pytest.raises(Enough):
        Bell(stream, pause)._listen_forever()
    assert waited == [PAUSE_S] * 9 if opens else [2.0, 4.0, 8.0, 16.0, 32.0, LONGEST_S, LONGEST_S, LONGEST_S, LONGEST_S]


def test_events_arrive_during_other_work():
    bell = Bell(lambda: iter([None]), lambda seconds: select.select([], [], [], 60))
    bell.start()
    assert rings(bell, 10)
