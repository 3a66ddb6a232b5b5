# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests the action of swarm_job: it may lose its manager while it waits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.action import swarm_job
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._stack import deployment_wait


def answer(changed: bool, waiting: list[str]) -> dict[str, Any]:
    return {"jobs": [], "changed": changed, "waiting": waiting, "not_ready": [], "problems": [], "ending": [], "unplaced": False, "diff": {}}


# Whether the calls of the last run were in check mode.
CHECKED: list[bool] = []


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list for the answers of the manager. The manager repeats the last answer of the list."""
    monkeypatch.setattr(swarm_job.report, "state_changes", lambda _answer, _said: [])
    monkeypatch.setattr(swarm_job.report, "table", lambda _answer, _width: "")
    monkeypatch.setattr(swarm_job, "DELAY_S", 0.0)
    return []


def waits(calls: list[Any], again: str, limit_s: float, monkeypatch: pytest.MonkeyPatch, wait_s: int = 60, **given: Any) -> tuple[Any, list[str]]:
    module: Any = swarm_job.ActionModule.__new__(swarm_job.ActionModule)
    messages: list[str] = []
    module._options, module._who, module._placement = {"name": "sweep", "again": again, **given}, "m1", {}
    module.checked = CHECKED
    CHECKED.clear()
    module._task = SimpleNamespace(check_mode=False)
    module._display = SimpleNamespace(display=messages.append, warning=messages.append, columns=79)
    monkeypatch.setattr(swarm_job, "tolerate_silence", lambda *given: deployment_wait.tolerate_silence(*given, limit_s=limit_s))

    def queried(_arguments: Any, checks: bool = False) -> Any:
        found = calls.pop(0) if len(calls) > 1 else calls[0]
        module.checked.append(checks)
        if isinstance(found, Exception):
            raise found
        return found

    module._queried = queried
    return module._submit_and_wait({"wait": True, "wait_timeout": wait_s}), messages


def test_a_manager_that_is_silent_for_a_moment_is_queried_again(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    calls += [answer(True, ["sweep"]), swarm_job.NoManager("m1: timed out"), answer(False, [])]
    found, messages = waits(calls, "always", 60, monkeypatch)
    assert (found["changed"], found["waiting"]) == (True, [])
    assert "  note: no answer; retrying for up to 60 s: m1: timed out" in messages


def test_with_a_time_limit_of_0_the_jobs_are_looked_at_once(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    calls += [{**answer(False, ["sweep"]), "jobs": [{"service": "sweep", "state": "queued", "error": ""}]}]
    found, _said = waits(calls, "never", 60, monkeypatch, wait_s=0)
    assert (len(CHECKED), found["waiting"]) == (1, ["sweep"])
    assert found["summary"].endswith("Run this again later (exit status 75).")


@pytest.mark.parametrize("again", ["always", "failed"])
def test_a_job_that_was_submitted_is_not_submitted_by_another_manager(calls: list[Any], again: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls += [answer(True, ["sweep"]), swarm_job.NoManager("m1: timed out.")]
    messages = "m1: timed out. The job sweep was submitted, but its progress is not known. Run this again without 'again'"
    with pytest.raises(GpuSwarmError, match=messages) as error:
        waits(calls, again, 0, monkeypatch)
    assert not isinstance(error.value, swarm_job.NoManager)


@pytest.mark.parametrize(("again", "changed"), [("never", True), ("always", False)])
def test_otherwise_another_manager_continues(calls: list[Any], again: str, changed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls += [answer(changed, ["sweep"]), swarm_job.NoManager("m1: timed out")]
    with pytest.raises(swarm_job.NoManager):
        waits(calls, again, 0, monkeypatch)


HAS = [{"hostname": "g1", "kind": "NVIDIA-GPU", "amount": 1, "state": "ready"}]


def test_a_removed_job_is_waited_for_until_its_gpus_are_free(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    removed = {"service": "sweep-1", "state": "running", "error": ""}
    calls += [{**answer(True, []), "jobs": [removed], "ending": HAS}, {**answer(False, []), "ending": HAS}, answer(False, [])]
    found, _said = waits(calls, "never", 60, monkeypatch, state="absent")
    assert (found["changed"], found["jobs"], found["waiting"], calls) == (True, [removed], [], [answer(False, [])])
    assert found["summary"] == "The job sweep is removed, services: 1. None of its tasks has a GPU any more."


def test_jobs_that_do_not_end_in_time_are_named(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    calls += [{**answer(False, []), "ending": [{**HAS[0], "state": "down"}]}]
    found, _said = waits(calls, "never", 60, monkeypatch, state="absent")
    assert found["waiting"] == ["1 NVIDIA-GPU on g1 (down)"]
    assert found["summary"].endswith("They still have 1 NVIDIA-GPU on g1 (down). Run this again later (exit status 75).")


def test_a_job_submitted_while_removed_jobs_end_stays(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone submits the same job again before its tasks have ended. Only the first pass removes jobs."""
    removed, anew = ({"service": "sweep-1", "state": state, "error": ""} for state in ("running", "queued"))
    calls += [{**answer(True, []), "jobs": [removed], "ending": HAS}, {**answer(True, []), "jobs": [anew], "ending": HAS}]
    calls += [{**answer(True, []), "jobs": [anew]}]
    found, _said = waits(calls, "never", 60, monkeypatch, state="absent")
    assert CHECKED == [False, True, True]
    assert found["jobs"] == [removed]


def test_a_job_that_is_not_removed_is_not_called_removed(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [{"service": f"sweep-{number}", "state": "running", "error": ""} for number in (1, 2)]
    problem = "sweep-1 was not removed: its log could not be saved, the disk is full."
    calls += [{**answer(True, []), "jobs": jobs, "problems": [problem], "ending": HAS}, answer(True, [])]
    found, _said = waits(calls, "never", 60, monkeypatch, state="absent")
    assert found["summary"] == f"The job sweep is not removed as a whole: {problem} Fix that, and run this again."
