# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From Ansible's variables to plain records of the hosts of a fleet.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ._plan import Host
from ._settings import is_template
from ._work import SERVICES

MANAGERS, GPU_NODES = "swarm_managers", "gpu_nodes"
TOOLKIT, HOLD = "nvidia_container_toolkit_version", "nvidia_container_toolkit_hold"
DISRUPT, MOVE = "provision_disrupt", "swarm_member_move"
LEAVE, PACKAGES = "deprovision_leave", "deprovision_packages"
ADVERTISE = "swarm_member_advertise_addr"
SETTINGS = (TOOLKIT, HOLD, DISRUPT, MOVE, LEAVE, PACKAGES, ADVERTISE)


def hosts_of(
    task_vars: Mapping[str, Any], names: list[str], results: tuple[str, ...], template: Callable[[Any], Any] = lambda value: value
) -> list[Host]:
    """The hosts in ``names``; their latest result among the registered variables ``results`` is their assessment.

    One that failed tells nothing of the node that an earlier one has not told.
    ``template(value)`` is the value of a template that stands at the play.
    """
    of_play = {key: template(value) if is_template(value) else value for key, value in _play_vars(task_vars).items()}
    return [_host(task_vars, name, results, of_play) for name in names]


def _play_vars(task_vars: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that stand at the play, such as at import_playbook: they hold for all hosts, and no host's variables show them."""
    raw = task_vars["hostvars"].raw_get(task_vars["inventory_hostname"])
    return {key: task_vars[key] for key in SETTINGS if key in task_vars and (key not in raw or task_vars[key] != raw[key])}


def _host(task_vars: Mapping[str, Any], name: str, results: tuple[str, ...], of_play: Mapping[str, Any]) -> Host:
    groups, raw = task_vars["groups"], task_vars["hostvars"].raw_get(name)

    def setting(key: str, default: Any) -> Any:
        if key in of_play:
            return of_play[key]
        value = raw.get(key, default)
        # Templating a host's variables costs far more than reading them, so only what needs it is templated.
        return task_vars["hostvars"][name][key] if is_template(value) else value

    hold = setting(HOLD, None)
    found = [dict(raw[result]) for result in results if raw.get(result)]
    assessed = next((answer for answer in reversed(found) if not _failed(answer)), found[-1] if found else None)
    return Host(
        name=name,
        gpu=name in groups.get(GPU_NODES, []),
        manager=name in groups.get(MANAGERS, []),
        assessed=assessed,
        toolkit=str(setting(TOOLKIT, None) or "") or None,
        hold=None if hold in (None, "") else boolean(hold, strict=False),
        disrupt=str(setting(DISRUPT, SERVICES)),
        move=boolean(setting(MOVE, False), strict=False),
        leave=boolean(setting(LEAVE, True), strict=False),
        packages=boolean(setting(PACKAGES, False), strict=False),
        advertise_addr=str(setting(ADVERTISE, None) or ""),
        kept=bool((assessed or {}).get("kept")),
    )


def _failed(answer: Mapping[str, Any]) -> bool:
    return bool(answer.get("failed") or answer.get("unreachable"))
