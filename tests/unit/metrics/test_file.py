# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file for node_exporter is complete or unchanged, readable, and leaves nothing beside it."""

from __future__ import annotations

import os
import tempfile
import time

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._metrics import file, metric_names
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._textfile.exposition import Sample, text


def test_everyone_can_read_it_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        path = file.write(str(tmp_path), "é 1\n")
    finally:
        os.umask(before)
    assert path == str(tmp_path / "gpu-swarm.prom")
    assert (tmp_path / file.NAME).read_text(encoding="utf-8") == "é 1\n"
    assert (tmp_path / file.NAME).stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == [file.NAME]


def test_a_link_in_its_place_is_replaced_and_its_target_stays(tmp_path):
    secret, folder = tmp_path / "shadow", tmp_path / "textfile"
    secret.write_text("root:x")
    folder.mkdir()
    (folder / file.NAME).symlink_to(secret)
    file.write(str(folder), "a 1\n")
    assert secret.read_text() == "root:x"
    assert not (folder / file.NAME).is_symlink()


def test_a_reader_with_the_old_file_open_can_finish_it(tmp_path):
    file.write(str(tmp_path), "a 1\n")
    with open(tmp_path / file.NAME) as reader:
        file.write(str(tmp_path), "b 2\n")
        assert reader.read() == "a 1\n"


def test_leftovers_of_a_killed_writer_are_removed_and_those_of_a_running_one_stay(tmp_path):
    left, written = tmp_path / ".gpu-swarm.metrics.abc", tmp_path / ".gpu-swarm.metrics.def"
    left.touch()
    written.touch()
    os.utime(left, (time.time() - 3600,) * 2)
    file.write(str(tmp_path), "a 1\n")
    assert sorted(os.listdir(tmp_path)) == [written.name, file.NAME]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    file.write(str(tmp_path), "a 1\n")

    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(GpuSwarmError, match="gpu-swarm.prom: No space left on device"):
        file.write(str(tmp_path), "b 2\n")
    assert os.listdir(tmp_path) == [file.NAME]
    assert (tmp_path / file.NAME).read_text() == "a 1\n"


def test_a_missing_directory_is_not_made(tmp_path):
    with pytest.raises(GpuSwarmError, match=r"No such file or directory\. Create it, or set the directory that node_exporter reads"):
        file.write(str(tmp_path / "none"), "a 1\n")
    assert os.listdir(tmp_path) == []


def test_a_read_only_directory_of_systemd_has_its_remedy(tmp_path, monkeypatch):
    def refused(*_args, **_options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "mkstemp", refused)
    with pytest.raises(GpuSwarmError, match="Read-only file system.*systemctl daemon-reload"):
        file.write(str(tmp_path), "a 1\n")


def info(source):
    return text([Sample(metric_names.INFO, ("c1", "m1", '",source="reactor"} ', source), 1)], metric_names.METRICS)


def test_the_file_is_removed_once(tmp_path):
    file.write(str(tmp_path), info(file.REACTOR))
    assert [file.remove(str(tmp_path)), file.remove(str(tmp_path)), file.remove(str(tmp_path / "none"))] == [True, False, False]
    assert os.listdir(tmp_path) == []


def test_a_file_from_status_stays(tmp_path):
    file.write(str(tmp_path), info(file.STATUS))
    assert not file.remove(str(tmp_path))
    assert os.listdir(tmp_path) == [file.NAME]


def test_something_that_is_no_file_stays(tmp_path):
    (tmp_path / "other").write_text(info(file.REACTOR))
    (tmp_path / file.NAME).symlink_to(tmp_path / "other")
    assert not file.remove(str(tmp_path))
    (tmp_path / file.NAME).unlink()
    os.mkfifo(tmp_path / file.NAME)
    assert not file.remove(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == [file.NAME, "other"]
