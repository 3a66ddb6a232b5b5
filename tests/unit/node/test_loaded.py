# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Digests of files and identities of processes show which files dockerd has loaded. No clock is used, so a wrong clock cannot mislead."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._files import Snapshot
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import loaded
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.loaded import is_loaded, loaded_notes, process_identity, with_loaded_note

A, B = (Snapshot("/x", content) for content in (b"{}", b'{"debug": true}'))
MINE = process_identity(os.getpid())
OTHER = {"boot": "another", "tick": 1}
RUNS = {"running": True, "pid": os.getpid()}


def note(what, process):
    return {"sha256": what.sha256, "process": process}


CASES = {
    "nothing is known": ([], A, False),
    "this process has loaded it": ([note(A, MINE)], A, True),
    "somebody edited the file later": ([note(A, MINE)], B, False),
    "the watcher has noted another start": ([note(A, OTHER), note(B, MINE)], B, True),
    "dockerd started with another file, and the former content is back now": ([note(A, OTHER), note(B, MINE)], A, False),
    "a label was written after that start": ([note(B, MINE), note(A, MINE)], B, True),
    "a label was written after that start, and somebody restored the former file": ([note(B, MINE), note(A, MINE)], A, False),
    "an unnoted start of dockerd, with the file that was loaded last": ([note(A, OTHER)], A, True),
    "an unnoted start of dockerd, with another file": ([note(A, OTHER)], B, False),
    "an unnoted start of dockerd, and several possible files": ([note(A, OTHER), note(B, {"boot": "a third", "tick": 1})], A, False),
    "a note of an older release, with a time and no process": ([{"sha256": A.sha256, "at": 9e9}], A, True),
    "a note of an older release, and an edited file": ([{"sha256": A.sha256, "at": 9e9}], B, False),
}


@pytest.mark.parametrize(("known", "current", "expected"), CASES.values(), ids=CASES)
def test_loaded_files_are_recognised(known, current, expected):
    assert is_loaded(known, current, RUNS) is expected


@pytest.mark.parametrize(("current", "engine"), [(Snapshot("/x"), RUNS), (A, None), (A, {"running": False, "pid": None})])
def test_a_missing_file_is_not_loaded(current, engine):
    assert is_loaded([note(A, MINE)], current, engine) is False


def test_times_do_not_count(tmp_path):
    """After someone set a clock forward, an edit may look older than a dockerd that started before the edit."""
    path = tmp_path / "daemon.json"
    path.write_bytes(b"{}")
    entry = with_loaded_note({}, path.read_bytes(), RUNS)
    path.write_bytes(b'{"debug": true}')
    with subprocess.Popen(["sleep", "60"]) as process:
        assert not is_loaded(loaded_notes(entry, str(tmp_path)), Snapshot.take(str(path)), {"running": True, "pid": process.pid})
        process.kill()


def test_both_records_are_read(tmp_path):
    entry = with_loaded_note({"written": "x"}, A.data, RUNS)
    assert loaded_notes(entry, str(tmp_path)) == [note(A, MINE)]
    (tmp_path / "health").mkdir()
    path = tmp_path / loaded.STARTS
    path.write_text(json.dumps({**note(B, OTHER), "seen": "y"}))
    assert loaded_notes(entry, str(tmp_path)) == [note(A, MINE), {**note(B, OTHER), "seen": "y"}]
    assert loaded_notes(None, str(tmp_path)) == loaded_notes(loaded.without_loaded_note(entry), str(tmp_path)) == [{**note(B, OTHER), "seen": "y"}]
    for other in ("[]", "no", json.dumps(dict(note(B, OTHER), sha256=None))):
        path.write_text(other)
        assert loaded_notes(entry, str(tmp_path)) == [note(A, MINE)]


@pytest.mark.parametrize(("current", "expected"), [(A, True), (B, False)], ids=["unchanged", "edited later"])
def test_a_record_of_0_2_0_does_not_say_what_was_loaded(tmp_path, current, expected):
    """That release restarted dockerd after each change, so dockerd has loaded its files. Such a node needs no restart to report its GPUs."""
    entry = {"written": A.sha256}
    assert is_loaded(loaded_notes(entry, str(tmp_path)), current, RUNS) is expected
    assert not is_loaded(loaded_notes(loaded.without_loaded_note(entry), str(tmp_path)), current, RUNS)


def test_a_process_is_known_by_its_boot_and_its_start():
    with subprocess.Popen(["sleep", "60"]) as process:
        first = process_identity(process.pid)
        assert first == process_identity(process.pid) != MINE
        process.kill()
    assert set(first) == {"boot", "tick"}
    assert process_identity(0) is None
