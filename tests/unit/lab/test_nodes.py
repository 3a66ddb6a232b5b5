# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The addresses of the lab's nodes."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace
from typing import Any

from tests.lab import nodes
from tests.lab.daemon import NETWORK


class Engine:
    """A dockerd with these nodes. The second node is stopped, so only complete lists contain this node."""

    def __init__(self, *given: str) -> None:
        self.given = given
        self.containers = SimpleNamespace(list=self._list)

    def _list(self, all: bool = False, **_options: Any) -> list[Any]:
        networks = [{NETWORK: {"IPAMConfig": {"IPv4Address": address}}} for address in self.given]
        made = [
            SimpleNamespace(labels={nodes.NODE_LABEL: f"n{number}"}, attrs={"NetworkSettings": {"Networks": each}})
            for number, each in enumerate(networks)
        ]
        return made if all else made[:1]


def test_a_stopped_node_keeps_its_address() -> None:
    engine: Any = Engine("198.18.0.2", "198.18.0.4")
    assert list(islice(nodes.free_addresses(engine), 3)) == ["198.18.0.3", "198.18.0.5", "198.18.0.6"]
