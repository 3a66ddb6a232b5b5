# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests how the lab reads the description of a fleet, and which errors the demo reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab import demo, fleet, variants
from tests.lab.lab import LabError


def read(tmp_path: Path, text: str, **settings: str) -> fleet.Fleet:
    path = tmp_path / "mine.yml"
    path.write_text(text)
    return fleet.read(path, None, settings)


def test_presets_are_fleets() -> None:
    made = fleet.read(fleet.preset("demo"), None, {})
    assert [node.groups for node in made.nodes] == [("swarm_managers",), ("gpu_nodes",), ("gpu_nodes",), ("gpu_nodes",)]
    assert {node.image for node in made.nodes} == {"debian12", "debian13"}
    small = fleet.read(fleet.preset("small"), None, {"nodes": "12"})
    assert len(small.nodes) == 12
    assert [node.name for node in small.nodes if "swarm_managers" in node.groups] == ["n1"]


def test_defaults(tmp_path: Path) -> None:
    made = read(tmp_path, "nodes: {w1: {}, g1: {gpus: a100}}\nvars: {x: 1}\n")
    worker, gpu = made.nodes
    assert (made.name, made.vars) == ("mine", {"x": 1})
    assert (worker.groups, worker.gpus, worker.image) == (("swarm_workers",), None, "debian13")
    assert gpu.groups == ("gpu_nodes",)
    assert "A100" in (gpu.gpus or "")


def test_a_family_of_only_one_release_gets_that_release(tmp_path: Path) -> None:
    named, not_named, of_any = read(tmp_path, "nodes: {a: {family: fedora, image: debian-testing}, b: {family: fedora}, c: {family: rhel}}").nodes
    assert (named.image, not_named.image, of_any.image) == ("debian-testing", "debian-testing", "debian13")


def test_a_machine_may_be_described_in_place(tmp_path: Path) -> None:
    (node,) = read(tmp_path, "nodes: {g1: {gpus: {name: NVIDIA X, memory: 8192, count: 2}}}").nodes
    assert (node.gpus or "").splitlines()[3:] == ["[gpu 0-1]", "name = NVIDIA X", "memory = 8192"]


def test_preinstalled_packages_make_a_separate_image(tmp_path: Path) -> None:
    plain, twin, old = read(tmp_path, "nodes: {g1: {}, g2: {}, g3: {retired: [nvidia-docker]}}").nodes
    assert variants.tag(plain) == variants.tag(twin)
    assert "nvidia-docker" in variants.tag(old)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected a mapping"),
        ("nodes: {}", "expected a mapping"),
        ("nodes: {a b: {}}", "a node's name"),
        ("nodes: {a: {gpu: x}}", "node a: unknown gpu"),
        ("nodes: {a: {image: centos}}", "image 'centos' is none of debian12, debian13"),
        ("nodes: {a: {groups: [x]}}", "group 'x' is none of"),
        ("nodes: {a: {family: nosuch}}", "family 'nosuch' is none of rhel, fedora, suse"),
        ("nodes: {a: {family: fedora, image: debian13}}", "image 'debian13', but family 'fedora' is on debian-testing only: leave `image` out"),
        ("nodes: {a: {cpu: nosuch}}", "cpu 'nosuch' is no name of archspec's"),
        ("nodes: {a: {gpus: nosuch}}", "no machine 'nosuch'"),
        ("nodes: {{ count }}", "count"),
        ("nodes: {", "mine.yml"),
    ],
)
def test_bad_descriptions_say_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        read(tmp_path, text)


def test_uuids_follow_from_the_nodes_name_unless_the_file_says() -> None:
    assert fleet.seeded("driver = 1\n", "g1").startswith("seed = g1\n")
    assert fleet.seeded("seed = x\n", "g1") == "seed = x\n"


KNOWN = {("g1", "GPU-a"): demo.Card("X", "/dev/nvidia0"), ("g1", "GPU-b"): demo.Card("X", "/dev/nvidia1")}
RIGHT = demo.Task("s.1", "g1", ("GPU-a",), ("GPU-a",), ("/dev/nvidia0",))
BOTH = demo.Task("s.1", "g1", ("GPU-b", "GPU-a"), ("GPU-a", "GPU-b"), ("/dev/nvidia0", "/dev/nvidia1"))


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([replace(RIGHT, seen=("GPU-a", "GPU-b"))], "sees"),
        ([replace(RIGHT, seen=())], "sees"),
        ([replace(RIGHT, devices=("/dev/nvidia0", "/dev/nvidia1"))], "sees"),
        ([replace(RIGHT, devices=("/dev/nvidia1",))], "sees"),
        ([replace(RIGHT, assigned=())], "was given nothing"),
        ([replace(BOTH, seen=("GPU-a",))], "sees"),
        ([replace(BOTH, assigned=("GPU-a", "GPU-c"))], "no GPU of g1"),
        ([replace(RIGHT, node="g2")], "no GPU of g2"),
        ([RIGHT, replace(RIGHT, name="s.2")], "more than one task"),
    ],
)
def test_the_demo_fails_on_a_fault(tasks: list[demo.Task], message: str) -> None:
    assert any(message in fault for fault in demo.faults(tasks, KNOWN))


def test_the_demo_is_content_when_each_task_sees_its_gpus() -> None:
    other = demo.Task("s.2", "g1", ("GPU-b",), ("GPU-b",), ("/dev/nvidia1",))
    assert demo.faults([RIGHT, other], KNOWN) == []
    assert demo.faults([BOTH], KNOWN) == []
