# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner behind `make test`. It must never report something as passed that did not run."""

from __future__ import annotations

import sys
import time

import pytest

from tests.lab import images
from tests.runner import count, report, schedule, stages
from tests.runner.model import ROOT, Count, Stage

REPORT = """
  default ➜ converge: Executed: Successful
DETAILS
default ➜ create: Executed: Successful
default ➜ prepare: Executed: Missing playbook (Remove from test_sequence to suppress)
default ➜ converge: Executed: Successful
\x1b[1mdefault\x1b[0m ➜ idempotence: \x1b[31mExecuted: Failed\x1b[0m

default : actions=4 successful=2
"""


@pytest.fixture(autouse=True)
def out(tmp_path, monkeypatch):
    for module in ("tests.runner.model", "tests.runner.schedule"):
        monkeypatch.setattr(f"{module}.OUT", tmp_path)


def python(name, code, **options):
    return Stage(name, [sys.executable, "-c", code], **options)


def run(*stages):
    return {result.stage.name: result for result in schedule.Schedule(stages, lambda _line: None).run()}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('<testsuite tests="3" failures="1" errors="0" skipped="0"/>', Count(2, 1)),
        ('<testsuite tests="3" failures="0" errors="1" skipped="0"/>', Count(2, 1)),
        ('<testsuite tests="3" failures="0" errors="0" skipped="2"/>', Count(1, 2)),
        ('<testsuite tests="1"/><testsuite tests="2"/>', Count(3, 0)),
    ],
)
def test_junit_counts_a_skipped_test_as_failed(tmp_path, body, expected):
    path = tmp_path / "report.xml"
    path.write_text(f"<testsuites>{body}</testsuites>")
    assert count.junit(path) == expected


def test_molecule_counts_the_actions_of_its_report():
    assert count.molecule(REPORT) == Count(2, 1)


def test_molecule_without_a_report_counts_nothing():
    assert count.molecule("default ➜ converge: Executed: Successful") == Count()


@pytest.mark.parametrize(
    ("status", "found", "expected"),
    [
        (0, Count(3, 0), Count(3, 0)),
        (1, Count(3, 1), Count(3, 1)),
        (1, Count(3, 0), Count(3, 1)),  # the tests passed, and then the process crashed
        (0, Count(0, 0), Count(0, 1)),  # the process ran no test
    ],
)
def test_stages_pass_or_fail(status, found, expected):
    assert schedule.judge(python("stage", "", count=lambda _log: found), status) == expected


def test_a_stage_without_a_count_is_one_test():
    results = run(python("good", "pass"), python("bad", "raise SystemExit(3)"))
    assert report.total(list(results.values())) == Count(1, 1)


def test_a_failed_need_fails_its_stages_without_running_them(tmp_path):
    results = run(python("setup", "raise SystemExit(1)", setup=True), python("after", f"open({str(tmp_path / 'ran')!r}, 'w')", needs=("setup",)))
    assert results["after"].count == Count(0, 1)
    assert "setup" in results["after"].reason
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("ci", "failed"), [("", 0), ("true", 1)])
def test_a_failed_spare_setup_is_reported_and_counts_only_in_ci(monkeypatch, tmp_path, ci, failed):
    monkeypatch.setattr("tests.runner.report.ROOT", tmp_path)
    monkeypatch.setenv("CI", ci)
    results = run(python("spare", "raise SystemExit('no such suite')", setup=True, spare=True), python("after", "pass", needs=("spare",)))
    assert (results["spare"].count, results["after"].count) == (Count(0, failed), Count(1, 0))
    shown = report.failures(list(results.values()))
    assert ("spare failed" in shown, "no such suite" in shown, "after" in shown) == (True, True, False)


def test_an_early_error_in_a_log_is_shown():
    end = [f"line {number}" for number in range(report.TAIL_LINES)]
    assert report.excerpt(["much", "ERROR: pylint: no exception", *end]) == ["ERROR: pylint: no exception", *end]


def test_a_successful_setup_is_no_test():
    assert run(python("setup", "pass", setup=True))["setup"].count == Count()


@pytest.mark.parametrize("rare", [False, True])
def test_each_end_to_end_test_runs_exactly_once(rare):
    """The stage with the remaining tests skips the tests of the other stages. pytest would fail for a name that is not a file."""
    taken = [stage for stage in stages.stages(rare=rare) if stage.name.startswith("e2e") and stage.name not in ON_THE_NEWEST_DOCKER]
    words = [word for stage in taken for word in stage.command]
    named = [word for word in words if word.startswith(f"{stages.E2E}/")]
    ignored = [word.removeprefix("--ignore=") for word in words if word.startswith("--ignore=")]
    assert named == ignored
    assert len(named) == len(set(named))
    assert [path for path in named if not (ROOT / path).is_file()] == []


ON_THE_NEWEST_DOCKER = ("e2e-newest", "molecule-policies-newest", "molecule-health-newest")


def test_make_test_skips_only_rare_tests_and_make_test_all_skips_none():
    """Only end-to-end and unit tests contain rare ones.

    Rare scenarios, the newest Docker, and other releases of ansible-core and Python have separate stages. All other stages
    are the same for both commands. Only `e2e` is cut in two if it contains rare tests.
    """
    often, every = ({stage.name: stage.command for stage in stages.stages(rare=rare)} for rare in (False, True))
    ends = {f"{kind}-{end}" for kind in ("unit", "sanity") for end in ("oldest", "newest", "python38")}
    scenarios = {f"molecule-{name}" for name in stages.MOLECULE_RARE}
    members = every.pop("e2e-members")
    assert set(every) - set(often) == {*ON_THE_NEWEST_DOCKER, *ends, *scenarios}
    every["e2e"] = [word for word in every["e2e"] if word not in {f"--ignore={path}" for path in members}]
    fewer = {name: command for name, command in often.items() if command != every[name]}
    assert {"unit", *(name for name in often if name.startswith("e2e"))} == set(fewer)
    assert {name: [word for word in command if word not in stages.OFTEN] for name, command in fewer.items()} == {
        name: [word for word in every[name] if word != "-m"] for name in fewer
    }
    assert not any("-m" in every[name][3:] for name in often)


def test_unit_tests_that_another_core_skips_exist():
    assert [name for name in (*stages.OF_TOOLS, *stages.OF_2_19) if not (ROOT / "tests/unit" / name).exists()] == []


def test_stages_with_rare_tests_have_twice_the_time():
    often, every = ({stage.name: stage.timeout_s for stage in stages.stages(rare=rare)} for rare in (False, True))
    assert {name for name, limit in every.items() if name.startswith("e2e") and limit != 7200} == set()
    assert {name for name, limit in often.items() if name.startswith("e2e") and limit != 3600} == set()
    assert {name for name in often if not name.startswith("e2e") and often[name] != every[name]} == set()


def test_the_newest_docker_replaces_another_one_in_the_same_fleet():
    """The same files run on other nodes. They do not run at the same time as the stage with a fleet of the same name."""
    every = {stage.name: stage for stage in stages.stages(rare=True)}
    newest = [every[name] for name in ON_THE_NEWEST_DOCKER]
    assert [stage.env[images.REPLACE] for stage in newest] == ["debian13=debian-testing"] * 3
    assert {stage.needs for stage in newest} == {("images", "images-moving")}
    assert [stage.command for stage in newest[1:]] == [every[stage.name.removesuffix("-newest")].command for stage in newest[1:]]
    assert [every[name].lock for name in ("e2e-newest", "e2e-health")] == ["e2e-health"] * 2
    assert {stage.lock for stage in newest[1:]} == {"molecule"}


def test_a_lock_keeps_stages_apart(tmp_path):
    code = f"import os, time; os.mkdir({str(tmp_path / 'held')!r}); time.sleep(0.2); os.rmdir({str(tmp_path / 'held')!r})"
    assert all(result.ok for result in run(python("one", code, lock="lab"), python("two", code, lock="lab")).values())


def test_stages_run_side_by_side(tmp_path):
    meet = "import pathlib, time; pathlib.Path({mine!r}).touch()\nwhile not pathlib.Path({other!r}).exists(): time.sleep(0.01)"
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    results = run(
        python("one", meet.format(mine=one, other=two), timeout_s=20),
        python("two", meet.format(mine=two, other=one), timeout_s=20),
    )
    assert all(result.ok for result in results.values())


def test_a_stage_that_hangs_is_ended_with_its_children(tmp_path):
    code = "import subprocess; subprocess.run(['sleep', '600'])"
    started = time.monotonic()
    result = run(python("slow", code, timeout_s=1))["slow"]
    assert (result.count, result.reason) == (Count(0, 1), "ran longer than its limit of 1 s, and was killed")
    assert time.monotonic() - started < 20


def test_a_failed_preparation_is_reported():
    def prepare():
        raise OSError("disk full")

    result = run(python("stage", "pass", prepare=prepare))["stage"]
    assert (result.count, result.reason) == (Count(0, 1), "OSError: disk full")
    assert "disk full" in report.failures([result])


FINISH, ASSESS = "playbooks/tasks/finish.yml", "roles/gpu_node/tasks/assess.yml"


@pytest.mark.parametrize(
    ("files", "linted"),
    [
        ({FINISH, ASSESS, "roles/gpu_node/README.md"}, [[FINISH, ASSESS]]),
        ({FINISH, "roles/gpu_node/tasks/gone.yml"}, [[]]),  # the files that include this file fail
        ({"plugins/modules/swarm_nodes.py"}, []),
    ],
)
def test_ansible_lint_checks_changed_files_or_all_if_a_file_was_removed(files, linted):
    found = [stage.command for stage in stages._lint(files)]
    assert [[word for word in command[1:] if word.endswith(".yml")] for command in found] == linted
