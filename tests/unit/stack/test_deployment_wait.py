# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""If a manager does not answer for a few seconds, the wait for a stack continues. If the manager is silent for longer, the wait ends.

Tasks that have just started do not end the wait either.
"""

from __future__ import annotations

from typing import Any

import pytest

from plugins.plugin_utils._stack.deployment_wait import Steadiness, tolerate_silence, without_former_failures


class Lost(Exception):
    pass


def queried(*answers: Any) -> tuple[list[Any], list[str]]:
    """Query a manager once in ten seconds. Each value is an answer, or None for no answer."""
    left, said, now = list(answers), [], [0.0]

    def query() -> Any:
        now[0] += 10
        found = left.pop(0)
        if found is None:
            raise Lost("m1 cannot be reached")
        return found

    again = tolerate_silence(query, {"n": 0}, Lost, said.append, 30, lambda: now[0])
    found: list[Any] = []
    while left:
        try:
            found.append(again()["n"])
        except Lost:
            found.append("lost")
    return found, said


@pytest.mark.parametrize(
    ("answers", "found", "notes"),
    [
        (({"n": 1}, {"n": 2}), [1, 2], 0),
        ((None, {"n": 2}), [0, 2], 1),
        (({"n": 1}, None, None, None, {"n": 2}), [1, 1, 1, 1, 2], 1),
        (({"n": 1}, None, None, None, None), [1, 1, 1, 1, "lost"], 1),
        (({"n": 1}, None, {"n": 2}, None, {"n": 3}), [1, 1, 2, 2, 3], 2),
    ],
)
def test_a_wait_has_patience(answers: Any, found: list[Any], notes: int) -> None:
    seen, said = queried(*answers)
    assert (seen, len(said)) == (found, notes)
    assert all(one == "no answer; retrying for up to 30 s: m1 cannot be reached" for one in said)


def far(tasks: str = "", specified: str = "1", **more: Any) -> dict[str, Any]:
    return {"service": "a", "tasks": tasks.split(), "specified": specified, "done": bool(tasks), "job": False, "failures": 0, **more}


NEW, ONE, TWO = far(), far("t1"), far("t2", failures=1)


def ended(*tasks: str, **more: Any) -> dict[str, Any]:
    return far(ended=list(tasks), past=list(tasks), failures=len(tasks), failed="exit (1)" if tasks else "", over=False, id="i1", **more)


@pytest.mark.parametrize(
    ("before", "now", "failures"),
    [
        (None, ended("t1"), 1),
        (ended(), ended("t1"), 1),
        (ended("t1", "t2"), ended("t1", "t2"), 0),
        # Swarm forgets the oldest tasks.
        (ended("t1", "t2"), ended("t2", "t3"), 1),
        (ended("t1", "t2"), ended("t2"), 0),
        # The last ended task has no successor. All attempts of a job belong to the deployment.
        (ended("t1"), {**ended("t1"), "over": True}, 1),
        (ended("t1"), ended("t1") | {"job": True}, 1),
    ],
)
def test_earlier_ends_are_no_failure_of_the_deployment(before: Any, now: Any, failures: int) -> None:
    answer = {"progress": [now], "nodes": []}
    found = without_former_failures({"progress": [before] if before else []}, answer)
    (one,) = found["progress"]
    assert (one["failures"], one["failed"]) == (failures, "exit (1)" if failures else "")
    assert ({**one, "failures": 0, "failed": ""}, found["nodes"]) == ({**now, "failures": 0, "failed": ""}, [])
    assert now["failures"] == len(now["ended"])


@pytest.mark.parametrize(
    ("first", "after", "unsteady"),
    [
        # After the answer from before the deployment, one answer every two seconds.
        (ONE, [ONE], ""),
        (None, [NEW, ONE, ONE, ONE, ONE], "-+++-"),
        (NEW, [ONE, ONE, ONE, ONE], "+++-"),
        # The task ends, and swarm starts a new task.
        (None, [ONE, TWO, TWO, TWO, TWO], "++++-"),
        (None, [ONE, NEW, ONE, ONE, ONE, ONE], "+-+++-"),
        # The tasks are the same, but the service has a new specification. Swarm may not have started to replace the tasks.
        (ONE, [far("t1", "2")] * 4, "+++-"),
        # The service is running again during the deployment by chance.
        (TWO, [TWO] * 4, "+++-"),
        # The service does not exist after the deployment. A job may end.
        (ONE, [None], "-"),
        (None, [far("t1", job=True)], "-"),
    ],
)
def test_a_service_must_run_steadily(first: Any, after: list[Any], unsteady: str) -> None:
    now = [0.0]
    steadiness = Steadiness({"progress": [first] if first else []}, 5, lambda: now[0])
    seen = ""
    for one in after:
        found = steadiness.unsteady_services({"progress": [one] if one else []})
        assert found in ([], ["a"])
        seen += "+" if found else "-"
        now[0] += 2
    assert seen == (unsteady or "-")


def test_an_old_answer_says_nothing_about_now() -> None:
    """If a manager does not answer, the former answer is kept, together with the time of this answer."""
    now = [0.0]
    steadiness, first = Steadiness({"progress": []}, 5, lambda: now[0]), {"progress": [ONE]}
    for _each in range(5):
        assert steadiness.unsteady_services(first) == ["a"]
        now[0] += 2
    assert steadiness.unsteady_services({"progress": [ONE]}) == []
    assert steadiness.unsteady_services({"progress": [TWO]}) == ["a"]
