# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket
import threading

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine import reachable_ports


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed():
    """Reserve a port without listening on it, so that no other program can use it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_ports_that_accept_a_connection_are_found(listening, closed):
    assert reachable_ports.find_reachable([closed, listening, "127.0.0.1:no number"], 30) == [listening]


def test_without_open_ports_nothing_is_found(closed):
    assert reachable_ports.find_reachable([closed], 0.1) == []
    assert reachable_ports.find_reachable([], 30) == []


def test_an_address_of_ipv6():
    if not socket.has_dualstack_ipv6():
        assert reachable_ports.find_reachable(["[::1]:1"], 0) == []
        return
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        address = f"[::1]:{server.getsockname()[1]}"
        assert reachable_ports.find_reachable([address], 5) == [address]


def test_a_port_that_opens_later_is_found(closed, monkeypatch):
    tried = threading.Event()
    host, _colon, port = closed.rpartition(":")
    answers = iter([False, True])
    monkeypatch.setattr(reachable_ports, "POLL_S", 0)
    monkeypatch.setattr(reachable_ports, "_accepts", lambda address, timeout_s: tried.set() or (address == f"{host}:{port}" and next(answers)))
    assert reachable_ports.find_reachable([closed], 30) == [closed]
    assert tried.is_set()
