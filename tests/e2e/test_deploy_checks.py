# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""deploy refuses mistakes that Docker notices only during a deployment, and leaves nothing behind.

The tests also give the same files to Docker itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import pytest

from tests.refused_stacks import CASES, Case

from .conftest import Loud
from .fleet import Fleet, Node

PLAYBOOK = "fleet.gpu_swarm.deploy"
STACK = "e2echecks"
TAKEN = 'version: "3.8"\nservices: {web: {image: lab/task, command: [sleep, "100000"], ports: ["18181:80"]}}\n'
BEGINS = "@@ "


def docker_output(node: Node, cases: list[tuple[Case, str]]) -> dict[str, str]:
    """Return the output of 'docker stack deploy' by the text of each case. The exit status is at the end of the output."""
    deploy = "docker stack deploy --resolve-image=never --compose-file /tmp/stack.yml"
    script = "".join(
        f'printf %s {quote(case.file)} > /tmp/stack.yml; said=$({deploy} row{number} 2>&1); rc=$?; echo "{BEGINS}$said rc=$rc"; '
        f"docker stack rm row{number} > /tmp/removed 2>&1 || true\n"
        for number, (case, _words) in enumerate(cases)
    )
    parts = node.start("sh", text=script.encode()).stdout.decode().split(BEGINS)[1:]
    return {case.text: " ".join(said.split()) for (case, _words), said in zip(cases, parts, strict=True)}


def not_refused(node: Node, cases: list[tuple[Case, str]]) -> dict[str, str]:
    said = docker_output(node, cases)
    return {case.text: said[case.text] for case, words in cases if words.lower() not in said[case.text].lower() or said[case.text].endswith("rc=0")}


def test_docker_refuses_each_row(fleet: Fleet, first: Loud) -> None:
    cases = [(case, case.docker) for case in CASES if case.docker is not None]
    assert len(cases) > 60
    assert not_refused(fleet["m1"], cases) == {}


@pytest.mark.rare
def test_docker_20_10_refuses_each_row(fleet: Fleet) -> None:
    node = fleet["x2"]
    node.run("docker", "swarm", "init")
    try:
        assert node.docker("version", "--format", "{{.Client.Version}}").startswith("20.10.")
        cases = [(case, case.by_2010 or case.docker) for case in CASES if case.docker is not None]
        assert not_refused(node, cases) == {}
    finally:
        node.leave()


def left(fleet: Fleet) -> list[str]:
    """Return the existing parts of the stack."""
    of_stack = ("--quiet", "--filter", f"label=com.docker.stack.namespace={STACK}")
    return [one for kind in ("service", "network", "config", "secret") for one in fleet["m1"].docker(kind, "ls", *of_stack).split()]


@pytest.fixture(scope="module")
def taken(fleet: Fleet, first: Loud) -> Iterator[None]:
    fleet["m1"].start("docker", "stack", "deploy", "--resolve-image=never", "--compose-file", "-", "e2etaken", text=TAKEN.encode())
    yield
    fleet["m1"].start("docker", "stack", "rm", "e2etaken")


@pytest.mark.parametrize("more", [["--check"], []], ids=["check", "deploy"])
def test_names_of_another_service_are_refused_beforehand(fleet: Fleet, inventory: Path, taken: None, tmp_path: Path, more: list[str]) -> None:
    """One message names all mistakes, including missing parts of the swarm."""
    text = "services: {a: {image: lab/task, ports: ['18181:81'], configs: [c], networks: [n]}}\nconfigs: {c: {content: x}}\n"
    (tmp_path / "compose.yml").write_text(f"{text}networks: {{n: {{external: true, name: e2elost}}}}\n")
    run = fleet.playbook(inventory, *more, "-e", f"compose={tmp_path / 'compose.yml'}", "-e", f"stack={STACK}", playbook=PLAYBOOK)
    assert run.rc == 2, run.output
    assert f"The stack {STACK} has 2 errors. Nothing was deployed.\n- " in run.output, run.output
    assert f"\n- {STACK}_a publishes port 18181/tcp, which the service e2etaken_web has." in run.output, run.output
    assert "\n- The swarm has no network e2elost" in run.output, run.output
    assert left(fleet) == []


def test_a_change_of_the_mode_is_refused_beforehand(fleet: Fleet, inventory: Path, taken: None, tmp_path: Path) -> None:
    text = TAKEN.replace("ports: ", "deploy: {mode: global}, ports: ") + "configs: {c: {content: x}}\n"
    (tmp_path / "compose.yml").write_text(text)
    before = fleet["m1"].docker("config", "ls", "--quiet")
    run = fleet.playbook(inventory, "-e", f"compose={tmp_path / 'compose.yml'}", "-e", "stack=e2etaken", playbook=PLAYBOOK)
    assert run.rc == 2, run.output
    assert "e2etaken_web is replicated, and the file says global: swarm cannot change a service's mode." in run.output, run.output
    assert fleet["m1"].docker("config", "ls", "--quiet") == before


def test_a_stack_that_docker_still_refuses_leaves_nothing(fleet: Fleet, inventory: Path, first: Loud, tmp_path: Path) -> None:
    """deploy cannot know beforehand which secret drivers the managers have."""
    (tmp_path / "compose.yml").write_text("services: {a: {image: lab/task}}\nsecrets: {c: {driver: none-such}}\n")
    run = fleet.playbook(inventory, "-e", f"compose={tmp_path / 'compose.yml'}", "-e", f"stack={STACK}", playbook=PLAYBOOK)
    assert run.rc == 2, run.output
    assert 'plugin "none-such" not found' in run.output.replace("\\", ""), run.output
    assert f"The stack is new, so its parts are removed again: the network {STACK}_default." in run.output, run.output
    assert left(fleet) == []
