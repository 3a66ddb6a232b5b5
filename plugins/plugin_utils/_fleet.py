# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From Ansible's variables to plain records of the hosts of a fleet.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._plan import Host

MANAGERS = "swarm_managers"


def hosts_of(task_vars: Mapping[str, Any], names: list[str], gpu_group: str, results: tuple[str, ...]) -> list[Host]:
    """The hosts in ``names``; their latest result among the registered variables ``results`` is their assessment."""
    groups = task_vars["groups"]
    return [
        Host(
            name=name,
            gpu=name in groups.get(gpu_group, []),
            manager=name in groups.get(MANAGERS, []),
            assessed=_latest(task_vars["hostvars"].raw_get(name), results),
        )
        for name in names
    ]


def _latest(variables: Mapping[str, Any], results: tuple[str, ...]) -> dict[str, Any] | None:
    found = [dict(variables[name]) for name in results if variables.get(name)]
    return found[-1] if found else None
