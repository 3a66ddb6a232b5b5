# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evaluates a manager's answer (pure): whether the stack may be deployed, its progress, and the result of the run.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ...module_utils._placement.shortage import PAUSED_UPDATES

NOTHING = "Nothing was deployed."
# States of an update that failed.
FAILED_UPDATES = tuple(PAUSED_UPDATES)
ROLLBACK_COMPLETED = "rollback_completed"
STOPPED_UPDATES = (*FAILED_UPDATES, "rollback_started", ROLLBACK_COMPLETED)
ROLLED_BACK = "swarm rolled its update back{}: 'docker service ps --no-trunc {}' shows why"
NO_HEALTHCHECK = '; without a healthcheck in the file or in the image, "running" does not mean "ready"'
# The first half is from docker/cli's compose deployment, the second from swarmkit's controlapi.
_UNCHANGED = re.compile(r"failed to update (config|secret) ([^\s:]+): .*only updates to Labels are allowed")


def placement_errors(stack: str, answer: Mapping[str, Any], specs: Iterable[Mapping[str, Any]], allow_pending: bool) -> list[str]:
    """Return the reasons why this stack must not be deployed; [] without reasons."""
    errors, kinds_by_service = [], {spec["Name"]: _kinds(spec) for spec in specs}
    if answer["taken"]:
        names = ", ".join(answer["taken"])
        errors.append(f"The swarm already has {names}, which do not belong to the stack {stack}. Give the stack another name. {NOTHING}")
    unknown = sorted({kind for kinds in kinds_by_service.values() for kind in kinds} - set(answer["kinds"]))
    if unknown:
        existing = f"; existing kinds are {', '.join(sorted(answer['kinds']))}" if answer["kinds"] else ""
        errors.append(
            f"No node of the swarm advertises {', '.join(unknown)}{existing}. Write another kind under generic_resources. For devices and gpus, set "
            f"gpu_stack_kind to it. {NOTHING}"
        )
    # A service with an unknown kind has its own error above.
    unfit = [
        check for check in answer["preflight"] if not check["fits"] and not set(unknown).intersection(kinds_by_service.get(check["service"], ()))
    ]
    impossible, waiting = ([check for check in unfit if check["possible"] is is_possible] for is_possible in (False, True))
    if impossible:
        errors.append(f"{_reasons(impossible)}. No node could ever run it: reserve less, or change its constraints. {NOTHING}")
    if waiting and not allow_pending:
        errors.append(f"{_reasons(waiting)}. Make room, or let it wait with gpu_stack_allow_pending: true. {NOTHING}")
    return errors


def docker_errors(answer: Mapping[str, Any], masked: Callable[[str], str] = str) -> list[str]:
    """Return the errors with which the managers or 'docker stack config' would refuse the stack."""
    errors = [f"{clash} {NOTHING}" for clash in answer["clashes"]]
    if answer["unread"]:
        reason = masked(answer["unread"]).rstrip(".")
        errors.append(f"'docker stack config' on the manager refuses the stack file: {reason}. Correct that. {NOTHING}")
    return errors


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether a deployment changed, created or removed a service of the stack."""
    specs_before, specs_after = ({service["id"]: service["specified"] for service in answer["progress"]} for answer in (before, after))
    return specs_before != specs_after


def new_objects(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the names of objects that are new in ``after``, by kind and id."""
    new_by_kind = {kind: {object_id: name for object_id, name in now.items() if object_id not in before.get(kind, {})} for kind, now in after.items()}
    return {kind: new for kind, new in new_by_kind.items() if new}


def describe_leftovers(before: Mapping[str, Any], after: Mapping[str, Any], new: Mapping[str, Mapping[str, str]], removed: bool) -> str:
    """Describe the parts that a failed deployment left in the swarm, or say that they were removed."""
    names = ", ".join(f"the {kind[:-1]} {name}" for kind in sorted(new) for name in sorted(new[kind].values()))
    if removed:
        return f"The stack is new, so its parts are removed again: {names}."
    former = {service["id"]: service["specified"] for service in before["progress"]}
    updated = sorted(service["service"] for service in after["progress"] if former.get(service["id"], service["specified"]) != service["specified"])
    changed = [f"Created before the failure: {names}." if names else "", f"Updated before the failure: {', '.join(updated)}." if updated else ""]
    return " ".join(filter(None, changed)) or "Nothing was created or updated before the failure."


def deployment_error(output: str, masked: Callable[[str], str] = str) -> str:
    """Return the error for a failed 'docker stack deploy', with the remedy. ``masked`` hides values of the stack in its output."""
    line = " ".join(output.split())
    unchanged = _UNCHANGED.search(line)
    if unchanged:
        kind, name = unchanged.groups()
        return (
            f"the swarm already has a {kind} {name} with other content, and Docker cannot change it. Remove its name in the Compose file so that "
            "each content gets its own name, or use another name. No service was changed."
        )
    return f"{' '.join(masked(output).split()).rstrip('.')}. Correct that, and run this again."


def _kinds(spec: Mapping[str, Any]) -> list[str]:
    generic = spec["TaskTemplate"]["Resources"]["Reservations"].get("GenericResources") or []
    return [item["DiscreteResourceSpec"]["Kind"] for item in generic]


def _reasons(services: Iterable[Mapping[str, Any]]) -> str:
    return "; ".join(f"{service['service']} {service['text']}" for service in services)


def has_jobs(specs: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether any of the services is a job. Every update runs a job again."""
    return any(mode.endswith("Job") for spec in specs for mode in spec["Mode"])


def orphans(answer: Mapping[str, Any], specs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the services of the stack in the swarm that are not among ``services``."""
    names = {spec["Name"] for spec in specs}
    return [service["service"] for service in answer["progress"] if service["service"] not in names]


def placement_lines(answer: Mapping[str, Any], specs: Iterable[Mapping[str, Any]], unchecked: Collection[str] = ()) -> list[str]:
    """Return a line for each service: the nodes where it would fit, or what its update does. ``unchecked`` are services without a healthcheck."""
    names = {node["id"]: node["hostname"] for node in answer["nodes"]}
    by_name = {spec["Name"]: spec for spec in specs}
    live = {service["service"]: service["running"] + service["former"] for service in answer["progress"] if not service["job"]}
    lines = []
    for check in answer["preflight"]:
        name, spec = check["service"], by_name[check["service"]]
        number = min(live.get(name, 0), spec["Mode"].get("Replicated", {}).get("Replicas", math.inf))  # swarm only ends the others
        note = NO_HEALTHCHECK if name in unchecked and _is_gpu_update(check, spec, number) else ""
        lines.append(f"{name}: {_placement_line(names, check, spec, number)}{note}")
    return lines


def _is_gpu_update(check: Mapping[str, Any], spec: Mapping[str, Any], live: int) -> bool:
    """Return whether the deployment replaces running tasks that have GPUs. ``live`` is the number of running tasks."""
    return bool(check["fits"] and live and _kinds(spec) and (check["overlaps"] or spec["TaskTemplate"].get("ForceUpdate")))


def _placement_line(hostnames: Mapping[str, str], check: Mapping[str, Any], spec: Mapping[str, Any], live: int) -> str:
    if not check["fits"]:
        return str(check["text"])
    names = [hostnames.get(node, node) for node in check["feasible"]]
    if _is_gpu_update(check, spec, live):
        line = _update_line(names, check, spec, live)
        return line if check["overlaps"] or check["keeps_tasks"] else f"{_describe_nodes(names)}{_describe_rivals(check)}; {line}"
    at_once = spec["UpdateConfig"]["Parallelism"]
    number = f"{at_once} at a time" if at_once else "all at once"
    if check["overlaps"]:
        return f"its tasks are replaced, {number}; a new one {_describe_nodes(names)}, and starts before the old one ends{_describe_rivals(check)}"
    if check["keeps_tasks"]:
        return f"its tasks are replaced, {number}" if spec["TaskTemplate"].get("ForceUpdate") else "its tasks stay where they are"
    return _describe_nodes(names) + _describe_rivals(check)


def _update_line(names: list[str], check: Mapping[str, Any], spec: Mapping[str, Any], live: int) -> str:
    """Say how swarm replaces the ``live`` tasks of a service with GPUs, and what that needs or costs meanwhile."""
    at_once = spec["UpdateConfig"]["Parallelism"] or live
    pace = "" if live == 1 else ", all at once" if at_once >= live else ", one at a time" if at_once == 1 else f", {at_once} at a time"
    begin = f"{live} {'replica' if live == 1 else 'replicas'}{pace}"
    if check["overlaps"]:
        return f"{begin}; start-first needs {_needed_beside(names, check, spec)}{_describe_rivals(check)}"
    less = "no replica runs" if at_once >= live else "one replica less" if at_once == 1 else f"{at_once} replicas less"
    return f"{begin}, stop-first: {less} while a model loads"


def _needed_beside(names: list[str], check: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    """Return what new tasks need while the old tasks run, and which nodes have it."""
    if "Global" in spec["Mode"]:
        return f"{_amounts(spec)} free on each node: {_describe_names(names)}"
    if not check["needed"]:
        return "no free GPU: an old task that is not replaced makes room"
    new_tasks = "" if check["needed"] == 1 else f" for each of {check['needed']} new tasks"
    return f"{_amounts(spec)} free{new_tasks}, as on {_describe_names(names)}"


def _amounts(spec: Mapping[str, Any]) -> str:
    """Return the generic resources of one task, such as ``1 NVIDIA-GPU``. A reservation of 0 takes all."""
    generic = spec["TaskTemplate"]["Resources"]["Reservations"].get("GenericResources") or []
    resources = [item["DiscreteResourceSpec"] for item in generic]
    return " and ".join(f"{resource['Value'] or 'all'} {resource['Kind']}" for resource in resources)


def _describe_rivals(check: Mapping[str, Any]) -> str:
    """Warn about services that may take the room first. Swarm places services in any order, and does not move them later."""
    return f", unless swarm places {' or '.join(check['rivals'])} there first" if check["rivals"] else ""


def _describe_nodes(names: list[str]) -> str:
    return f"fits on {_describe_names(names)}" if names else "fits on no node now"


def _describe_names(names: list[str]) -> str:
    shown = sorted(names)
    return f"{', '.join(shown[:5])}{f' and {len(shown) - 5} more' if len(shown) > 5 else ''}"


def progress_lines(answer: Mapping[str, Any], unsteady: Collection[str] = ()) -> dict[str, str]:
    """Describe the progress of each service. Services in ``unsteady`` have been complete for only a moment."""
    pending = {service["service"]: service["text"] for service in answer["pending_now"]}
    return {service["service"]: _line(service, pending.get(service["service"]), service["service"] in unsteady) for service in answer["progress"]}


def _line(service: Mapping[str, Any], pending: str | None, unsteady: bool) -> str:
    ended = f", {service['complete']} complete" if service["complete"] else ""
    parts = [f"{service['running']} of {service['wanted']} {'complete' if service['job'] else 'running'}{ended}"]
    if service["former"] and not service["update"].startswith("rollback"):
        parts = [f"{service['former']} running in the former version, {service['running']} of {service['wanted']} in the new version"]
    if service["done"] and not unsteady:
        return parts[0]
    if service["update"] == ROLLBACK_COMPLETED:
        parts.append(ROLLED_BACK.format(", and it runs as before" if _is_rolled_back(service) else "", service["service"]))
    elif service["update"] in STOPPED_UPDATES:
        parts.append(f"its update is {service['update'].replace('_', ' ')}")
    if pending and service["running"] < service["wanted"]:
        is_explained = service["update"] in FAILED_UPDATES and PAUSED_UPDATES[service["update"]] in pending
        parts = [*(parts[:-1] if is_explained else parts), pending]
    if service["failed"]:
        parts.append(f"{service['failures']} failed, the last with: {service['failed']}")
    return "; ".join(parts)


def unfinished_services(answer: Mapping[str, Any]) -> list[str]:
    """Return the services to wait for.

    Exclude services that failed for good, paused updates, and completed rollbacks. A rollback is complete if the tasks run again.
    """
    return [
        service["service"]
        for service in answer["progress"]
        if not (service["done"] or service["over"] or service["update"] in FAILED_UPDATES or _is_rolled_back(service))
    ]


def _is_rolled_back(service: Mapping[str, Any]) -> bool:
    return service["update"] == ROLLBACK_COMPLETED and service["running"] + service["complete"] >= service["wanted"]


def waiting_and_failed(answer: Mapping[str, Any], unsteady: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Return the names of services that are pending or starting, and the names of services that failed."""
    impossible = {service["service"] for service in answer["pending_now"] if not service["possible"]}
    incomplete = [service for service in answer["progress"] if not service["done"] or (service["service"] in unsteady and service["failures"])]
    failed = [
        service["service"]
        for service in incomplete
        if service["failures"] or service["update"] in STOPPED_UPDATES or service["service"] in impossible
    ]
    return [service["service"] for service in incomplete if service["service"] not in failed], failed
