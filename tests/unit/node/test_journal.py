# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import stat

import pytest
from node_lab import move

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._files import Snapshot, digest
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import journal
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.journal import State, entry_after_write

FILE = "/etc/docker/daemon.json"


def file(data):
    return Snapshot(FILE, data, 0o600, 0, 0)


def entry(before, after, *resources, earlier=None):
    return entry_after_write(file(before), {"resources": list(resources), "kinds": ["GPU"]}, after, earlier)


@pytest.fixture
def state(tmp_path):
    changed = State(str(tmp_path / "state"), move)
    changed.prepare()
    return changed


def test_only_root_can_read_it(tmp_path, state):
    former = os.umask(0)
    try:
        with state.lock(0):
            state.open_journal([file(b"a")], {FILE: (b"b", entry(b"a", b"b"))})
            state.write_record({FILE: entry(b"a", b"b")})
    finally:
        os.umask(former)
    modes = {name: oct(stat.S_IMODE(os.stat(tmp_path / "state" / name).st_mode)) for name in ("", "journal.json", "record.json", "lock")}
    assert modes == {"": "0o700", "journal.json": "0o600", "record.json": "0o600", "lock": "0o600"}


@pytest.mark.parametrize(("before", "after"), [(0o755, 0o711), (0o711, 0o711), (0o770, 0o710), (0o700, 0o700)])
def test_only_root_may_list_the_directory_and_others_may_pass_if_they_could(tmp_path, before, after):
    """On a manager, people of group docker pass through it to the record."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(before)
    with State(str(tmp_path / "state"), move).lock(0):
        assert stat.S_IMODE(os.stat(tmp_path / "state").st_mode) == after


def test_one_run_at_a_time(state, monkeypatch):
    monkeypatch.setattr(journal, "LOCK_POLL_S", 0.001)
    with state.lock(0), pytest.raises(GpuSwarmError) as raised, State(state.directory, move).lock(0):
        pass
    assert raised.value.message == (
        f"{state.directory}/lock: another run is changing this node and did not finish within 0 s. Wait for it and run this again."
    )
    with state.lock(0):
        pass


@pytest.mark.parametrize("name", ["record.json", "journal.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff"])
def test_a_broken_record_is_an_error(tmp_path, state, name, content):
    (tmp_path / "state" / name).write_bytes(content)
    with pytest.raises(GpuSwarmError) as raised:
        state.record_with_journal([file(b"a")])
    assert raised.value.message.startswith(f"{state.directory}/{name}: this collection's record of the node cannot be read (")
    assert raised.value.message.endswith("the node's present files are treated as the originals.")


def test_a_record_is_added_and_removed(tmp_path, state):
    assert state.record() == {}
    state.write_record({FILE: entry(b"a", b"b", "GPU=1")})
    assert State(state.directory, move).record() == {FILE: entry(b"a", b"b", "GPU=1")}
    state.write_record({})
    assert (state.record(), os.listdir(tmp_path / "state")) == ({}, [])


# A killed run found the content a and wanted to write b.
# content of the file now -> (the original for the next run, the entry in the record)
AFTER_A_KILL = {
    "killed before the write": (b"a", b"a", {"original": b"a", "written": b"a", "pristine": True}),
    "killed after the write": (b"b", b"a", {"original": b"a", "written": b"b", "pristine": True}),
    "edited later": (b"c", b"c", {"original": b"a", "written": b"b", "pristine": False}),
    "removed later": (None, None, {"original": b"a", "written": b"b", "pristine": False}),
}


@pytest.mark.parametrize(("holds", "start", "record"), AFTER_A_KILL.values(), ids=AFTER_A_KILL)
def test_a_killed_run_leaves_a_usable_record(state, holds, start, record):
    state.open_journal([file(b"a")], {FILE: (b"b", entry(b"a", b"b", "GPU=1"))})
    assert state.starting_point(file(holds)).data == start
    found = state.record_with_journal([file(holds)])[FILE]
    assert Snapshot.from_json(found["original"]).data == record["original"]
    assert (found["written"], found["pristine"]) == (digest(record["written"]), record["pristine"])
    assert found["ours"] == {"resources": ["GPU=1"], "kinds": ["GPU"]}
    state.close_journal()
    assert state.starting_point(file(holds)).data == holds
    assert state.record_with_journal([file(holds)]) == {}


def test_two_killed_runs_leave_a_usable_record(state):
    first = entry(b"a", b"b", "GPU=1")
    state.open_journal([file(b"a")], {FILE: (b"b", first)})
    second = entry(b"b", b"c", "GPU=2", earlier=first)
    state.open_journal([state.starting_point(file(b"b"))], {FILE: (b"c", second)})
    for holds, written in ((b"b", b"b"), (b"c", b"c")):
        assert state.starting_point(file(holds)).data == b"a"
        assert state.record_with_journal([file(holds)])[FILE]["written"] == digest(written)
    edited = state.record_with_journal([file(b"d")])[FILE]
    assert edited["ours"]["resources"] == ["GPU=1", "GPU=2"]
    assert edited["pristine"] is False


def test_a_run_killed_after_its_last_record_is_finished(state):
    done = entry(b"a", b"b", "GPU=1")
    state.open_journal([file(b"a")], {FILE: (b"b", done)})
    state.write_record({FILE: done})
    assert state.starting_point(file(b"b")).data == b"b"
    assert state.record_with_journal([file(b"b")]) == {FILE: done}


def test_a_file_that_needs_no_change_stays(state):
    state.open_journal([file(b"a")], {FILE: (b"a", None)})
    for holds in (b"a", b"b", None):
        assert state.record_with_journal([file(holds)]) == {}


def test_a_file_is_pristine_until_an_edit(state):
    first = entry(b"a", b"b")
    assert first["pristine"] is True
    second = entry(b"b", b"c", earlier=first)
    assert (second["pristine"], second["original"]) == (True, first["original"])
    third = entry(b"edited", b"d", earlier=second)
    assert (third["pristine"], third["original"]) == (False, first["original"])
    assert entry(b"d", b"e", earlier=third)["pristine"] is False


def test_sweep_keeps_files_that_count(tmp_path, state):
    state.write_record({FILE: entry(b"a", b"b")})
    for name in ("candidate.json", ".gpu-swarm.candidate.json.x", ".gpu-swarm.record.json.x", ".gpu-swarm.journal.json.x"):
        (tmp_path / "state" / name).write_bytes(b"half")
    state.remove_unfinished_files()
    assert os.listdir(tmp_path / "state") == ["record.json"]


def test_a_journal_belongs_to_a_killed_run_unless_the_lock_is_held(state):
    """A watcher also keeps a journal while it writes its label. An assessment may read the node at that time."""
    other = State(state.directory, move)
    state.open_journal([file(b"a")], {FILE: (b"b", entry(b"a", b"b"))})
    assert other.unfinished()
    with state.lock(0):
        assert state.unfinished()  # the holder of the lock finds the journal
        assert not other.unfinished()
    assert other.unfinished()
    state.close_journal()
    assert not other.unfinished()
