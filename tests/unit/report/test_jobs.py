# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report import jobs


def job(service, state, tries=1, code=None, error="", parameters=""):
    return {"service": service, "state": state, "tries": tries, "exit_code": code, "error": error, "parameters": parameters}


def test_each_news_has_a_line():
    said: dict[str, str] = {}
    assert jobs.state_changes({"jobs": [job("a", "queued"), job("b", "running")]}, said) == ["a: queued", "b: running"]
    assert jobs.state_changes({"jobs": [job("a", "queued"), job("b", "failed", 2, 1, "exit 1")]}, said) == ["b: failed (try 2): exit 1"]
    assert jobs.state_changes({"jobs": [job("a", "queued"), job("b", "failed", 2, 1, "exit 1")]}, said) == []


def test_many_at_a_time_are_counted():
    found = jobs.state_changes({"jobs": [job(f"j{number}", "queued") for number in range(1000)]}, {})
    assert (len(found), found[-1]) == (21, "and 980 more")


def test_the_table_has_each_job_and_the_total():
    text = jobs.table({"jobs": [job("a", "complete", 1, 0), job("b", "failed", 2, 3, "non-zero\nexit", "LR=1"), job("c", "complete", 1, 0)]}, None)
    lines = text.splitlines()
    assert lines[0].split() == ["job", "parameters", "state", "exit", "code", "tries", "reason"]
    assert lines[3].split()[:5] == ["b", "LR=1", "failed", "3", "2"]
    assert "non-zero\\nexit" in lines[3]
    assert lines[-1] == "2 complete, 1 failed"


def test_without_jobs_the_table_is_empty():
    assert jobs.table({"jobs": []}, None) == "no jobs match"


def member(rank, state, **more):
    return {**job(f"big-1-{rank}", state, **more), "gang": "big-1"}


def test_a_gang_has_one_line_and_one_row_that_name_the_member_that_failed_first():
    said: dict[str, str] = {}
    assert jobs.state_changes({"jobs": [member(0, "waiting", tries=0), member(1, "waiting", tries=0)]}, said) == ["big-1 (2 nodes): waiting"]
    assert jobs.state_changes({"jobs": [member(0, "running"), member(1, "starting")]}, said) == ["big-1 (2 nodes): 1 running, 1 starting"]
    stopped = "stopped: big-1-1 of its gang ended first (failed: exit 7)"
    answer = {"jobs": [member(0, "failed", code=137, error=stopped), member(1, "failed", code=7, error="exit 7"), job("a", "complete", 1, 0)]}
    assert jobs.state_changes(answer, said) == ["big-1 (2 nodes): failed: rank 1: exit 7", "a: complete"]
    lines = jobs.table(answer, None).splitlines()
    assert lines[2].split() == ["big-1", "(2", "nodes)", "failed", "7", "1", "rank", "1:", "exit", "7"]
    assert lines[-1] == "1 failed, 1 complete"


def test_a_reason_that_all_members_share_names_no_rank():
    said: dict[str, str] = {}
    answer = {"jobs": [member(rank, "waiting", tries=0, error="no room") for rank in (0, 1)]}
    assert jobs.state_changes(answer, said) == ["big-1 (2 nodes): waiting: no room"]


def test_the_reason_of_a_waiting_job_is_printed_once_and_kept_for_the_table():
    said: dict[str, str] = {}
    reasons = jobs.Reasons()
    first = reasons.fill({"jobs": [job("a", "waiting", 1, error="no room"), job("b", "failed", error="exit 1")]}, True)
    assert jobs.state_changes(first, said) == ["a: waiting: no room", "b: failed: exit 1"]
    second = reasons.fill({"jobs": [job("a", "waiting", 1), job("b", "failed", error="exit 1")]}, False)
    assert [one["error"] for one in second["jobs"]] == ["no room", "exit 1"]
    assert jobs.state_changes(reasons.fill({"jobs": [job("a", "waiting", 1, error="it is next")]}, True), said) == []
    again = reasons.fill({"jobs": [job("a", "waiting", 2, error="the last try: exit 1")]}, False)
    assert [one["error"] for one in again["jobs"]] == ["the last try: exit 1"]
