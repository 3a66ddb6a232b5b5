# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last sentence of the playbooks deploy and job (pure). It always agrees with the exit status.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...module_utils._jobs.job_progress import PLANNED
from ...module_utils._printable import shortened
from .jobs import reason, states, units

LATER = "Run this again later (exit status 75)."
Allocations = Sequence[Mapping[str, Any]]


def deployment_sentence(name: str, progress: Mapping[str, str], waiting: Sequence[str], failed: Sequence[str]) -> str:
    """Return the sentence after a deployment. ``progress`` has a line for each service. ``waiting`` and ``failed`` are names of services."""
    if failed:
        tasks = f"'docker service ps --no-trunc {failed[0]}' on a manager shows the tasks of the first"
        return f"The stack {name} does not run as it should: {_progress_lines(progress, failed)}. Fix that, and run this again; {tasks}."
    if waiting:
        return f"The stack {name} is deployed, but not all of it runs yet: {_progress_lines(progress, waiting)}. {LATER}"
    complete = " or are complete" if any("complete" in line for line in progress.values()) else ""
    return f"All services of the stack {name} run{complete}: {len(progress)}."


def deployment_check_sentence(name: str, changed: bool) -> str:
    return f"The stack {name} would {'be deployed' if changed else 'stay as it is'}. Nothing was changed."


def _progress_lines(progress: Mapping[str, str], names: Sequence[str]) -> str:
    return shortened([f"{name}: {progress[name].rstrip('.')}" for name in names], "; ")


def jobs_sentence(name: str, answer: Mapping[str, Any], waits: bool) -> str:
    """Return the sentence after jobs were submitted. ``answer`` is the result of swarm_job. ``waits`` says whether this run waited for the jobs."""
    jobs = units(answer["jobs"])
    failed = _with_member_in(jobs, answer["not_ready"])
    planned = {name for name, members in jobs.items() if any(job["state"] == PLANNED for job in members)}
    unfinished = [name for name in _with_member_in(jobs, answer["waiting"]) if name not in planned]
    sentences = [f"{len(failed)} of {len(jobs)} did not complete: {_states(jobs, failed)}. -e again=failed runs them once more."] if failed else []
    sentences += [f"Not done: {shortened(answer['problems'], '; ').rstrip('.')}."] if answer["problems"] else []
    if unfinished:
        later = f" {LATER}" if waits and not sentences else ""
        sentences.append(f"{len(unfinished)} of {len(jobs)} have not ended: {_states(jobs, unfinished)}.{later}")
    sentences += [f"{len(planned)} of {len(jobs)} would be submitted. Nothing was changed."] if planned else []
    sentences = sentences or [f"All are complete: {len(jobs)}."]
    return f"Job {name}: {' '.join(sentences)}"


def _with_member_in(jobs: Mapping[str, Sequence[Mapping[str, Any]]], services: Sequence[str]) -> list[str]:
    """Return the names of the jobs and gangs with one of these services."""
    wanted = set(services)
    return [name for name, members in jobs.items() if any(job["service"] in wanted for job in members)]


def _states(jobs: Mapping[str, Sequence[Mapping[str, Any]]], names: Sequence[str]) -> str:
    return shortened([": ".join(filter(None, [name, states(jobs[name]), reason(jobs[name]).rstrip(".")])) for name in names], "; ")


# -- after a removal ---------------------------------------------------------------------------------------------------------


def allocations_on_ready_nodes(allocations: Allocations) -> list[str]:
    """Return the resources that tasks of removed services still have on ready nodes. A run does not wait for other nodes."""
    return allocations_of([allocation for allocation in allocations if allocation["state"] == "ready"])


def removal_sentence(subject: str, services: int | None, allocations: Allocations, waits: bool = True) -> str:
    """Return the sentence after a removal. ``subject`` is for example 'stack train'. ``services`` is the number of its services, or None if an
    earlier run removed them. ``allocations`` are the resources that its tasks still have. ``waits`` says whether this run waited for the tasks to
    end.
    """
    if allocations:
        later = f" {LATER}" if waits else ""
        return f"The {subject} is removed, but its tasks have not ended yet. They still have {', '.join(allocations_of(allocations))}.{later}"
    if services == 0:
        return f"The swarm has no {subject}. There is nothing to remove."
    return f"The {subject} is removed{f', services: {services}' if services else ''}. None of its tasks has a GPU any more."


def partial_removal_sentence(subject: str, problems: Sequence[str], allocations: Allocations) -> str:
    still = f" Tasks of the removed ones still have {', '.join(allocations_of(allocations))}." if allocations else ""
    return f"The {subject} is not removed as a whole: {shortened(problems, '; ').rstrip('.')}.{still} Fix that, and run this again."


def removal_check_sentence(subject: str, services: int) -> str:
    return f"The {subject} would be removed, services: {services}. Nothing was changed." if services else removal_sentence(subject, 0, ())


def allocations_of(allocations: Allocations) -> list[str]:
    """Describe each allocation, such as '2 NVIDIA-GPU on gpu-1 (down)'."""
    states = ["" if allocation["state"] == "ready" else f" ({allocation['state']})" for allocation in allocations]
    return [
        f"{allocation['amount']} {allocation['kind']} on {allocation['hostname']}{state}"
        for allocation, state in zip(allocations, states, strict=True)
    ]
