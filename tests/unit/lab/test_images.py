# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images of a moving release: which release replaces a release that cannot be built, and how often a build is tried."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.lab import images, rootfs
from tests.lab.fleet import Fleet, Node
from tests.lab.lab import LabError
from tests.runner import images as runner

MOVES, INSTEAD = "debian-testing", "debian13"
FLEET = Fleet("f", (Node("a", image=MOVES), Node("b", image="debian12"), Node("c", image=INSTEAD)))


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the releases whose build was tried. Builds of moving releases fail."""
    found: list[str] = []

    def make(release: str, target: Path) -> None:
        found.append(release)
        if release == MOVES:
            raise LabError("debootstrap failed with 1")
        target.mkdir()

    monkeypatch.setenv("GPU_SWARM_LAB_CACHE", str(tmp_path))
    monkeypatch.setattr(rootfs, "_make", make)
    monkeypatch.setattr(rootfs, "need", lambda _programs: None)
    return found


def test_a_moving_release_has_a_replacement() -> None:
    assert rootfs.releases(moving=True) == [MOVES]
    assert [rootfs.replacement(name) for name in rootfs.releases(moving=False)] == [None, None]
    assert rootfs.replacement(MOVES) in rootfs.releases(moving=False)


def test_nodes_of_a_release_that_cannot_be_built_get_another_one(tried: list[str]) -> None:
    said: list[str] = []
    assert [node.image for node in images.built(FLEET, said.append).nodes] == [INSTEAD, "debian12", INSTEAD]
    assert said == [f"{MOVES} cannot be built; its nodes are of {INSTEAD}: debootstrap failed with 1"]


def test_a_family_that_needs_a_release_gets_no_replacement(tried: list[str]) -> None:
    """On another release, the tests of dnf 5 would run without dnf 5."""
    with pytest.raises(LabError, match="debootstrap failed with 1"):
        images.built(Fleet("f", (Node("a", image=MOVES), Node("f", image=MOVES, family="fedora"))), print)
    assert tried == [MOVES]


def test_a_recent_failure_is_not_repeated_by_each_fleet(tried: list[str]) -> None:
    for _time in range(3):
        with pytest.raises(LabError, match="debootstrap failed with 1"):
            rootfs.build(MOVES)
    assert tried == [MOVES]
    failed = rootfs.cached(MOVES).with_name(f"{rootfs.cached(MOVES).name}.failed")
    long_ago = time.time() - rootfs.TRY_AGAIN_S - 1
    os.utime(failed, (long_ago, long_ago))
    with pytest.raises(LabError):
        rootfs.build(MOVES)
    assert tried == [MOVES, MOVES]


def test_the_environment_can_replace_a_release(tried: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(images.REPLACE, f"{INSTEAD}=debian12")
    assert [node.image for node in images.replaced(FLEET).nodes] == [MOVES, "debian12", "debian12"]
    for wrong in ("debian13", "debian13=", "debian13=ubuntu", "=debian12"):
        monkeypatch.setenv(images.REPLACE, wrong)
        with pytest.raises(LabError, match=f"GPU_SWARM_LAB_REPLACE: '{wrong}' is not of the form A=B, with two of debian12"):
            images.built(FLEET, print)


def test_a_requested_release_is_not_replaced_again(tried: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With a replacement, tests for the newest Docker would pass on an old Docker."""
    monkeypatch.setenv(images.REPLACE, f"{INSTEAD}={MOVES}")
    with pytest.raises(LabError, match="debootstrap failed with 1"):
        images.built(FLEET, print)


@pytest.fixture
def built(tried: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let all builds succeed, and record the releases whose node was booted."""
    booted: list[str] = []
    monkeypatch.setattr(rootfs, "_make", lambda _release, target: target.mkdir())
    monkeypatch.setattr(runner, "boot", booted.append)
    return booted


def test_a_moving_release_is_booted_once_before_any_fleet_uses_it(built: list[str]) -> None:
    assert [runner.main(moving=moving) for moving in (False, True, True)] == [0, 0, 0]
    assert built == [MOVES]


def test_nodes_of_a_release_that_does_not_boot_get_another_one(
    built: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_release: str) -> None:
        raise LabError("node n1 did not boot in 120 s")

    monkeypatch.setattr(runner, "boot", fails)
    assert runner.main(moving=True) == 1
    assert "node n1 did not boot" in capsys.readouterr().out
    said: list[str] = []
    assert [node.image for node in images.built(FLEET, said.append).nodes] == [INSTEAD, "debian12", INSTEAD]
    assert "node n1 did not boot in 120 s" in said[0]


@pytest.mark.parametrize(("status", "calls"), [(0, ["up", "down"]), (1, ["up"])])
def test_the_trial_fleet_is_removed(status: int, calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab itself removes a fleet that does not boot."""
    called: list[str] = []

    def lab(*words: str) -> subprocess.CompletedProcess[str]:
        called.append(words[0])
        return subprocess.CompletedProcess(words, status, "", "lab: node boot-debian-testing.n1 booted with failed units")

    monkeypatch.setattr(runner, "lab", lab)
    if status:
        with pytest.raises(LabError, match="no node of it boots: lab: node boot-debian-testing.n1 booted with failed units"):
            runner.boot(MOVES)
    else:
        runner.boot(MOVES)
    assert called == calls


def test_another_release_that_cannot_be_built_is_an_error(tried: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(release: str, _target: Path) -> None:
        raise LabError(f"no {release}")

    monkeypatch.setattr(rootfs, "_make", fails)
    with pytest.raises(LabError, match="no debian"):
        images.built(FLEET, print)


def test_other_releases_do_not_change_the_image_of_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: rootfs.key(name) for name in rootfs.releases()}
    recipe = rootfs.recipe()
    fewer = {**recipe, "releases": {name: one for name, one in recipe["releases"].items() if name != MOVES}}
    monkeypatch.setattr(rootfs, "recipe", lambda: fewer)
    assert {name: rootfs.key(name) for name in rootfs.releases()} == {name: one for name, one in before.items() if name != MOVES}


def test_only_images_unused_for_a_month_are_removed(tried: list[str], tmp_path: Path) -> None:
    rootfs.build("debian12")
    long_ago = time.time() - images.UNUSED - 1
    (tmp_path / "debian12-0123456789ab").mkdir()
    for name in ("debian12-0123456789ab", "debian-testing.lock", "debian-testing-0123456789ab.failed"):
        path = tmp_path / name
        if not path.is_dir():
            path.touch()
        os.utime(path, (long_ago, long_ago))
    images._prune_cache({"debian12"})
    kept = {rootfs.cached("debian12").name, "debian12.lock", "debian-testing.lock", "debian-testing-0123456789ab.failed"}
    assert {path.name for path in tmp_path.iterdir()} == kept
