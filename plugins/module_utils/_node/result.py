# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the result of the module gpu_node.

Private to this collection: no stability is promised to others.
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
from . import fault
from .decision import Decision
from .journal import INSERTED, State
from .manager_state import manager_state
from .observation import Observation

# Facts of the engine that are not returned: flags can contain passwords, for example a proxy's.
PRIVATE = ("swarm", "flags", "unit_flags", "unit_files", "needs_reload", "pid", "labels")


class Source(Protocol):
    """What this file needs of a node."""

    params: Mapping[str, Any]
    facts: dict[str, Any]  # of the engine and its swarm
    state: State
    root: str
    diff: bool


def result_of(node: Source, seen: Observation, decision: Decision, changed: bool) -> dict[str, Any]:
    """The module's result."""
    result = {
        "changed": changed,
        "gpus": seen.gpus,
        "driver_version": seen.driver_version,
        "cuda_version": seen.cuda_version,
        "resources": decision.advertisement["resources"],
        "advertised": decision.running.resources if decision.running else _shown(seen.engine),
        "kinds": decision.advertisement["kinds"],
        "swarm_resource": decision.advertisement["swarm_resource"],
        "labels": decision.advertisement["labels"],
        "labels_unknown": [],
        "cpu": seen.cpu and dict(seen.cpu, label_prefix=options_of(node.params).cpu_prefix),
        "left_out": decision.advertisement["left_out"],
        "missing": seen.missing,
        "drift": decision.drift,
        "refused": decision.refused,
        "restart_required": decision.restart,
        "restarted": False,
        "reloaded": False,
        "toolkit_version": seen.toolkit_version,
        "toolkit_held": list(seen.held),
        "toolkit_files": ToolkitFiles(node.state.directory, node.root).paths_to_restore() if node.params["state"] == "absent" else [],
        "adopted": decision.adopted,
        "runtime_stays": decision.runtime_stays,
        "backups": {path: entry["backup"] for path, entry in sorted(seen.record.items()) if entry.get("backup")},
        "kept": node.state.is_there(),
        "health": seen.watcher.report(),
        "watcher_missing": seen.watcher.missing,
        "isolation": seen.guard.report(),
        "isolation_level": node.params["isolation"],
        "fault": _fault(node.params, seen, decision),
        "react": manager_state(node.params["state_dir"], node.root),
        "warnings": decision.warnings,
        **node.facts,
    }
    return {**result, "diff": decision.diff} if node.diff else result


def _shown(engine: Mapping[str, Any] | None) -> list[str]:
    """Return what the running daemon advertises, no matter who configured it."""
    return sorted(generic_resources.to_entries(generic_resources.from_info(engine["generic_resources"]))) if engine and engine["running"] else []


def _fault(params: Mapping[str, Any], seen: Observation, decision: Decision) -> str | None:
    """Return the fault that keeps this node's GPUs from tasks, or None."""
    if params["state"] != "present":
        return None
    refused = any(item["id"] == shrink.ID for item in decision.refused)
    path = params["daemon_config"]
    # If the change is refused, the node still needs the cards on record. If it is accepted, it only needs those that it will advertise.
    record = seen.record if refused else {path: {INSERTED: decision.inserted.get(path)}}
    found = fault.of_node(seen.gpus, fault.expected(record, path), seen.watcher.errors, seen.cards)
    return found or (_of_toolkit(params, seen) if hardware.uptime_s() > GRACE_S else None)


def _of_toolkit(params: Mapping[str, Any], seen: Observation) -> str | None:
    """Return the fault of a node whose toolkit gives the GPUs to no container. Missing devices of CUDA are drift instead: the run creates them."""
    stands = seen.tried and NO_CONTAINER not in (params.get("accept_risks") or ()) and fault.expected(seen.record, params["daemon_config"])
    return format_label(Label(FAULT, reason=TOOLKIT)) if stands else None
