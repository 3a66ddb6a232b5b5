# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the planned checks on a swarm: creates their services at once, waits for all of them, and always removes them.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
import uuid
from typing import Any, Callable, Container, Dict, Iterable, Mapping, NamedTuple, Sequence, Tuple

from .._errors import GpuSwarmError
from .._swarm import log_stream
from .._swarm.manager import Manager
from .._tasks.tasks import ENDED, assigned
from . import guard_verdict, plan, probe_results
from .guard_probes import ALLOCATED, MEMORY, by_service, rounds
from .probe_results import Outcome

POLL_S = 0.3
# The scheduler reports immediately that no node fits. It tries again when a node's description changes.
UNPLACED_S = 10
# How long after its time limit a service of a killed run is removed (seconds).
ABANDONED_AFTER_S = 60
# The most services that run at the same time. A manager handles this number easily.
AT_ONCE = 500
# A task with endless output must not fill the module's memory.
LOG_LINES = 1000

# (service id, replica) -> its check. Replicas are counted from 1.
ChecksByTask = Dict[Tuple[str, int], plan.Check]


class Tests(NamedTuple):
    """The settings that all test services share: the prefix of their labels, their command, and their time limit."""

    prefix: str
    command: Sequence[str]
    timeout_s: int


def sweep(manager: Manager, prefix: str) -> int:
    """Remove test services of killed runs, and return their number."""
    service_ids = plan.abandoned_services(manager.services_labelled(prefix + plan.RUN), prefix, time.time())
    for service_id in service_ids:
        manager.remove_service(service_id)
    return len(service_ids)


def carry_out(manager: Manager, planned: Sequence[plan.Check], nodes: Sequence[Mapping[str, Any]], tests: Tests) -> list[Outcome]:
    """Run the checks, and return their outcomes when all tasks have ended or the time is up. ``nodes`` are the ledger's nodes before the test."""
    outcomes: dict[int, Outcome] = {}
    for checks in rounds(planned, nodes, AT_ONCE):
        outcomes.update((id(check), outcome) for check, outcome in zip(checks, _carry_out_round(manager, checks, tests)))
    return [outcomes[id(check)] for check in planned]


def _carry_out_round(manager: Manager, planned: Sequence[plan.Check], tests: Tests) -> list[Outcome]:
    prefix, command, timeout_s = tests
    run = uuid.uuid4().hex[:8]
    label = "%s%s=%s" % (prefix, plan.RUN, run)
    labels = {prefix + plan.RUN: run, prefix + plan.UNTIL: "%d" % (time.time() + timeout_s + ABANDONED_AFTER_S)}
    try:
        checks_by_task: ChecksByTask = {}
        for number, checks in enumerate(by_service(planned), 1):
            name = "%s-%s-%d" % (plan.NAME, run, number)
            service_id = manager.create_service(plan.service(checks[0], name, labels, command, len(checks)))
            checks_by_task.update({(service_id, replica): check for replica, check in enumerate(checks, 1)})
        return _await(manager, checks_by_task, label, timeout_s)
    finally:
        # Find the services by label, because a service may exist even if the manager's answer was lost.
        for service in manager.services_labelled(label):
            manager.remove_service(service["ID"])


def _await(manager: Manager, checks_by_task: ChecksByTask, label: str, timeout_s: int) -> list[Outcome]:
    started = time.monotonic()
    outcomes: dict[tuple[str, int], Outcome] = {}
    while True:
        waited = time.monotonic() - started
        tasks = {(task["ServiceID"], task["Slot"]): task for task in manager.tasks_labelled(label)}
        for key, check in checks_by_task.items():
            task = tasks.get(key)
            if key not in outcomes and (waited > timeout_s or (task and _is_over(task, waited))):
                outcomes[key] = _outcome(manager, check, task)
        if len(outcomes) == len(checks_by_task):
            return [outcomes[key] for key in checks_by_task]
        time.sleep(POLL_S)


def _is_over(task: Mapping[str, Any], waited: float) -> bool:
    return task["Status"]["State"] in ENDED or (waited > UNPLACED_S and probe_results.is_unplaced(task))


def _outcome(manager: Manager, check: plan.Check, task: Mapping[str, Any] | None) -> Outcome:
    if not task or not (task["Status"].get("ContainerStatus") or {}).get("ContainerID"):
        return Outcome(check, task, "", None)
    try:
        output = b"".join(log_stream.task_output(manager.task_log(task["ID"], LOG_LINES)))
    except GpuSwarmError as exc:
        # The log comes from the node itself. If one node hangs, read the logs of the other nodes.
        return Outcome(check, task, "", exc.message)
    except ValueError as exc:
        return Outcome(check, task, "", "the log of the task could not be read: %s" % exc)
    return Outcome(check, task, output.decode("utf-8", "replace"), None)


def add_verdicts(
    outcomes: Sequence[Outcome],
    timeout_s: int,
    before: Iterable[Mapping[str, Any]],
    inspect: Callable[[], Iterable[Mapping[str, Any]]],
) -> list[plan.Check]:
    """Return the checks with their verdicts. ``before`` are the nodes before the test. ``inspect()`` reads the nodes from the manager again."""
    allocated = {item.get("value") for node in before for entry in node["resources"].values() for item in entry["held"]}
    nodes = {}
    if any(outcome.task and (probe_results.is_unplaced(outcome.task) or _has_any(outcome.task, allocated)) for outcome in outcomes):
        nodes = {node["id"]: node for node in inspect()}
    return probe_results.untested_if_repeated([_with_verdict(outcome, timeout_s, nodes.get(outcome.check["node"])) for outcome in outcomes])


def _with_verdict(outcome: Outcome, timeout_s: int, node: Mapping[str, Any] | None) -> plan.Check:
    with_verdict = probe_results.with_verdict if outcome.check["probe"] in (ALLOCATED, MEMORY) else guard_verdict.with_verdict
    return with_verdict(outcome, timeout_s, node)


def _has_any(task: Mapping[str, Any], allocated: Container[str]) -> bool:
    return any(value in allocated for values in assigned(task).values() if isinstance(values, list) for value in values)
