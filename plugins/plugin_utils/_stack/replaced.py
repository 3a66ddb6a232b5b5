# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the services whose tasks a deployment replaces, because the file differs from the deployed file (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

# Keys that swarm changes without new tasks (IsTaskDirty in swarmkit's manager/orchestrator/task.go), or that docker/cli ignores.
_IGNORED_IN_DEPLOY = ("replicas", "labels", "update_config", "rollback_config", "placement")
_IGNORED_IN_SERVICE = ("depends_on", "deploy")
# Sections whose entries belong to the services that use them.
_SECTIONS = ("configs", "secrets", "networks", "volumes")


def mark_replaced(
    specs: Iterable[Mapping[str, Any]], stack: str, document: Mapping[str, Any], former: Any, existing: Collection[str]
) -> list[dict[str, Any]]:
    """Set ForceUpdate in the specifications whose tasks are replaced. ``former`` is the last deployed stack file, or None if unknown. ``existing``
    has the services of the swarm.
    """
    return [_mark(spec, spec["Name"] in existing and _differs(document, former, spec["Name"][len(stack) + 1 :])) for spec in specs]


def _mark(spec: Mapping[str, Any], is_replaced: bool) -> dict[str, Any]:
    return {**spec, "TaskTemplate": {**spec["TaskTemplate"], "ForceUpdate": 1}} if is_replaced else dict(spec)


def _differs(document: Mapping[str, Any], former: Any, name: str) -> bool:
    return not former or _definition(document, name) != _definition(former, name)


def _definition(document: Mapping[str, Any], name: str) -> Any:
    """Return the part of the file that defines the tasks of a service; None if the file has no such service."""
    service = (document.get("services") or {}).get(name)
    if service is None:
        return None
    deploy = {key: value for key, value in (service.get("deploy") or {}).items() if key not in _IGNORED_IN_DEPLOY}
    sections = {section: (document.get(section) or {}) for section in _SECTIONS if service.get(section) or section == "networks"}
    return {key: value for key, value in service.items() if key not in _IGNORED_IN_SERVICE}, deploy, sections


def starts_first(specs: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether new tasks start before the old tasks stop."""
    return any(spec["TaskTemplate"].get("ForceUpdate") and spec["UpdateConfig"]["Order"] == "start-first" for spec in specs)
