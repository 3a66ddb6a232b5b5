# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/reference/platforms.md and the README's table name the tests of each platform, or say that the platform is untested.

Both tables are compared with the existing tests and with the nodes of the lab. False statements are found.
"""

from __future__ import annotations

import re

import pytest

from tests.lab import versions
from tests.pages import platforms

PAGE, README = platforms.page(), platforms.readme()
ROWS = platforms.rows(PAGE)
DEBIAN, OTHERS = "Debian 12 and 13, Docker 20.10 and 26.1", "SELinux, AWX, Mitogen, RHEL 8, other releases of Python"
NODES = {
    "debian12": {"docker.io": "20.10.24", "python3": "3.11.2"},
    "debian13": {"docker.io": "26.1.5", "python3": "3.13.5"},
    "debian-testing": {"docker.io": "28.5.2", "python3": "3.14.7"},
    "rhel": {"dnf": "4.14.0"},
    "suse": {"zypper": "1.14.42"},
}


def changed(text: str, old: str, new: str) -> str:
    found, number = re.subn(old, lambda _match: new, text, count=1, flags=re.MULTILINE)
    assert number == 1, f"{old}: change this test"
    return found


def in_one_line(text: str) -> str:
    """Return the page in one line, with the sentence about a whole run that is still outstanding."""
    either = f"{platforms.YET}|{platforms.WHOLE_RUN.pattern}".replace(" ", r"\s")
    return re.sub(either, platforms.YET, text)


def test_the_page_agrees_with_the_tests_and_the_lab() -> None:
    assert platforms.wrong_page(PAGE) == []


def test_the_readme_agrees_with_the_page() -> None:
    assert platforms.wrong_readme(README, ROWS) == []
    assert "(docs/reference/platforms.md)" in README


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        # All nodes of this stage are Debian 12.
        (r"^\| Debian 13 .*$", "| Debian 13 | `debian13` | `tests/e2e/test_rpm_nodes.py` |", "test_rpm_nodes.py has no node debian13"),
        # A node of RHEL's family is not Debian.
        (r"^\| Debian 12 .*$", "| Debian 12 | `debian12` | `tests/e2e/test_rpm_nodes.py` |", "has no node debian12"),
        (r"^\| Debian 13 .*$", "| Debian 13 | `debian13` | also `rhel`: `tests/e2e/test_verify.py` |", "has no node rhel"),
        (r"^\| Ubuntu .*$", "| Ubuntu | | in the lab |", "names no test"),
        (r"^\| Ubuntu .*$", "| Ubuntu | `debian13` | by variables only: Debian's |", "has the lab node debian13"),
        (r"^\| Ubuntu .*$", "| Ubuntu | `ubuntu` | `tests/e2e/test_verify.py` |", "the lab makes no node ubuntu"),
        (r"^\| Ubuntu .*$", "| Ubuntu | | `tests/e2e/test_ubuntu.py` |", "there is no tests/e2e/test_ubuntu.py"),
        (r"^\| Ubuntu .*$", "| Ubuntu | | `tests/e2e/test_verify.py::test_ubuntu` |", "has no test_ubuntu"),
        (r"^\| Ubuntu .*$", "| Ubuntu | | stage `ubuntu` |", "there is no stage ubuntu"),
        (r"test_an_ansible_core_runs_the_whole_cycle` \(rare\)", "test_an_ansible_core_runs_the_whole_cycle`", "the rare tests are"),
        (r"^\| .* `suse` .*$", "", "suse: the lab makes such nodes"),
        (platforms.YET, "a whole run of it was done", "exactly one of"),
        (platforms.YET, "A whole `make test-all` passed on 24 November 2026 at abc1234: 10 passed, 1 failed, 9 minutes", "exactly one of"),
    ],
)  # fmt: skip
def test_false_statements_of_the_page_are_found(old: str, new: str, found: str) -> None:
    assert any(found in problem for problem in platforms.wrong_page(changed(in_one_line(PAGE), old, new)))


@pytest.mark.parametrize(
    ("ended", "counts"),
    [
        ("passed", "0 failed, 83 minutes"),
        ("ran", "2 failed, 83 minutes. All 2 were faults of tests. They were mended up to def5678, and passed."),
    ],
)
def test_a_whole_run_is_named_with_its_day_its_commits_and_its_counts(ended: str, counts: str) -> None:
    said = f"A whole `make test-all` {ended} on 24 November 2026 at abc1234: 5678 passed, {counts}"
    assert platforms.wrong_page(changed(in_one_line(PAGE), platforms.YET, said)) == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (r"^\| Ubuntu, .*? \| .*$", "| Ubuntu, and Docker's releases in between | in the lab |", "lab, but the page says: by variables"),
        (r"^\| Debian 12 and 13, Docker .*? \|", "| Debian 9 to 13, and Solaris |", "the page has no such row"),
        (r"^\| Debian 12 and 13, Docker .*? \| .*$", f"| {DEBIAN} | in the lab: `tests/e2e/test_ssh.py` |", "is not proven by"),
        (r"^\| SELinux, .*? \| .*$", f"| {OTHERS} | in the lab |", "was tested in the lab, but the page says: never run"),
        (r"^\| Debian 12 and 13, Docker .*? \| .*$", f"| {DEBIAN} | in the lab, with 29.9 |", "29.9 is not on the page"),
        (r"^\| SELinux, .*$\n", "", "Mitogen, WinRM: never run: the README does not say so"),
        (r"^\| SELinux, .*$", f"| {OTHERS} | works |", "must begin with one of"),
        (r"^\| platform \|", "| system |", "there is no table"),
    ],
)  # fmt: skip
def test_false_statements_of_the_readme_are_found(old: str, new: str, found: str) -> None:
    assert any(found in problem for problem in platforms.wrong_readme(changed(README, old, new), ROWS))


def test_a_platform_without_tests_is_found_in_the_readme() -> None:
    rows = platforms.rows(changed(PAGE, r"^\| Debian 13 .*$", "| Debian 13 | | never run |"))
    assert f"{DEBIAN}: the README says that Debian 13 was tested in the lab, but the page says: never run" in platforms.wrong_readme(README, rows)


@pytest.mark.parametrize(
    ("node", "package", "version", "found"),
    [
        ("debian12", "docker.io", "20.10.25", "Docker Engine: 20.10 (20.10.24): debian12 has 20.10.25"),
        ("debian13", "docker.io", "29.9.1", "Docker Engine: 26.1 (26.1.5): debian13 has 29.9.1"),
        ("debian-testing", "docker.io", "28.4.9", "Docker Engine: 28.5 or newer, on cgroup v2: debian-testing has 28.4.9"),
        ("debian-testing", "docker.io", "29.0.1", None),
        ("debian13", "python3", "3.14.1", "Python: on nodes: 3.13: debian13 has 3.14.1"),
        ("debian-testing", "python3", "3.15.0", None),
        ("rhel", "dnf", "4.20.0", "dnf 4.14: rhel has 4.20.0"),
        ("suse", "zypper", "1.14.43", "zypper 1.14.42: suse has 1.14.43"),
    ],
)
def test_versions_that_nodes_do_not_have_are_found(node: str, package: str, version: str, found: str | None) -> None:
    assert platforms.wrong_on_nodes(ROWS, NODES) == []
    problems = platforms.wrong_on_nodes(ROWS, {**NODES, node: {**NODES[node], package: version}})
    assert (problems == []) if found is None else (len(problems) == 1 and found in problems[0]), problems


def test_a_release_of_python_without_a_row_is_found() -> None:
    fewer = [row for row in ROWS if (row.part, row.node) != ("Python", "debian-testing")]
    assert platforms.wrong_on_nodes(fewer, NODES) == ["Python: no row has debian-testing, with 3.14.7"]


@pytest.mark.parametrize(
    ("there", "wrong"),
    [
        (("2.19.14", "3.11.2"), 0),
        (("2.20.0", "3.11.2"), 1),
        (("2.19.14", "3.13.5"), 1),
    ],
)
def test_a_controller_that_not_all_tests_use_is_found(there: tuple[str, str], wrong: int) -> None:
    assert len(platforms.wrong_on_the_controller(ROWS, *there)) == wrong


@pytest.mark.parametrize(
    ("debian", "upstream"),
    [("20.10.24+dfsg1-1+deb12u1+b6", "20.10.24"), ("28.5.2+dfsg4-5", "28.5.2"), ("3.14.7-3", "3.14.7"), ("1:5.4.0.0-1", "5.4.0.0"), ("2.4", "2.4")],
)
def test_versions_are_in_the_form_of_their_authors(debian: str, upstream: str) -> None:
    assert versions.upstream(debian) == upstream
