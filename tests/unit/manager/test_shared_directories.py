# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""People of group docker get to the record, and to nothing else in the state directory."""

from __future__ import annotations

import os

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.shared_directories import SharedDirectories, is_shared

GROUP = os.getgid()
# Everything that the collection and its services keep in the state directory, with permissions that may be too wide.
ENTRIES = {
    "lib": 0o755,
    "packages": 0o700,
    "manager": 0o755,
    "jobs": 0o750,
    "cards.json": 0o644,
    "lock": 0o666,
    "record.json": 0o600,
    "backup": 0o711,
}


@pytest.fixture
def state(tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    for name, mode in ENTRIES.items():
        entry = state / name
        entry.touch() if "." in name or name == "lock" else entry.mkdir()
        entry.chmod(mode)
    (state / "record").mkdir(mode=0o755)
    (state / "link").symlink_to("/etc")
    return state


def mode(path):
    return oct(path.stat().st_mode & 0o7777)


def test_everything_else_is_closed_before_people_may_pass(state):
    shared = SharedDirectories(str(state), ["record"], GROUP)
    assert not shared.are_current()
    shared.converge()
    assert (mode(state), mode(state / "record")) == ("0o711", "0o2750")
    assert (state / "record").stat().st_gid == GROUP
    assert {name: mode(state / name) for name in ENTRIES} == {name: oct(mode & 0o700) for name, mode in ENTRIES.items()}
    assert shared.are_current()
    assert is_shared(str(state / "record"))


@pytest.mark.parametrize("name", ["lib", "cards.json"])
def test_an_entry_that_is_opened_later_is_closed_again(state, name):
    shared = SharedDirectories(str(state), ["record"], GROUP)
    shared.converge()
    (state / name).chmod(0o755)
    assert not shared.are_current()
    shared.converge()
    assert shared.are_current()


def test_without_the_group_only_root_may_enter(state):
    shared = SharedDirectories(str(state), ["record"], None)
    shared.converge()
    assert (mode(state), mode(state / "record"), shared.are_current()) == ("0o700", "0o700", True)
    assert not is_shared(str(state / "record"))


def test_files_from_a_time_without_the_group_are_given_to_it(state):
    SharedDirectories(str(state), ["record"], None).converge()
    file = state / "record/fleet.db"
    file.touch(mode=0o600)
    os.symlink("/etc/passwd", state / "record/link")
    before = os.stat("/etc/passwd").st_mode
    shared = SharedDirectories(str(state), ["record"], GROUP)
    assert not shared.are_current()
    shared.converge()
    assert (mode(file), file.stat().st_gid, os.stat("/etc/passwd").st_mode) == ("0o640", GROUP, before)


def test_without_shared_directories_the_state_directory_is_closed_again(state):
    SharedDirectories(str(state), ["record"], GROUP).converge()
    closed = SharedDirectories(str(state), [], GROUP)
    assert not closed.are_current()
    closed.converge()
    assert (mode(state), closed.are_current()) == ("0o700", True)


def test_without_a_state_directory_nothing_is_made_for_no_one(tmp_path):
    nothing = SharedDirectories(str(tmp_path / "state"), [], GROUP)
    assert nothing.are_current()
    nothing.converge()
    assert list(tmp_path.iterdir()) == []
