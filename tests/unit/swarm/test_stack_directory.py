# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Only root can read the files of a stack. The next run removes left-over files."""

from __future__ import annotations

import base64
import os
import stat
import time
from pathlib import Path

import pytest

from plugins.module_utils._errors import GpuSwarmError
from plugins.module_utils._swarm.stack_directory import ABANDONED_S, remove, unpack
from plugins.plugin_utils._calls.libraries import zip_file

FILES = {"stack.yml": b"services: {}\n", "secrets/s": b"hunter2"}


def packed(files: dict[str, bytes]) -> str:
    return base64.b64encode(zip_file(files)).decode("ascii")


def test_files_of_a_stack_are_sent_and_removed(tmp_path: Path) -> None:
    folder = tmp_path / "stacks"
    made = Path(unpack(str(folder), "train", "", packed(FILES)))
    assert {str(path.relative_to(made)): path.read_bytes() for path in made.rglob("*") if path.is_file()} == FILES
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, made, made / "secrets", made / "secrets/s")]
    assert modes == [0o700, 0o700, 0o700, 0o600]
    assert remove(str(folder), "train", "") == [made.name]
    assert not made.exists()
    assert remove(str(folder), "train", "") == []


def test_leftovers_of_a_killed_run_are_removed_by_the_next_one(tmp_path: Path) -> None:
    folder = str(tmp_path / "stacks")
    for stack, swarm in (("train", ""), ("train", "tcp://other"), ("old", "")):
        unpack(folder, stack, swarm, packed(FILES))
    old = next((tmp_path / "stacks").glob("old-*"))
    os.utime(old, (time.time() - 2 * ABANDONED_S,) * 2)
    made = Path(unpack(folder, "train", "", packed({"stack.yml": b"new"})))
    assert sorted(path.name for path in made.iterdir()) == ["stack.yml"]
    # This folder belongs to another swarm, and may be in use.
    assert len(os.listdir(folder)) == 2


def test_a_file_stays_in_its_directory(tmp_path: Path) -> None:
    made = Path(unpack(str(tmp_path / "stacks"), "train", "", packed({"../../x": b"1", "/y": b"2"})))
    assert sorted(path.name for path in made.iterdir()) == ["x", "y"]


def test_a_place_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "stacks"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    with pytest.raises(GpuSwarmError, match="is not a directory that only this user can access"):
        unpack(str(folder), "train", "", packed(FILES))
    target = tmp_path / "else"
    target.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(GpuSwarmError, match="is not a directory"):
        unpack(str(tmp_path / "link"), "train", "", packed(FILES))


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(GpuSwarmError, match="No space left on device. Make room there"):
        unpack(str(tmp_path / "stacks"), "train", "", packed(FILES))
    assert os.listdir(tmp_path / "stacks") == []
