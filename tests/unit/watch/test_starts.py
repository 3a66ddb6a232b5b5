# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""If another program starts dockerd, dockerd loads the daemon.json of this moment. Decides whether the loaded content is known."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._files import Snapshot
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch import starts
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch.starts import Look, Starts, next_record

P1, P2 = {"boot": "b", "tick": 100}, {"boot": "b", "tick": 200}
KNOWN = {"process": P1, "sha256": "A", "seen": "A"}


def look(*process, sha256="A", untouched=True, before_start=False, noted=None):
    """Return a look at the process of dockerd, which is P1 by default, and None if dockerd is down."""
    return Look(process[0] if process else P1, sha256, untouched, before_start, noted or {})


CASES = {
    "nothing happened": (KNOWN, look(), "A"),
    "an edit is not loaded": (KNOWN, look(sha256="B", untouched=False), "A"),
    "an edit that looks older than dockerd after somebody set the clock": (KNOWN, look(sha256="B", untouched=False, before_start=True), "A"),
    "a start with an unchanged file": (KNOWN, look(P2), "A"),
    "a start after a known edit": ({**KNOWN, "seen": "B"}, look(P2, sha256="B"), "B"),
    "an edit and then a start since the last look": (KNOWN, look(P2, sha256="B", untouched=False, before_start=True), "B"),
    "a start and then an edit since the last look": (KNOWN, look(P2, sha256="B", untouched=False), None),
    "an edit, a start and the former content again": (KNOWN, look(P2, untouched=False), None),
    "dockerd is down": (KNOWN, look(None), None),
    "a start after dockerd was down": ({"process": None, "sha256": None, "seen": "B"}, look(P2, sha256="B"), "B"),
    "the first look": ({}, look(), None),
    "a reload or a restart by this collection": (KNOWN, look(P2, sha256="C", untouched=False, noted={"process": P2, "sha256": "C"}), "C"),
    "a new label by this collection": (KNOWN, look(sha256="C", untouched=False, noted={"process": P1, "sha256": "C"}), "C"),
    "an edit after a new label": (KNOWN, look(sha256="D", untouched=False, noted={"process": P1, "sha256": "C"}), "A"),
    "no file": (KNOWN, look(P2, sha256=None, untouched=False), None),
}


@pytest.mark.parametrize(("known", "found", "loaded"), CASES.values(), ids=CASES)
def test_the_loaded_file_is_known_or_unknown(known, found, loaded):
    assert next_record(known, found) == {"process": found.process, "sha256": loaded, "seen": found.sha256}


class Node:
    """The files of a node, and a fake dockerd that a test starts."""

    def __init__(self, home, monkeypatch):
        (home / "health").mkdir()
        self.home, self.config, self.queries, self.process, self.clock = home / "health", home / "daemon.json", 0, dict(P1), 1000.0
        self.config.write_text("{}")
        monkeypatch.setattr(starts, "_clock", lambda: self.clock)
        monkeypatch.setattr(starts, "process_identity", lambda pid: self.process if pid else None)
        monkeypatch.setattr(starts._bounded, "run", self.run)
        self.again()

    def run(self, argv, limit_s):
        self.queries += 1
        return 0, "MainPID=7\n", ""

    def again(self):
        self.it = Starts(str(self.home), {"daemon_config": str(self.config), "docker_unit": "docker.service"})

    def look(self):
        self.it.look({})
        return json.loads((self.home / "dockerd.json").read_text())["sha256"]

    def sha256(self):
        return Snapshot.take(str(self.config)).sha256

    def start(self, after_s):
        """Start dockerd this many seconds after the last change of the file."""
        self.process = dict(P1, tick=int((os.stat(self.config).st_ctime + after_s - self.clock) * os.sysconf("SC_CLK_TCK")))


@pytest.fixture
def node(tmp_path, monkeypatch):
    return Node(tmp_path, monkeypatch)


def test_systemd_is_queried_only_about_another_dockerd(node):
    for _time in range(5):
        node.look()
    assert node.queries == 1
    node.process = P2
    node.look()
    node.look()
    assert node.queries == 2


def test_its_file_is_written_only_after_a_change(node):
    written = []
    for text in (None, None, '{"debug": true}', None):
        if text:
            node.config.write_text(text)
        node.look()
        written.append(os.stat(node.home / "dockerd.json").st_ino)
        os.link(node.home / "dockerd.json", node.home / f"{len(written)}.json")  # so that no other file gets the inode number of the former file
    assert [written[0] == written[1], written[1] == written[2], written[2] == written[3]] == [True, False, True]


def test_an_edit_that_waits_is_not_loaded_until_dockerd_is_started_with_it(node):
    node.look()
    node.process = P2
    first = node.look()
    assert first == node.sha256()
    node.config.write_text('{"debug": true}')
    assert node.look() == first != node.sha256()
    node.process = dict(P2, tick=300)
    assert node.look() == node.sha256()


def test_between_two_reads_times_give_the_order_unless_the_clock_is_set(node):
    node.look()
    node.config.write_text('{"debug": true}')
    node.start(1)
    assert node.look() == node.sha256()
    node.config.write_text('{"debug": false}')
    node.start(-1)
    assert node.look() is None


def test_a_clock_that_was_set_proves_nothing(node):
    node.look()
    node.config.write_text('{"debug": true}')
    node.clock += 3600
    node.start(3599)
    assert node.look() is None


def test_observations_from_before_a_boot_count_after_it(node):
    node.look()
    node.config.write_text('{"debug": true}')
    node.look()
    node.process = {"boot": "another", "tick": 5}
    node.again()
    assert node.look() == node.sha256()


def test_a_full_disk_or_a_systemd_that_hangs_ends_nothing(node, monkeypatch):
    node.look()
    node.process = P2
    with monkeypatch.context() as patched:
        patched.setattr(starts.os, "replace", lambda *dummy: (dummy for dummy in ()).throw(OSError(28, "No space left on device")))
        node.it.look({})
    assert node.look() == node.sha256()
    node.process = dict(P2, tick=400)
    with monkeypatch.context() as patched:
        patched.setattr(starts._bounded, "run", lambda *dummy: (dummy for dummy in ()).throw(starts.GpuSwarmError("hangs")))
        node.it.look({})
    assert node.look() == node.sha256()
