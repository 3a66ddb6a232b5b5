# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the result of the module gpu_node.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, Protocol

from .._compat.checks import NO_CONTAINER
from .._health.label import FAULT, Label, format_label
from .._health.verdict import GRACE_S, TOOLKIT
from .._machine import hardware
from .._machine.toolkit_files import ToolkitFiles
from .._policy import generic_resources, shrink
from .._policy.labels import options_of
from . import fault, guard_need
from .decision import Decision
from .journal import INSERTED, State
from .manager_state import SHARED, manager_state
from .observation import Observation

# Facts about the engine that are not returned. Flags can contain passwords, for example of a proxy.
PRIVATE = ("swarm", "flags", "unit_flags", "unit_files", "needs_reload", "pid", "labels")


class Source(Protocol):
    """The parts of a node that this file uses."""

    params: Mapping[str, Any]
    facts: dict[str, Any]  # facts about the engine and its swarm
    state: State
    root: str
    diff: bool


def result_of(node: Source, observed: Observation, decision: Decision, changed: bool) -> dict[str, Any]:
    """Return the module's result."""
    result = {
        "changed": changed,
        "gpus": observed.gpus,
        "driver_version": observed.driver_version,
        "cuda_version": observed.cuda_version,
        "resources": decision.advertisement["resources"],
        "advertised": decision.running.resources if decision.running else _advertised_now(observed.engine),
        "kinds": decision.advertisement["kinds"],
        "swarm_resource": decision.advertisement["swarm_resource"],
        "labels": decision.advertisement["labels"],
        "labels_unknown": [],
        "cpu": observed.cpu and dict(observed.cpu, label_prefix=options_of(node.params).cpu_prefix),
        "left_out": decision.advertisement["left_out"],
        "missing": observed.missing,
        "drift": decision.drift,
        "refused": decision.refused,
        "restart_required": decision.restart,
        "restarted": False,
        "reloaded": False,
        "toolkit_version": observed.toolkit_version,
        "toolkit_held": list(observed.held_packages),
        "toolkit_files": ToolkitFiles(node.state.directory, node.root).paths_to_restore() if node.params["state"] == "absent" else [],
        "adopted": decision.adopted,
        "runtime_stays": decision.runtime_stays,
        "backups": {path: entry["backup"] for path, entry in sorted(observed.record.items()) if entry.get("backup")},
        "kept": node.state.exists() or any(map(node.state.contains, SHARED.values())),
        "health": observed.watcher.report(),
        "watcher_missing": observed.watcher.missing,
        "isolation": observed.guard.report(),
        "isolation_level": node.params["isolation"],
        "devices": _devices(node.params, observed, decision),
        "fault": _find_fault(node.params, observed, decision),
        "react": manager_state(node.params["state_dir"], node.root),
        "warnings": decision.warnings,
        **node.facts,
    }
    return {**result, "diff": decision.diff} if node.diff else result


def _devices(params: Mapping[str, Any], observed: Observation, decision: Decision) -> dict[str, Any]:
    """Return the devices that services can ask for by name; none if the node gets no guard."""
    return {} if guard_need.is_changeable(params) and decision.guard is None else dict(observed.offered)


def _advertised_now(engine: Mapping[str, Any] | None) -> list[str]:
    """Return the resources that the running daemon advertises, including resources that another tool or a person configured."""
    return sorted(generic_resources.to_entries(generic_resources.from_info(engine["generic_resources"]))) if engine and engine["running"] else []


def _find_fault(params: Mapping[str, Any], observed: Observation, decision: Decision) -> str | None:
    """Return the fault that keeps this node's GPUs from tasks, or None."""
    if params["state"] != "present":
        return None
    refused = any(item["id"] == shrink.ID for item in decision.refused)
    path = params["daemon_config"]
    # If the change is refused, check the cards on record. If the change is accepted, check only the cards that the node will advertise.
    record = observed.record if refused else {path: {INSERTED: decision.inserted.get(path)}}
    card_fault = fault.fault_from_gpus(observed.gpus, fault.advertised_on_record(record, path), observed.watcher.errors, observed.cards)
    return card_fault or (_toolkit_fault(params, observed) if hardware.uptime_s() > GRACE_S else None)


def _toolkit_fault(params: Mapping[str, Any], observed: Observation) -> str | None:
    """Return the fault of a node if its toolkit cannot give GPUs to containers. Missing devices of CUDA are drift, not a fault, because the run
    creates them."""
    is_accepted = NO_CONTAINER in (params.get("accept_risks") or ())
    if not observed.toolkit_problem or is_accepted or not fault.advertised_on_record(observed.record, params["daemon_config"]):
        return None
    return format_label(Label(FAULT, reason=TOOLKIT))
