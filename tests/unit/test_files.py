# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import json
import os
import stat

import pytest
from node_lab import move

from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _files
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._files import Snapshot


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def never(*_arguments):
    raise AssertionError("a file that is not there is not for atomic_move to make")


def test_a_snapshot_travels_through_json(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"\xff\x00\r\n")
    path.chmod(0o640)
    for target in (path, tmp_path / "not-there"):
        taken = Snapshot.take(str(target))
        again = Snapshot.from_json(json.loads(json.dumps(taken.to_json())))
        assert vars(again) == vars(taken)
        assert again.existed == target.exists()
    assert (Snapshot.take(str(path)).mode, Snapshot.take(str(tmp_path / "not-there")).sha256) == (0o640, None)


def test_an_empty_file_is_not_a_missing_one(tmp_path):
    (tmp_path / "f").write_bytes(b"")
    taken = Snapshot.take(str(tmp_path / "f"))
    assert (taken.existed, taken.data) == (True, b"")
    assert taken.sha256 != Snapshot.take(str(tmp_path / "g")).sha256


@pytest.mark.parametrize(("wanted", "made"), [(None, 0o644), (0o600, 0o600)])
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_a_new_file_is_written(tmp_path, wanted, made, umask):
    path = tmp_path / "new" / "folder" / "f"
    former = os.umask(umask)
    try:
        _files.write(str(path), b"x", never, wanted)
    finally:
        os.umask(former)
    assert (path.read_bytes(), mode_of(path), os.listdir(path.parent)) == (b"x", made, ["f"])
    assert mode_of(path.parent) & 0o022 == 0


def test_a_full_disk_is_reported_with_the_file(tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(errno.ENOSPC, "No space left on device")  # like an error of write and fsync, which does not name the file

    path = tmp_path / "f"
    path.write_bytes(b"before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as raised:
        _files.write(str(path), b"after", move)
    assert raised.value.filename == str(path)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"before", ["f"])


def test_an_existing_file_keeps_mode_and_link(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"before")
    real.chmod(0o440)
    link.symlink_to(real)
    _files.write(str(link), b"after", move, 0o666)
    assert (link.is_symlink(), real.read_bytes(), mode_of(real)) == (True, b"after", 0o440)


def test_a_dangling_link_leads_to_the_new_file(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("there")
    assert not Snapshot.take(str(link)).existed
    _files.write(str(link), b"x", never)
    assert (link.is_symlink(), (tmp_path / "there").read_bytes()) == (True, b"x")
    _files.remove(str(link))
    assert (link.is_symlink(), link.exists()) == (True, False)


def test_a_failed_write_leaves_no_trace(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"before")

    def refuse(_source, _target):
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        _files.write(str(path), b"after", refuse)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"before", ["f"])


def test_sweep_removes_only_leftovers_of_a_killed_run(tmp_path):
    others = ["daemon.json", ".daemon.json.swp", ".gpu-swarm.config.toml.abc", "daemon.json.bak"]
    for name in [*others, ".gpu-swarm.daemon.json.a1b2c3d4"]:
        (tmp_path / name).write_bytes(b"")
    _files.remove_leftovers(str(tmp_path / "daemon.json"))
    assert sorted(os.listdir(tmp_path)) == sorted(others)
    _files.remove_leftovers(str(tmp_path / "no-folder" / "daemon.json"))


def test_a_file_is_restored(tmp_path):
    path = tmp_path / "f"
    missing = Snapshot.take(str(path))
    path.write_bytes(b"before")
    path.chmod(0o600)
    taken = Snapshot.take(str(path))
    before = os.stat(path)
    _files.restore(taken, never)
    assert os.stat(path).st_ino == before.st_ino  # the file was not written
    path.write_bytes(b"after")
    _files.restore(taken, move)
    assert path.read_bytes() == b"before"
    _files.restore(missing, never)
    assert not path.exists()
    _files.restore(taken, never)
    status = os.stat(path)
    assert (path.read_bytes(), mode_of(path), status.st_uid, status.st_gid) == (b"before", 0o600, before.st_uid, before.st_gid)
