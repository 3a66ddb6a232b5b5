# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last sentence of deploy and job (pure), which says the same as the exit status.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...module_utils._jobs.progress import PLANNED
from ...module_utils._printable import shortened

LATER = "Run this again later (exit status 75)."
Ending = Sequence[Mapping[str, Any]]


def deployed(name: str, progress: Mapping[str, str], waiting: Sequence[str], wrong: Sequence[str]) -> str:
    """``progress``: a line for each service."""
    if wrong:
        tasks = f"'docker service ps --no-trunc {wrong[0]}' on a manager shows the tasks of the first"
        return f"The stack {name} does not run as it should: {_lines(progress, wrong)}. Fix that, and run this again; {tasks}."
    if waiting:
        return f"The stack {name} is deployed, and not all of it runs yet: {_lines(progress, waiting)}. {LATER}"
    complete = " or are complete" if any("complete" in line for line in progress.values()) else ""
    return f"All services of the stack {name} run{complete}: {len(progress)}."


def checked(name: str, changed: bool) -> str:
    return f"The stack {name} would {'be deployed' if changed else 'stay as it is'}. Nothing was changed."


def _lines(progress: Mapping[str, str], names: Sequence[str]) -> str:
    return shortened([f"{name}: {progress[name].rstrip('.')}" for name in names], "; ")


def ran(name: str, answer: Mapping[str, Any], waits: bool) -> str:
    """Of jobs, by swarm_job's ``answer``. ``waits``: they were waited for."""
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


def awaited(ending: Ending) -> list[str]:
    """What tasks of removed services still have on nodes that answer. The others are not waited for."""
    return still_held([one for one in ending if one["state"] == "ready"])


def removed(what: str, services: int | None, ending: Ending, waits: bool = True) -> str:
    """``what``, such as 'stack train', with so many services, None if an earlier run removed them, and what its tasks still have. ``waits``: that was
    waited for."""
    if ending:
        later = f" {LATER}" if waits else ""
        return f"The {what} is removed, and its tasks have not ended yet. They still have {', '.join(still_held(ending))}.{later}"
    if services == 0:
        return f"The swarm has no {what}. There is nothing to remove."
    return f"The {what} is removed{f', services: {services}' if services else ''}. None of its tasks has a GPU any more."


def removed_in_part(what: str, problems: Sequence[str], ending: Ending) -> str:
    still = f" Tasks of the removed ones still have {', '.join(still_held(ending))}." if ending else ""
    return f"The {what} is not removed as a whole: {shortened(problems, '; ').rstrip('.')}.{still} Fix that, and run this again."


def would_be_removed(what: str, services: int) -> str:
    return f"The {what} would be removed, services: {services}. Nothing was changed." if services else removed(what, 0, ())


def still_held(ending: Ending) -> list[str]:
    return [f"{one['amount']} {one['kind']} on {one['hostname']}{'' if one['state'] == 'ready' else ' (' + one['state'] + ')'}" for one in ending]
