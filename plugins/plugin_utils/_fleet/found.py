# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What this run has found out of hosts: the variables that set_fact and register make, in which no templates are left (pure).

Ansible's hostvars[name] templates each one that is read of it all the same, with all that is in it, and does so for each host anew: of the plan,
which every host has and which has every host, that is the square of the fleet. So these are read as they stand there.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class Found(Mapping[str, Mapping[str, Any]]):
    """By host, its variables without templating; not for what an inventory sets. Of a host that is read twice, the second reading is new."""

    def __init__(self, hostvars: Any) -> None:
        self._hostvars = hostvars

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._hostvars.raw_get(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._hostvars)

    def __len__(self) -> int:
        return len(self._hostvars)
