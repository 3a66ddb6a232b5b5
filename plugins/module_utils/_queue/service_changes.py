# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes the specification of a queued service (pure): starts its task on one node, stops the task, or only writes the label with its state.

Each change is one update of the service, so the label always agrees with the rest of the specification. An admission adds ``node.id==<node>`` as the
last constraint. To stop a task, that constraint is replaced by a constraint that no node meets. Swarm then keeps the ended task with its log. With 0
replicas, swarm would remove the task.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._tasks.one_shot import forced
from .._tasks.tasks import NOWHERE
from .gang_variables import with_variables
from .queue_state import LABEL, State, replicas_of, to_text

_NODE = "node.id=="
# Swarm stops the former task first, updates all tasks at once, and never rolls back by itself.
_UPDATE = {"Parallelism": 0, "Order": "stop-first", "FailureAction": "continue"}


def with_state(spec: Mapping[str, Any], state: State) -> dict[str, Any]:
    """Return the specification with another state and no other change. Swarm changes no task because of a service's label."""
    return dict(spec, Labels=dict(spec.get("Labels") or {}, **{LABEL: to_text(state)}))


def started(spec: Mapping[str, Any], before: State, after: State, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the specification that starts the task on the node of the state ``after``. ``before`` is the state in ``spec``.

    ``variables`` are the environment variables that a member of a gang gets.
    """
    changed = _replaced(spec, before, after, _NODE + after.node)
    if variables:
        container = dict(changed["TaskTemplate"].get("ContainerSpec") or {})
        container["Env"] = with_variables(container.get("Env") or [], variables, before.attempt > 0)
        changed["TaskTemplate"]["ContainerSpec"] = container
    return changed


def stopped(spec: Mapping[str, Any], before: State, after: State) -> dict[str, Any]:
    """Return the specification that stops the task and starts no other task."""
    return _replaced(spec, before, after, NOWHERE)


def own_constraints(template: Mapping[str, Any], state: State) -> list[str]:
    """Return the constraints that the user wrote, without the constraint that an admission added."""
    constraints = list((template.get("Placement") or {}).get("Constraints") or [])
    is_added = bool(constraints and state.attempt) and constraints[-1] in (_NODE + state.node, NOWHERE)
    return constraints[:-1] if is_added else constraints


def as_submitted(service: Mapping[str, Any], state: State) -> dict[str, Any]:
    """Return the service with the constraints that the user wrote."""
    spec = service["Spec"]
    template = _with_constraints(spec["TaskTemplate"], own_constraints(spec["TaskTemplate"], state))
    return dict(service, Spec=dict(spec, TaskTemplate=template))


def _replaced(spec: Mapping[str, Any], before: State, after: State, constraint: str) -> dict[str, Any]:
    template = _with_constraints(spec["TaskTemplate"], [*own_constraints(spec["TaskTemplate"], before), constraint])
    if replicas_of(spec):  # swarm replaces the former task
        template["ForceUpdate"] = forced(template) + 1
    mode = {"Replicated": {"Replicas": 1}}
    return with_state(dict(spec, TaskTemplate=template, Mode=mode, UpdateConfig=dict(spec.get("UpdateConfig") or {}, **_UPDATE)), after)


def _with_constraints(template: Mapping[str, Any], constraints: list[str]) -> dict[str, Any]:
    return dict(template, Placement=dict(template.get("Placement") or {}, Constraints=constraints))
