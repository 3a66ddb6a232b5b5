# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service restarts once if a directory was created after the start of the service."""

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.directories import Directories, is_read_only


@pytest.mark.parametrize("there", [True, False])
def test_one_that_was_created_after_the_start_is_read_only_until_the_next_start(tmp_path, capsys, there):
    """The same happens to a directory that was removed and created again."""
    read_only, starts = set(), []
    path = tmp_path / "metrics"
    if there:
        path.mkdir()

    def round_of(directories):
        directories(None, [], True)
        return len(starts)

    directories = Directories([str(path), ""], lambda: starts.append(1), lambda one: one in read_only)
    assert round_of(directories) == 0
    read_only.add(str(path))
    assert round_of(directories) == 1
    assert f"{path} was created after this service had started" in capsys.readouterr().out
    read_only.clear()  # the directory is writable after the restart
    assert round_of(Directories([str(path)], lambda: starts.append(1), lambda one: one in read_only)) == 1


def test_one_on_a_disk_that_is_read_only_starts_nothing_anew():
    starts = []
    Directories(["/ro"], lambda: starts.append(1), lambda one: True)(None, [], True)
    assert starts == []


def test_a_directory_in_which_one_can_write_or_that_is_none_is_not_read_only(tmp_path):
    (tmp_path / "file").touch()
    assert [is_read_only(str(path)) for path in (tmp_path, tmp_path / "none", tmp_path / "file")] == [False, False, False]
