# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is made of a manager's answer (pure): may the stack be deployed, how far is it, and what becomes of the run.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ...module_utils._placement.shortage import PAUSED_UPDATES

NOTHING = "Nothing was deployed."
# What has become of an update that went wrong.
ENDED = tuple(PAUSED_UPDATES)
BACK = "rollback_completed"
STOPPED = (*ENDED, "rollback_started", BACK)
ROLLED_BACK = "swarm rolled its update back{}: 'docker service ps --no-trunc {}' says why"
# swarmkit's controlapi has the second half, and docker/cli's compose deployment the first.
_UNCHANGED = re.compile(r"failed to update (config|secret) ([^\s:]+): .*only updates to Labels are allowed")


def refusals(stack: str, answer: Mapping[str, Any], specs: Iterable[Mapping[str, Any]], allow_pending: bool) -> list[str]:
    """Why this stack is not deployed; empty where it is."""
    found, by_service = [], {spec["Name"]: _kinds(spec) for spec in specs}
    if answer["taken"]:
        names = ", ".join(answer["taken"])
        found.append(f"The swarm has {names} already, which the stack {stack} does not own. Give the stack another name. {NOTHING}")
    unknown = sorted({kind for kinds in by_service.values() for kind in kinds} - set(answer["kinds"]))
    if unknown:
        there = f"; there are {', '.join(sorted(answer['kinds']))}" if answer["kinds"] else ""
        found.append(
            f"No node of the swarm advertises {', '.join(unknown)}{there}. Write the kind under generic_resources, or set gpu_stack_kind to the one "
            f"that devices and gpus stand for. {NOTHING}"
        )
    # Of a service with such a kind it is known by then that it fits nowhere.
    unfit = [one for one in answer["preflight"] if not one["fits"] and not set(unknown).intersection(by_service.get(one["service"], ()))]
    never, later = ([one for one in unfit if one["possible"] is possible] for possible in (False, True))
    if never:
        found.append(f"{_reasons(never)}. No node could ever run it: reserve less, or change its constraints. {NOTHING}")
    if later and not allow_pending:
        found.append(f"{_reasons(later)}. Make room, or let it wait for some: gpu_stack_allow_pending: true. {NOTHING}")
    return found


def unreadable(answer: Mapping[str, Any], masked: Callable[[str], str] = str) -> list[str]:
    """Why nothing is deployed where the managers would refuse the stack by what they have, or Docker's own reader its file."""
    found = [f"{one} {NOTHING}" for one in answer["clashes"]]
    if answer["unread"]:
        said = masked(answer["unread"]).rstrip(".")
        found.append(f"Docker's own reader on the manager ('docker stack config') refuses the stack file: {said}. Fix that. {NOTHING}")
    return found


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a deployment changed, created or removed a service of the stack."""
    first, then = ({one["id"]: one["specified"] for one in answer["progress"]} for answer in (before, after))
    return first != then


def made(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """By kind and id the names of what has come since."""
    found = {kind: {one: name for one, name in now.items() if one not in before.get(kind, {})} for kind, now in after.items()}
    return {kind: new for kind, new in found.items() if new}


def left_behind(before: Mapping[str, Any], after: Mapping[str, Any], new: Mapping[str, Mapping[str, str]], removed: bool) -> str:
    """What becomes of a stack whose deployment failed."""
    names = ", ".join(f"the {kind[:-1]} {name}" for kind in sorted(new) for name in sorted(new[kind].values()))
    if removed:
        return f"The stack is new, so what was made of it is removed again: {names}."
    former = {one["id"]: one["specified"] for one in before["progress"]}
    updated = sorted(one["service"] for one in after["progress"] if former.get(one["id"], one["specified"]) != one["specified"])
    changed = [f"Made by then: {names}." if names else "", f"Updated by then: {', '.join(updated)}." if updated else ""]
    return " ".join(filter(None, changed)) or "Nothing was made or updated by then."


def failure(said: str, masked: Callable[[str], str] = str) -> str:
    """What 'docker stack deploy' said, with what to do. ``masked`` takes the values of the stack out of it."""
    words = " ".join(said.split())
    unchanged = _UNCHANGED.search(words)
    if unchanged:
        kind, name = unchanged.groups()
        return (
            f"the swarm has a {kind} {name} with another content already, and Docker changes none. Take its name out of the Compose file, which then "
            "has a name for each content, or write another one there. No service was changed."
        )
    return f"{' '.join(masked(said).split()).rstrip('.')}. Fix that, and run this again."


def _kinds(spec: Mapping[str, Any]) -> list[str]:
    generic = spec["TaskTemplate"]["Resources"]["Reservations"].get("GenericResources") or []
    return [item["DiscreteResourceSpec"]["Kind"] for item in generic]


def _reasons(services: Iterable[Mapping[str, Any]]) -> str:
    return "; ".join(f"{one['service']} {one['text']}" for one in services)


def jobs(specs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any of the services is a job, which any update has run again."""
    return any(mode.endswith("Job") for spec in specs for mode in spec["Mode"])


def orphans(answer: Mapping[str, Any], specs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Services of the stack that are not among these."""
    names = {spec["Name"] for spec in specs}
    return [one["service"] for one in answer["progress"] if one["service"] not in names]


def fitting(answer: Mapping[str, Any], specs: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each service: on which nodes it would fit."""
    names = {node["id"]: node["hostname"] for node in answer["nodes"]}
    by_name = {spec["Name"]: spec for spec in specs}
    return [f"{one['service']}: {_fitting(names, one, by_name[one['service']])}" for one in answer["preflight"]]


def _fitting(hostnames: Mapping[str, str], one: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
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
    """Swarm places the services of a stack in any order, and moves none to make room."""
    return f", unless swarm has placed {' or '.join(one['rivals'])} where it needs room by then" if one["rivals"] else ""


def _where(names: list[str]) -> str:
    shown = sorted(names)
    return f"fits on {', '.join(shown[:5])}{f' and {len(shown) - 5} more' if len(shown) > 5 else ''}" if shown else "runs on no node now"


def lines(answer: Mapping[str, Any], unsteady: Collection[str] = ()) -> dict[str, str]:
    """By service what is to be said of it now. ``unsteady``: those that are as they should be only since a moment ago."""
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
        says_so = one["update"] in ENDED and PAUSED_UPDATES[one["update"]] in pending  # and why
        words = [*(words[:-1] if says_so else words), pending]
    if one["failed"]:
        words.append(f"{one['failures']} failed, the last with: {one['failed']}")
    return "; ".join(words)


def left(answer: Mapping[str, Any]) -> list[str]:
    """The services that are still waited for: a task that failed for good is not, nor is an update that swarm has paused or rolled back. Swarm has
    rolled one back before its tasks run again."""
    return [one["service"] for one in answer["progress"] if not (one["done"] or one["over"] or one["update"] in ENDED or _is_back(one))]


def _is_back(one: Mapping[str, Any]) -> bool:
    return one["update"] == BACK and one["running"] + one["complete"] >= one["wanted"]


def outcome(answer: Mapping[str, Any], unsteady: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """(what is pending or starts, with what something is wrong), by the names of services."""
    never = {one["service"] for one in answer["pending_now"] if not one["possible"]}
    short = [one for one in answer["progress"] if not one["done"] or (one["service"] in unsteady and one["failures"])]
    wrong = [one["service"] for one in short if one["failures"] or one["update"] in STOPPED or one["service"] in never]
    return [one["service"] for one in short if one["service"] not in wrong], wrong
