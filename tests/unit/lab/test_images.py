# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Node images that move: what a fleet is made of on a day on which one cannot be built, and how often that is tried."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.lab import images, rootfs
from tests.lab.fleet import Fleet, Node
from tests.lab.lab import LabError

MOVES, INSTEAD = "debian-testing", "debian13"
FLEET = Fleet("f", (Node("a", image=MOVES), Node("b", image="debian12"), Node("c", image=INSTEAD)))


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The releases whose build was tried; those that move fail."""
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


def test_what_moves_has_something_in_its_place() -> None:
    assert rootfs.releases(moving=True) == [MOVES]
    assert [rootfs.instead(name) for name in rootfs.releases(moving=False)] == [None, None]
    assert rootfs.instead(MOVES) in rootfs.releases(moving=False)


def test_nodes_of_a_release_that_cannot_be_built_are_of_another_one(tried: list[str]) -> None:
    said: list[str] = []
    assert [node.image for node in images.built(FLEET, said.append).nodes] == [INSTEAD, "debian12", INSTEAD]
    assert said == [f"{MOVES} cannot be built; its nodes are of {INSTEAD}: debootstrap failed with 1"]


def test_what_has_just_failed_is_not_tried_by_each_fleet(tried: list[str]) -> None:
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


def test_another_release_that_cannot_be_built_is_an_error(tried: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(release: str, _target: Path) -> None:
        raise LabError(f"no {release}")

    monkeypatch.setattr(rootfs, "_make", fails)
    with pytest.raises(LabError, match="no debian"):
        images.built(FLEET, print)


def test_a_release_has_the_same_image_whatever_others_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: rootfs.key(name) for name in rootfs.releases()}
    recipe = rootfs.recipe()
    fewer = {**recipe, "releases": {name: one for name, one in recipe["releases"].items() if name != MOVES}}
    monkeypatch.setattr(rootfs, "recipe", lambda: fewer)
    assert {name: rootfs.key(name) for name in rootfs.releases()} == {name: one for name, one in before.items() if name != MOVES}


def test_trees_that_are_not_used_are_removed_after_a_month_and_nothing_else_is(tried: list[str], tmp_path: Path) -> None:
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
