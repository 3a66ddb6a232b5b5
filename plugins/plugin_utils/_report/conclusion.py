# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last sentence of the playbooks deploy and job (pure). It always agrees with the exit status.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...module_utils._jobs.job_progress import PLANNED
from ...module_utils._printable import shortened

LATER = "Run this again later (exit status 75)."
Allocations = Sequence[Mapping[str, Any]]


def deployment_sentence(name: str, progress: Mapping[str, str], waiting: Sequence[str], wrong: Sequence[str]) -> str:
    """The sentence after a deployment. ``progress`` has a line for each service, ``waiting`` and ``wrong`` are names of services."""
    if wrong:
        tasks = f"'docker service ps --no-trunc {wrong[0]}' on a manager shows the tasks of the first"
        return f"The stack {name} does not run as it should: {_progress_lines(progress, wrong)}. Fix that, and run this again; {tasks}."
    if waiting:
        return f"The stack {name} is deployed, but not all of it runs yet: {_progress_lines(progress, waiting)}. {LATER}"
    complete = " or are complete" if any("complete" in line for line in progress.values()) else ""
    return f"All services of the stack {name} run{complete}: {len(progress)}."


def deployment_check_sentence(name: str, changed: bool) -> str:
    return f"The stack {name} would {'be deployed' if changed else 'stay as it is'}. Nothing was changed."


def _progress_lines(progress: Mapping[str, str], names: Sequence[str]) -> str:
    return shortened([f"{name}: {progress[name].rstrip('.')}" for name in names], "; ")


def jobs_sentence(name: str, answer: Mapping[str, Any], waits: bool) -> str:
    """The sentence after jobs were submitted. ``answer`` is the result of swarm_job, ``waits``: this run waited for the jobs."""
    jobs = answer["jobs"]
    failed = [one for one in jobs if one["service"] in answer["not_ready"]]
    planned = [one for one in jobs if one["state"] == PLANNED]
    left = [one for one in jobs if one["service"] in answer["waiting"] and one not in planned]
    said = [f"{len(failed)} of {len(jobs)} did not complete: {_states(failed)}. -e again=failed runs them once more."] if failed else []
    said += [f"Not done: {shortened(answer['problems'], '; ').rstrip('.')}."] if answer["problems"] else []
    if left:
        said.append(f"{len(left)} of {len(jobs)} are not over: {_states(left)}." + (f" {LATER}" if waits and not said else ""))
    said += [f"{len(planned)} of {len(jobs)} would be submitted. Nothing was changed."] if planned else []
    said = said or [f"All are complete: {len(jobs)}."]
    return f"Job {name}: {' '.join(said)}"


def _states(jobs: Sequence[Mapping[str, Any]]) -> str:
    return shortened([": ".join(filter(None, [one["service"], one["state"], one["error"].rstrip(".")])) for one in jobs], "; ")


# -- removed ---------------------------------------------------------------------------------------------------------


def allocations_on_ready_nodes(allocations: Allocations) -> list[str]:
    """What tasks of removed services still have on ready nodes. A run does not wait for other nodes."""
    return allocations_of([one for one in allocations if one["state"] == "ready"])


def removal_sentence(what: str, services: int | None, allocations: Allocations, waits: bool = True) -> str:
    """The sentence after a removal. ``what`` is for example 'stack train'. ``services`` is the number of its services, or None if an earlier run
    removed them. ``allocations`` is what its tasks still have, ``waits``: this run waited for them to end."""
    if allocations:
        later = f" {LATER}" if waits else ""
        return f"The {what} is removed, but its tasks have not ended yet. They still have {', '.join(allocations_of(allocations))}.{later}"
    if services == 0:
        return f"The swarm has no {what}. There is nothing to remove."
    return f"The {what} is removed{f', services: {services}' if services else ''}. None of its tasks has a GPU any more."


def partial_removal_sentence(what: str, problems: Sequence[str], allocations: Allocations) -> str:
    still = f" Tasks of the removed ones still have {', '.join(allocations_of(allocations))}." if allocations else ""
    return f"The {what} is not removed as a whole: {shortened(problems, '; ').rstrip('.')}.{still} Fix that, and run this again."


def removal_check_sentence(what: str, services: int) -> str:
    return f"The {what} would be removed, services: {services}. Nothing was changed." if services else removal_sentence(what, 0, ())


def allocations_of(allocations: Allocations) -> list[str]:
    """Describe each allocation, such as '2 NVIDIA-GPU on gpu-1 (down)'."""
    states = ["" if one["state"] == "ready" else f" ({one['state']})" for one in allocations]
    return [f"{one['amount']} {one['kind']} on {one['hostname']}{state}" for one, state in zip(allocations, states, strict=True)]
