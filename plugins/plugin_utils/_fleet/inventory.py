# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the records of a fleet's hosts from Ansible's variables.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from .._settings.values import FOR_STEPS, FOR_TASKS, values
from .model import Host

MANAGERS, GPU_NODES = "swarm_managers", "gpu_nodes"
TOOLKIT, HOLD = "nvidia_container_toolkit_version", "nvidia_container_toolkit_hold"
DISRUPT, MOVE = "provision_disrupt", "swarm_member_move"
LEAVE, PACKAGES = "deprovision_leave", "deprovision_packages"
ADVERTISE = "swarm_member_advertise_addr"
REACT, REACT_LIMIT, HEALTH = "swarm_member_react", "swarm_member_react_limit", "gpu_node_health"
METRICS = "swarm_member_metrics_directory"
RECORD, PAGE, GRAFANA = "gpu_swarm_record", "gpu_swarm_page", "gpu_swarm_grafana_url"
FAILED_BEFORE = "an earlier task of this run failed on this host, so it is excluded. Fix that and run this again."
STEP_SETTINGS = (*FOR_TASKS, *FOR_STEPS)
SETTINGS = (TOOLKIT, HOLD, DISRUPT, MOVE, LEAVE, PACKAGES, ADVERTISE, REACT, REACT_LIMIT, HEALTH, METRICS, RECORD, PAGE, GRAFANA, *STEP_SETTINGS)


def hosts_of(
    task_vars: Mapping[str, Any], names: list[str], results: tuple[str, ...], template: Callable[[Any], Any] = lambda value: value
) -> list[Host]:
    """Return the hosts in ``names``. The assessment of a host is the latest of its registered ``results``.

    A failed result is used only if there is no other result, because a failed result says nothing about the node. ``template(value)`` templates
    variables of the play.
    """
    settings = values(task_vars, names, SETTINGS, template)
    watched = _is_watched(task_vars, template)
    return [_host(task_vars, name, results, settings[name], watched) for name in names]


def _is_watched(task_vars: Mapping[str, Any], template: Callable[[Any], Any]) -> bool | None:
    """Return whether any GPU node of the inventory has a watcher, in this run or not. Managers need a watcher's reports to pause a node. None if the
    inventory has no GPU node.
    """
    nodes = [name for name in task_vars["groups"].get(GPU_NODES, []) if name in task_vars["hostvars"]]
    return any(settings[HEALTH] for settings in values(task_vars, nodes, (HEALTH,), template).values()) if nodes else None


def current_answer(answer: dict[str, Any] | None, alive: bool) -> dict[str, Any] | None:
    """Return the answer of a host. The answer may be from another playbook of this run. If the host is not ``alive``, an earlier task of this run
    failed on the host. Return that failure instead.
    """
    return answer if alive or not answer or _failed(answer) else {"failed": True, "msg": FAILED_BEFORE}


def with_current_answers(hosts: list[Host], alive: Iterable[str]) -> list[Host]:
    """Return the hosts with their current answers. ``alive`` are the hosts on which no task of this run has failed."""
    alive_names = set(alive)
    return [replace(host, assessed=current_answer(host.assessed, host.name in alive_names)) for host in hosts]


def _host(task_vars: Mapping[str, Any], name: str, results: tuple[str, ...], settings: Mapping[str, Any], watched: bool | None) -> Host:
    groups, raw = task_vars["groups"], task_vars["hostvars"].raw_get(name)
    answers = [dict(raw[result]) for result in results if raw.get(result)]
    assessed = next((answer for answer in reversed(answers) if not _failed(answer)), answers[-1] if answers else None)
    may_react = settings[REACT] and name in groups.get(MANAGERS, [])
    keeps = may_react and watched is None and settings[HEALTH]
    return Host(
        name=name,
        gpu=name in groups.get(GPU_NODES, []),
        manager=name in groups.get(MANAGERS, []),
        assessed=assessed,
        toolkit=settings[TOOLKIT],
        hold=settings[HOLD],
        disrupt=settings[DISRUPT],
        move=settings[MOVE],
        leave=settings[LEAVE],
        packages=settings[PACKAGES],
        advertise_addr=settings[ADVERTISE] or "",
        kept=bool((assessed or {}).get("kept")),
        settings={key: settings[key] for key in STEP_SETTINGS},
        reacts=settings[REACT_LIMIT] if may_react and watched else None,
        records=settings[RECORD] and name in groups.get(MANAGERS, []),
        page=settings[PAGE] and name in groups.get(MANAGERS, []),
        grafana_url=settings[GRAFANA] or "",
        keeps_reacting=bool(keeps),
        fault_limit=settings[REACT_LIMIT],
        metrics=settings[METRICS] or "" if keeps or (may_react and watched) else "",
    )


def _failed(answer: Mapping[str, Any]) -> bool:
    return bool(answer.get("failed") or answer.get("unreachable"))
