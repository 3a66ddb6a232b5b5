# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evaluates a manager's answer (pure): whether the stack may be deployed, its progress, and the result of the run.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ...module_utils._placement.shortage import PAUSED_UPDATES

NOTHING = "Nothing was deployed."
# States of an update that failed.
ENDED = tuple(PAUSED_UPDATES)
BACK = "rollback_completed"
STOPPED = (*ENDED, "rollback_started", BACK)
ROLLED_BACK = "swarm rolled its update back{}: 'docker service ps --no-trunc {}' shows why"
# The first half is from docker/cli's compose deployment, the second from swarmkit's controlapi.
_UNCHANGED = re.compile(r"failed to update (config|secret) ([^\s:]+): .*only updates to Labels are allowed")


def placement_errors(stack: str, answer: Mapping[str, Any], specs: Iterable[Mapping[str, Any]], allow_pending: bool) -> list[str]:
    """The reasons why this stack must not be deployed, or []."""
    found, by_service = [], {spec["Name"]: _kinds(spec) for spec in specs}
    if answer["taken"]:
        names = ", ".join(answer["taken"])
        found.append(f"The swarm already has {names}, which do not belong to the stack {stack}. Give the stack another name. {NOTHING}")
    unknown = sorted({kind for kinds in by_service.values() for kind in kinds} - set(answer["kinds"]))
    if unknown:
        existing = f"; existing kinds are {', '.join(sorted(answer['kinds']))}" if answer["kinds"] else ""
        found.append(
            f"No node of the swarm advertises {', '.join(unknown)}{existing}. Write another kind under generic_resources. For devices and gpus, set "
            f"gpu_stack_kind to it. {NOTHING}"
        )
    # A service with an unknown kind has its own error above.
    unfit = [one for one in answer["preflight"] if not one["fits"] and not set(unknown).intersection(by_service.get(one["service"], ()))]
    never, later = ([one for one in unfit if one["possible"] is possible] for possible in (False, True))
    if never:
        found.append(f"{_reasons(never)}. No node could ever run it: reserve less, or change its constraints. {NOTHING}")
    if later and not allow_pending:
        found.append(f"{_reasons(later)}. Make room, or let it wait with gpu_stack_allow_pending: true. {NOTHING}")
    return found


def docker_errors(answer: Mapping[str, Any], masked: Callable[[str], str] = str) -> list[str]:
    """Errors if the managers, or Docker's own reader, would refuse the stack."""
    found = [f"{one} {NOTHING}" for one in answer["clashes"]]
    if answer["unread"]:
        reason = masked(answer["unread"]).rstrip(".")
        found.append(f"'docker stack config' on the manager refuses the stack file: {reason}. Correct that. {NOTHING}")
    return found


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a deployment changed, created or removed a service of the stack."""
    first, then = ({one["id"]: one["specified"] for one in answer["progress"]} for answer in (before, after))
    return first != then


def new_objects(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The names of objects that are new in ``after``, by kind and id."""
    found = {kind: {one: name for one, name in now.items() if one not in before.get(kind, {})} for kind, now in after.items()}
    return {kind: new for kind, new in found.items() if new}


def describe_leftovers(before: Mapping[str, Any], after: Mapping[str, Any], new: Mapping[str, Mapping[str, str]], removed: bool) -> str:
    """Describe what a failed deployment left, or that it was removed."""
    names = ", ".join(f"the {kind[:-1]} {name}" for kind in sorted(new) for name in sorted(new[kind].values()))
    if removed:
        return f"The stack is new, so its parts are removed again: {names}."
    former = {one["id"]: one["specified"] for one in before["progress"]}
    updated = sorted(one["service"] for one in after["progress"] if former.get(one["id"], one["specified"]) != one["specified"])
    changed = [f"Created before the failure: {names}." if names else "", f"Updated before the failure: {', '.join(updated)}." if updated else ""]
    return " ".join(filter(None, changed)) or "Nothing was created or updated before the failure."


def deployment_error(output: str, masked: Callable[[str], str] = str) -> str:
    """The error for a failed 'docker stack deploy', with the remedy. ``masked`` hides values of the stack in its output."""
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
    return "; ".join(f"{one['service']} {one['text']}" for one in services)


def has_jobs(specs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any of the services is a job. Every update runs a job again."""
    return any(mode.endswith("Job") for spec in specs for mode in spec["Mode"])


def orphans(answer: Mapping[str, Any], specs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Services of the stack in the swarm that are not among these."""
    names = {spec["Name"] for spec in specs}
    return [one["service"] for one in answer["progress"] if one["service"] not in names]


def placement_lines(answer: Mapping[str, Any], specs: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each service with the nodes where it would fit."""
    names = {node["id"]: node["hostname"] for node in answer["nodes"]}
    by_name = {spec["Name"]: spec for spec in specs}
    return [f"{one['service']}: {_placement_line(names, one, by_name[one['service']])}" for one in answer["preflight"]]


def _placement_line(hostnames: Mapping[str, str], one: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    if not one["fits"]:
        return str(one["text"])
    names = [hostnames.get(node, node) for node in one["feasible"]]
    at_once = spec["UpdateConfig"]["Parallelism"]
    number = f"{at_once} at a time" if at_once else "all at once"
    if one["beside"]:
        return f"its tasks are replaced, {number}; a new one {_where(names)}, and starts before the old one ends{_unless(one)}"
    if one["stays"]:
        return f"its tasks are replaced, {number}" if spec["TaskTemplate"].get("ForceUpdate") else "its tasks stay where they are"
    return _where(names) + _unless(one)


def _unless(one: Mapping[str, Any]) -> str:
    """Warn about services that may take the room first. Swarm places services in any order and moves none later."""
    return f", unless swarm places {' or '.join(one['rivals'])} there first" if one["rivals"] else ""


def _where(names: list[str]) -> str:
    shown = sorted(names)
    return f"fits on {', '.join(shown[:5])}{f' and {len(shown) - 5} more' if len(shown) > 5 else ''}" if shown else "runs on no node now"


def progress_lines(answer: Mapping[str, Any], unsteady: Collection[str] = ()) -> dict[str, str]:
    """Describe the progress of each service. ``unsteady`` services are complete, but only since a moment ago."""
    pending = {one["service"]: one["text"] for one in answer["pending_now"]}
    return {one["service"]: _line(one, pending.get(one["service"]), one["service"] in unsteady) for one in answer["progress"]}


def _line(one: Mapping[str, Any], pending: str | None, unsteady: bool) -> str:
    ended = f", {one['complete']} complete" if one["complete"] else ""
    words = [f"{one['running']} of {one['wanted']} {'complete' if one['job'] else 'running'}{ended}"]
    if one["former"] and not one["update"].startswith("rollback"):
        words = [f"{one['former']} serve (former version), {one['running']} of {one['wanted']} updated"]
    if one["done"] and not unsteady:
        return words[0]
    if one["update"] == BACK:
        words.append(ROLLED_BACK.format(", and it runs as before" if _is_back(one) else "", one["service"]))
    elif one["update"] in STOPPED:
        words.append(f"its update is {one['update'].replace('_', ' ')}")
    if pending and one["running"] < one["wanted"]:
        is_explained = one["update"] in ENDED and PAUSED_UPDATES[one["update"]] in pending
        words = [*(words[:-1] if is_explained else words), pending]
    if one["failed"]:
        words.append(f"{one['failures']} failed, the last with: {one['failed']}")
    return "; ".join(words)


def unfinished_services(answer: Mapping[str, Any]) -> list[str]:
    """The services to wait for. Services that failed for good are not among them, nor are updates that swarm paused or rolled back completely. After
    a rollback the tasks must run again first."""
    return [one["service"] for one in answer["progress"] if not (one["done"] or one["over"] or one["update"] in ENDED or _is_back(one))]


def _is_back(one: Mapping[str, Any]) -> bool:
    return one["update"] == BACK and one["running"] + one["complete"] >= one["wanted"]


def waiting_and_failed(answer: Mapping[str, Any], unsteady: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Return the names of services that are pending or starting, and of those that failed."""
    never = {one["service"] for one in answer["pending_now"] if not one["possible"]}
    short = [one for one in answer["progress"] if not one["done"] or (one["service"] in unsteady and one["failures"])]
    wrong = [one["service"] for one in short if one["failures"] or one["update"] in STOPPED or one["service"] in never]
    return [one["service"] for one in short if one["service"] not in wrong], wrong
