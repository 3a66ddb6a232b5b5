# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads variables of hosts that set_fact and register have set (pure). These variables contain no templates.

Ansible's hostvars[name] still templates the whole content of each variable that is read, again for each host. Every host has the plan, and the plan
has every host. So the cost would grow with the square of the number of hosts. This code reads the variables without templating.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class RawVariables(Mapping[str, Mapping[str, Any]]):
    """The variables of each host, without templating. Do not use this class for variables of an inventory. Each access reads the variables again."""

    def __init__(self, hostvars: Any) -> None:
        self._hostvars = hostvars

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        variables: Mapping[str, Any] = self._hostvars.raw_get(name)
        return variables

    def __iter__(self) -> Iterator[str]:
        return iter(self._hostvars)

    def __len__(self) -> int:
        return len(self._hostvars)
