# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the state of the newest try of a service with the restart condition ``none``, from the service's tasks (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from .._guard import refusal
from .tasks import ENDED, WAITING

QUEUED, STARTING, RUNNING, STOPPING = "queued", "starting", "running", "stopping"
COMPLETE, FAILED, TIMED_OUT, REFUSED_BY_GUARD = "complete", "failed", "timed out", "refused"
MOST_REFUSED = 20  # work that guards refused this often has failed

STOPPED, NO_REASON = "it was stopped (%s): its node was drained or down, or left the swarm", "no reason given"
_UNHEALTHY = "unhealthy container"


def forced(template: Mapping[str, Any]) -> int:
    return template.get("ForceUpdate") or 0


def latest(template: Mapping[str, Any], tasks: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the task of the newest try; None if swarm has not created it yet."""
    current = [task for task in tasks if forced(task.get("Spec") or {}) == forced(template)]
    return max(current, key=lambda task: (task.get("CreatedAt") or "", task["ID"]), default=None)


def state_of_try(template: Mapping[str, Any], task: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return the state of a try and its reason, which may be ``""``. ``task`` is None if swarm has not created the task yet."""
    if task is None:
        return QUEUED, ""
    state, error = task["Status"]["State"], " ".join((task["Status"].get("Err") or "").split())
    if state == "complete":
        return COMPLETE, ""
    if state in ENDED:
        return _failure(template, error or (NO_REASON if state in ("failed", "rejected") else STOPPED % state))
    if state in WAITING:
        return QUEUED, error
    if task.get("DesiredState") in ("shutdown", "remove"):
        return STOPPING, "it is about to stop: its node is drained, or does not answer"
    # With a time limit, swarm shows the task as starting until the task ends, because the health check never passes.
    has_container = (task["Status"].get("ContainerStatus") or {}).get("ContainerID")
    return (RUNNING if state == "running" or (state == "starting" and has_container) else STARTING), error


def _failure(template: Mapping[str, Any], error: str) -> tuple[str, str]:
    refused = refusal.parse_refusal(error)
    if refused:
        return REFUSED_BY_GUARD, refused.whole
    if _UNHEALTHY in error and template["ContainerSpec"].get("Healthcheck"):
        return TIMED_OUT, "it ran for longer than its time limit"
    return FAILED, error
