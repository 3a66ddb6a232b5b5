# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which services of a stack get new tasks by a deployment, since the file differs from the deployed one (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

# Keys that swarm changes without new tasks (IsTaskDirty in swarmkit's manager/orchestrator/task.go), or that docker/cli ignores.
_OF_DEPLOY = ("replicas", "labels", "update_config", "rollback_config", "placement")
_OF_SERVICE = ("depends_on", "deploy")
# What a service names there is part of it.
_SECTIONS = ("configs", "secrets", "networks", "volumes")


def marked(specs: Iterable[Mapping[str, Any]], stack: str, document: Mapping[str, Any], former: Any, there: Collection[str]) -> list[dict[str, Any]]:
    """The specifications, those with ForceUpdate whose tasks are replaced. ``former`` is the stack file that was deployed last, None if that is
    unknown; ``there`` are the services that the swarm has."""
    return [_marked(spec, spec["Name"] in there and _differs(document, former, spec["Name"][len(stack) + 1 :])) for spec in specs]


def _marked(spec: Mapping[str, Any], is_replaced: bool) -> dict[str, Any]:
    return {**spec, "TaskTemplate": {**spec["TaskTemplate"], "ForceUpdate": 1}} if is_replaced else dict(spec)


def _differs(document: Mapping[str, Any], former: Any, name: str) -> bool:
    return not former or _definition(document, name) != _definition(former, name)


def _definition(document: Mapping[str, Any], name: str) -> Any:
    """All that defines a service's tasks; None if the file does not have the service."""
    service = (document.get("services") or {}).get(name)
    if service is None:
        return None
    deploy = {key: value for key, value in (service.get("deploy") or {}).items() if key not in _OF_DEPLOY}
    named = {section: (document.get(section) or {}) for section in _SECTIONS if service.get(section) or section == "networks"}
    return {key: value for key, value in service.items() if key not in _OF_SERVICE}, deploy, named


def starts_first(specs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether new tasks start beside those that they replace."""
    return any(spec["TaskTemplate"].get("ForceUpdate") and spec["UpdateConfig"]["Order"] == "start-first" for spec in specs)
