# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the planned checks on a swarm: creates their services at once, waits for all of them, and removes them whatever happens.

Private to this collection: no stability is promised to others.
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
from .guard_probes import ALLOCATED, MEMORY, of_one_service, rounds
from .probe_results import Outcome

POLL_S = 0.3
# The scheduler reports at once that no node fits. It tries again when a node's description changes.
UNPLACED_S = 10
# A service of a killed run is removed once nobody can be waiting for it.
LEFT_ALONE_S = 60
# How many services run at once. This is no load for a manager.
AT_ONCE = 500
# A task with endless output must not fill the module's memory.
LOG_LINES = 1000

# (service, replica) -> its check. Replicas are counted from 1.
Made = Dict[Tuple[str, int], plan.Check]


class Tests(NamedTuple):
    """What all test services share: the prefix of their labels, their command, and their time limit."""

    prefix: str
    command: Sequence[str]
    timeout_s: int


def sweep(manager: Manager, prefix: str) -> int:
    """Remove test services of killed runs, and return their number."""
    found = plan.left_behind(manager.services_labelled(prefix + plan.RUN), prefix, time.time())
    for service_id in found:
        manager.remove_service(service_id)
    return len(found)


def carry_out(manager: Manager, planned: Sequence[plan.Check], nodes: Sequence[Mapping[str, Any]], tests: Tests) -> list[Outcome]:
    """Run the planned checks, and return their outcomes once all tasks have ended or the time is up. ``nodes`` are the ledger's before the test."""
    found: dict[int, Outcome] = {}
    for part in rounds(planned, nodes, AT_ONCE):
        outcomes = _carry_out(manager, part, tests)
        found.update((id(check), outcome) for check, outcome in zip(part, outcomes))
    return [found[id(check)] for check in planned]


def _carry_out(manager: Manager, planned: Sequence[plan.Check], tests: Tests) -> list[Outcome]:
    prefix, command, timeout_s = tests
    run = uuid.uuid4().hex[:8]
    label = "%s%s=%s" % (prefix, plan.RUN, run)
    labels = {prefix + plan.RUN: run, prefix + plan.UNTIL: "%d" % (time.time() + timeout_s + LEFT_ALONE_S)}
    try:
        made: Made = {}
        for number, checks in enumerate(of_one_service(planned), 1):
            name = "%s-%s-%d" % (plan.NAME, run, number)
            service_id = manager.create_service(plan.service(checks[0], name, labels, command, len(checks)))
            made.update({(service_id, replica): check for replica, check in enumerate(checks, 1)})
        return _await(manager, made, label, timeout_s)
    finally:
        # Find them by label, since a service may exist even if the manager's answer was lost.
        for one in manager.services_labelled(label):
            manager.remove_service(one["ID"])


def _await(manager: Manager, made: Made, label: str, timeout_s: int) -> list[Outcome]:
    begin = time.monotonic()
    outcomes: dict[tuple[str, int], Outcome] = {}
    while True:
        waited = time.monotonic() - begin
        tasks = {(task["ServiceID"], task["Slot"]): task for task in manager.tasks_labelled(label)}
        for key, check in made.items():
            task = tasks.get(key)
            if key not in outcomes and (waited > timeout_s or (task and _is_over(task, waited))):
                outcomes[key] = _outcome(manager, check, task)
        if len(outcomes) == len(made):
            return [outcomes[key] for key in made]
        time.sleep(POLL_S)


def _is_over(task: Mapping[str, Any], waited: float) -> bool:
    return task["Status"]["State"] in ENDED or (waited > UNPLACED_S and probe_results.is_unplaced(task))


def _outcome(manager: Manager, check: plan.Check, task: Mapping[str, Any] | None) -> Outcome:
    if not task or not (task["Status"].get("ContainerStatus") or {}).get("ContainerID"):
        return Outcome(check, task, "", None)
    try:
        printed = b"".join(log_stream.task_output(manager.task_log(task["ID"], LOG_LINES)))
    except GpuSwarmError as exc:
        # The log comes from the node itself. If one hangs, still read the others.
        return Outcome(check, task, "", exc.message)
    except ValueError as exc:
        return Outcome(check, task, "", "the log of the task could not be read: %s" % exc)
    return Outcome(check, task, printed.decode("utf-8", "replace"), None)


def add_verdicts(
    outcomes: Sequence[Outcome],
    timeout_s: int,
    before: Iterable[Mapping[str, Any]],
    inspect: Callable[[], Iterable[Mapping[str, Any]]],
) -> list[plan.Check]:
    """Return the checks with their verdicts. ``before`` are the nodes before the test. ``inspect()`` reads them from the manager again."""
    allocated = {one.get("value") for node in before for entry in node["resources"].values() for one in entry["held"]}
    nodes = {}
    if any(one.task and (probe_results.is_unplaced(one.task) or _has_any(one.task, allocated)) for one in outcomes):
        nodes = {node["id"]: node for node in inspect()}
    return probe_results.once_each([_with_verdict(one, timeout_s, nodes.get(one.check["node"])) for one in outcomes])


def _with_verdict(outcome: Outcome, timeout_s: int, node: Mapping[str, Any] | None) -> plan.Check:
    with_verdict = probe_results.with_verdict if outcome.check["probe"] in (ALLOCATED, MEMORY) else guard_verdict.with_verdict
    return with_verdict(outcome, timeout_s, node)


def _has_any(task: Mapping[str, Any], allocated: Container[str]) -> bool:
    return any(value in allocated for values in assigned(task).values() if isinstance(values, list) for value in values)
