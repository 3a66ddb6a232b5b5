# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares docs/reference/platforms.md with the README's table of platforms, and both with the tests and the lab's nodes.

Each function returns the errors as text. None of them changes a page.
"""

from __future__ import annotations

import ast
import importlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.lab import families, fleet, rootfs
from tests.runner.stages import stages

ROOT = Path(__file__).resolve().parents[2]
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
STAGE = re.compile(r"stage `([\w-]+)`")
VERSION = re.compile(r"\b\d+(?:\.\d+)+\b")
# Allowed beginnings of a row without a test.
WITHOUT = ("by variables only", "never run", "by hand: ", "tried by hand", "all tests")
UNPROVEN = ("by variables", "never run")
OTHERWISE = ("refused", "in unit tests alone", "by hand")
# Rows of the README that summarise several rows of the page.
OF_README = {
    "Debian 12 and 13, Docker 20.10 and 26.1": ("Debian 12", "Debian 13", "20.10 (20.10.24)", "26.1 (26.1.5)"),
    "Debian testing, Docker 28.5 or newer, cgroup v2": ("Debian testing", "28.5 or newer, on cgroup v2"),
    "the RHEL family, Fedora, SUSE": ("RHEL and its rebuilds, Fedora up to 40: dnf 4", "SUSE: zypper", "Fedora from 41: dnf 5"),
    "Ubuntu, and Docker's releases in between": ("Ubuntu", "releases between and after these"),
    "ansible-core 2.16, 2.19 and the newest; Python 3.11 and 3.13": (
        "2.16, the oldest that it takes",
        "2.19",
        "the newest that pip installs: 2.21.5 at the last run",
        "on nodes: 3.11",
        "on nodes: 3.13",
        "on the controller: 3.11",
        "on the controller: 3.13",
    ),
    "SELinux, AWX, Mitogen, RHEL 8, other releases of Python": (
        "SELinux, the Docker packages of these distributions",
        "execution environments on a base image of a registry, with Podman, in AWX",
        "Mitogen, WinRM",
        "RHEL 8 and its rebuilds",
        "on nodes: 3.9, 3.10, 3.12",
        "on the controller: 3.10, 3.12 and from 3.14",
    ),
    "rootless Docker, Docker from snap, Podman": ("from snap, rootless, Podman's stand-in",),
}
YET = "no complete run has passed yet"
# If a test itself is at fault, it is mended and repeated. The page then names the commit of the run and the commit that mends the test.
WHOLE_RUN = re.compile(
    r"A whole `?make test-all`? (?:passed|ran) on \d{1,2} [A-Z][a-z]+ \d{4} at [0-9a-f]{7,40}: [1-9]\d* passed, "
    r"(?:0 failed, [1-9]\d* minutes\b|"
    r"([1-9]\d*) failed, [1-9]\d* minutes\. All \1 were faults of tests\. They were mended up to [0-9a-f]{7,40}, and passed\b)"
)


@dataclass(frozen=True)
class Row:
    part: str  # the heading above the row
    what: str
    node: str
    proof: str

    @property
    def paths(self) -> set[str]:
        return {path for path, _name in TEST.findall(self.proof)}

    @property
    def nodes(self) -> set[str]:
        """Return the lab nodes of the row: the node in its cell, and the nodes in its proof."""
        return ({self.node} if self.node else set()) | (set(re.findall(r"`([\w-]+)`", self.proof)) & kinds_of_the_lab())

    @property
    def proven(self) -> bool:
        return bool(self.node and self.paths) or self.proof.startswith("all tests")


def page() -> str:
    return (ROOT / "docs" / "reference" / "platforms.md").read_text(encoding="utf-8")


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def rows(text: str) -> list[Row]:
    found, part = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            part = line.removeprefix("## ")
        if line.startswith("| ") and not line.startswith("| what |"):
            what, node, proof = (cell.strip() for cell in line.strip("|\n").split(" |"))
            found.append(Row(part, what, node.strip(" `"), proof))
    return found


@cache
def kinds_of_the_lab() -> frozenset[str]:
    """Return the kinds of nodes. A family without its own os-release only adds programs, so the family is no kind."""
    named = {name for name, family in families.table().items() if "usr/lib/os-release" in family["files"]}
    return frozenset({*rootfs.releases(), *named, "ssh"})


@cache
def fleet_of(path: str) -> tuple[fleet.Node, ...]:
    """Return the nodes of an end-to-end test: the fleet in its file, or the common fleet."""
    description = getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), "FLEET", "")
    if "nodes:" not in description:
        return fleet.read((ROOT / path).with_name("fleet.yml"), None, {}).nodes
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fleet.yml"
        file.write_text(description, encoding="utf-8")
        return fleet.read(file, None, {}).nodes


def kinds(node: fleet.Node) -> set[str]:
    """Return the kinds of a node. A node of another family is not Debian, although its image is Debian."""
    return {node.family or node.image, *(["ssh"] if node.ssh else [])}


def wrong_page(text: str) -> list[str]:
    found = [f"{row.what}: {problem}" for row in rows(text) for problem in (*_tests(row), *_rare(row), *_nodes(row))]
    listed = {row.node for row in rows(text) if row.node}
    found += [f"{node}: the lab makes such nodes, and no row has one" for node in sorted(kinds_of_the_lab() - listed)]
    whole = " ".join(text.split())
    if (YET in whole) is bool(WHOLE_RUN.search(whole)):
        found.append(f"the page must contain exactly one of these: '{YET}', or a sentence that matches {WHOLE_RUN.pattern}")
    return found


def _tests(row: Row) -> Iterator[str]:
    tests, named = TEST.findall(row.proof), STAGE.findall(row.proof)
    if not (tests or named or row.proof.startswith(WITHOUT)):
        yield f"names no test, and does not say that there is none: {row.proof}"
    if row.node and row.proof.startswith(UNPROVEN):
        yield f"has the lab node {row.node}, but its proof says that it is untested: {row.proof}"
    for path, name in tests:
        if not (ROOT / path).is_file():
            yield f"there is no {path}"
        elif name and _function(path, name) is None:
            yield f"{path} has no {name}"
    for stage in set(named) - _stages():
        yield f"there is no stage {stage}"


@cache
def _stages() -> frozenset[str]:
    return frozenset(stage.name for stage in stages(rare=True))


def _rare(row: Row) -> Iterator[str]:
    """Check that exactly the rare tests have the note (rare). Readers assume that `make test` runs all others."""
    said = {match[1] for match in re.finditer(r"`[\w/.]+::(\w+)` \(rare\)", row.proof)}
    is_rare = {name for path, name in TEST.findall(row.proof) if name and (ROOT / path).is_file() and _marked_rare(path, name)}
    if said != is_rare:
        yield f"the row marks {sorted(said)} as rare, but the rare tests are {sorted(is_rare)}"


def _nodes(row: Row) -> Iterator[str]:
    if row.node and row.node not in kinds_of_the_lab():
        yield f"the lab makes no node {row.node}"
        return
    for path in sorted(path for path in row.paths if path.startswith("tests/e2e/") and (ROOT / path).is_file()):
        there = {kind for node in fleet_of(path) for kind in kinds(node)}
        if missing := row.nodes - there:
            yield f"{path} has no node {', '.join(sorted(missing))}"


@cache
def _tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def _function(path: str, name: str) -> ast.FunctionDef | None:
    """Find a test at the top level of a file, or in a class there."""
    bodies = (node.body if isinstance(node, ast.ClassDef) else [node] for node in _tree(path).body)
    return next((node for body in bodies for node in body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def _marked_rare(path: str, name: str) -> bool:
    """Return whether the test or its whole file has the mark ``rare``."""
    marks = [node.value for node in _tree(path).body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"]
    own = _function(path, name)
    return any("rare" in ast.unparse(part) for part in [*marks, *(own.decorator_list if own else [])])


def wrong_readme(text: str, listed: list[Row]) -> list[str]:
    """Check that the README's table claims no more than the page, and lists all platforms that were never tested."""
    table = re.search(r"^\| platform \|.*\n\|-.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    if not table:
        return ["there is no table of platforms"]
    lines = [line.strip("| ").split(" | ", 1) for line in table[1].splitlines()]
    of = {cell: [row for row in listed if row.what in OF_README.get(cell, (cell,))] for cell, _verdict in lines}
    found = [f"{cell}: {problem}" for cell, verdict in lines for problem in _verdict(cell, verdict, of[cell])]
    covered = {row.what for some in of.values() for row in some}
    found += [f"{row.what}: {row.proof}: the README does not say so" for row in listed if row.proof.startswith(UNPROVEN) and row.what not in covered]
    return found


def _verdict(cell: str, verdict: str, of: list[Row]) -> Iterator[str]:
    if len(of) != len(OF_README.get(cell, (cell,))):
        yield f"the page has no such row, or lacks rows for which this row stands: {OF_README.get(cell, '')}"
        return
    paths = {path for path, _name in TEST.findall(verdict)}
    if verdict.startswith("in the lab"):
        yield from (f"the README says that {row.what} was tested in the lab, but the page says: {row.proof}" for row in of if not row.proven)
    elif (word := next((word for word in (*UNPROVEN, *OTHERWISE) if verdict.startswith(word)), None)) is not None:
        yield from (f"the README says '{word}' of {row.what}, but the page says: {row.proof}" for row in of if not row.proof.startswith(word))
    else:
        yield f"the verdict must begin with one of: in the lab, {', '.join((*UNPROVEN, *OTHERWISE))}. It is: {verdict}"
    if paths:
        others = [row.what for row in of if not (row.paths & paths or row.proof.startswith("all tests"))]
        yield from (f"{what} is not proven by {', '.join(sorted(paths))}" for what in others)
        yield from (f"{path} proves none of it" for path in sorted(paths - {path for row in of for path in row.paths}))
    known = {version for row in of for version in VERSION.findall(f"{row.what} {row.proof}")}
    yield from (f"{version} is not on the page" for version in VERSION.findall(f"{cell} {verdict}") if version not in known)


def agrees(said: str, found: str) -> bool:
    """Return whether the text fits the version: ``20.10 (20.10.24)`` fits 20.10.24, and ``28.5 or newer`` fits 28.5 and newer versions."""
    versions = VERSION.findall(said)
    if "or newer" in said:
        return _parts(found) >= _parts(versions[0])
    return bool(versions) and all(f"{found}.".startswith(f"{version}.") for version in versions)


def _parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def wrong_on_nodes(listed: list[Row], nodes: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Compare the page with the versions of the packages on each kind of node."""
    found = []
    for part, package in (("Docker Engine", "docker.io"), ("Python", "python3")):
        for node in sorted(set(nodes) & set(rootfs.releases())):
            of = [row for row in listed if (row.part, row.node) == (part, node) and "controller" not in row.what]
            found += [f"{part}: no row has {node}, with {nodes[node][package]}"] if not of else []
            found += [f"{part}: {row.what}: {node} has {nodes[node][package]}" for row in of if not agrees(row.what, nodes[node][package])]
    for row in listed:
        for manager, version in re.findall(r"\b(dnf|zypper) (\d+(?:\.\d+)+)", row.proof if row.node in nodes else ""):
            there = nodes[row.node].get("dnf5" if manager == "dnf" and version.startswith("5.") else manager, "none")
            found += [] if agrees(version, there) else [f"{row.what}: {manager} {version}: {row.node} has {there}"]
    return found


def wrong_on_the_controller(listed: list[Row], core: str, python: str) -> list[str]:
    """Check the rows with the versions that all tests run with. Each part has one such row."""
    found = []
    for part, version in (("ansible-core", core), ("Python", python)):
        of = [row for row in listed if row.part == part and row.proof.startswith("all tests")]
        if len(of) != 1 or not all(agrees(said, version) for said in VERSION.findall(of[0].what)):
            found.append(f"{part}: all tests run with {version}, not {[row.what for row in of]}")
    return found
