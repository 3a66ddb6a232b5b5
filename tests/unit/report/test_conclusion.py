# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last sentence of deploy and job agrees with the exit status."""

from __future__ import annotations

from typing import Any

import pytest
from swarm_api import A, B, discrete, named, node, service, task

from plugins.module_utils._deployment import stack
from plugins.module_utils._tasks.tasks import still_allocated
from plugins.plugin_utils._report import conclusion

PROGRESS = {"s_a": "0 of 2 running; 3 failed, the last with: exit 1.", "s_b": "1 of 1 running", "s_c": "0 of 1 running; needs 2"}
TASKS = "'docker service ps --no-trunc s_a' on a manager shows the tasks of the first."
LATER = " Run this again later (exit status 75)."


@pytest.mark.parametrize(
    ("progress", "waiting", "wrong", "said"),
    [
        (PROGRESS, ["s_c"], ["s_a"],
         f"The stack s does not run as it should: s_a: {PROGRESS['s_a']} Fix that, and run this again; {TASKS}"),
        (PROGRESS, ["s_c"], [], "The stack s is deployed, but not all of it runs yet: s_c: 0 of 1 running; needs 2." + LATER),
        ({"s_b": "1 of 1 running"}, [], [], "All services of the stack s run: 1."),
        ({"s_b": "1 of 1 running", "s_i": "1 of 1 complete"}, [], [], "All services of the stack s run or are complete: 2."),
    ],
)  # fmt: skip
def test_a_stack_has_this_conclusion(progress: Any, waiting: Any, wrong: Any, said: str) -> None:
    assert conclusion.deployment_sentence("s", progress, waiting, wrong) == said


@pytest.mark.parametrize(("changed", "said"), [(True, "would be deployed"), (False, "would stay as it is")])
def test_a_checked_stack_has_this_conclusion(changed: bool, said: str) -> None:
    assert conclusion.deployment_check_sentence("s", changed) == f"The stack s {said}. Nothing was changed."


def job(number: int, state: str, error: str = "") -> dict[str, Any]:
    return {"service": f"j-{number}", "state": state, "error": error}


def member(number: int, state: str, error: str = "") -> dict[str, Any]:
    return {**job(number, state, error), "gang": "j"}


BAD = job(2, "failed", "task: non-zero exit (3).")
FAILED = "1 of 2 did not complete: j-2: failed: task: non-zero exit (3). -e again=failed runs them once more."


@pytest.mark.parametrize(
    ("jobs", "more", "waits", "said"),
    [
        ([job(1, "complete")], {}, True, "All are complete: 1."),
        ([job(1, "complete"), BAD], {"not_ready": ["j-2"]}, True, FAILED),
        ([job(1, "queued"), BAD], {"not_ready": ["j-2"], "waiting": ["j-1"]}, True, f"{FAILED} 1 of 2 have not ended: j-1: queued."),
        ([job(1, "queued", "no node")], {"waiting": ["j-1"]}, True, "1 of 1 have not ended: j-1: queued: no node." + LATER),
        ([job(1, "queued")], {"waiting": ["j-1"]}, False, "1 of 1 have not ended: j-1: queued."),
        ([job(1, "complete")], {"problems": ["j-1: the disk is full."]}, True, "Not done: j-1: the disk is full."),
        ([member(1, "complete"), member(2, "complete")], {}, True, "All are complete: 1."),
        ([member(1, "failed", "exit 3"), member(2, "failed", "stopped: j-1 of its gang ended first")], {"not_ready": ["j-1", "j-2"]}, True,
         "1 of 1 did not complete: j (2 nodes): failed: rank 1: exit 3. -e again=failed runs them once more."),
        ([job(1, "complete"), job(2, "to be submitted")], {"waiting": ["j-2"]}, False, "1 of 2 would be submitted. Nothing was changed."),
    ],
)
def test_jobs_have_this_conclusion(jobs: Any, more: Any, waits: bool, said: str) -> None:
    answer = {"jobs": jobs, "waiting": [], "not_ready": [], "problems": [], **more}
    assert conclusion.jobs_sentence("j", answer, waits) == f"Job j: {said}"


# -- removal -------------------------------------------------------------------------------------------------------------

OF_STACK = {"ContainerSpec": {"Labels": {stack.NAMESPACE: "s"}}}
DOWN = node("n2", State="down")


def of_stack(*arguments: Any, **more: Any) -> dict[str, Any]:
    return {**task(*arguments, **more), "Spec": OF_STACK}


@pytest.mark.parametrize(
    ("tasks", "still", "awaited"),
    [
        ([], [], 0),
        ([of_stack("t1", given=named(A), desired="remove")], ["1 NVIDIA-GPU on host-n1"], 1),
        ([of_stack("t1", given=named(A)), of_stack("t2", given=named(B) + discrete(4))], ["2 NVIDIA-GPU on host-n1", "4 VRAM on host-n1"], 2),
        ([of_stack("t1", given=named(A), state="shutdown", desired="remove")], [], 0),  # its container has stopped
        ([of_stack("t1", desired="remove")], [], 0),  # without GPUs
        ([of_stack("t1", given=named(A), service="there")], [], 0),  # its service exists
        ([task("t1", given=named(A))], [], 0),  # of another stack
        ([of_stack("t1", "n2", given=named(A))], ["1 NVIDIA-GPU on host-n2 (down)"], 0),  # the duration is unknown
        ([of_stack("t1", "gone", given=named(A))], [], 0),
    ],
)
def test_resources_of_removed_services_are_reported(tasks: Any, still: list[str], awaited: int) -> None:
    ending = still_allocated(stack.tasks_of("s", tasks), [service("there")], [node(), DOWN])
    assert conclusion.allocations_of(ending) == still
    assert conclusion.allocations_on_ready_nodes(ending) == still[:awaited]
    said = conclusion.removal_sentence("stack s", 1, ending)
    if still:
        assert said == f"The stack s is removed, but its tasks have not ended yet. They still have {', '.join(still)}.{LATER}"
        assert conclusion.removal_sentence("stack s", 0, ending, waits=False) == said.removesuffix(LATER)
    else:
        assert said == "The stack s is removed, services: 1. None of its tasks has a GPU any more."


def test_nothing_to_remove_is_reported() -> None:
    assert conclusion.removal_sentence("job j", 0, []) == "The swarm has no job j. There is nothing to remove."
    assert conclusion.removal_check_sentence("job j", 0) == conclusion.removal_sentence("job j", 0, [])
    assert conclusion.removal_check_sentence("job j", 2) == "The job j would be removed, services: 2. Nothing was changed."
