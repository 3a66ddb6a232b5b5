# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""If another program starts dockerd, dockerd loads the daemon.json of this moment. Decides whether the loaded content is known."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._files import Snapshot
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.loaded import process_identity
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
    """The files of a node, a systemctl that names dockerd, and a process that stands for dockerd. ``shift`` moves the node's clock (seconds)."""

    def __init__(self, home):
        (home / "health").mkdir()
        self.home, self.config, self.record, self.asked = home / "health", home / "daemon.json", home / "health/dockerd.json", home / "asked"
        self.program, self.shift, self.dockerd, self.process = home / "systemctl", 0.0, None, None
        self.boot = starts.time_of_boot()
        self.config.write_text("{}")
        self.start()
        self.again()

    def again(self):
        settings = {"daemon_config": str(self.config), "docker_unit": "docker.service"}
        self.it = Starts(str(self.home), settings, lambda: self.boot + self.shift)

    def look(self):
        self.it.look({})
        return json.loads(self.record.read_text())["sha256"]

    def sha256(self):
        return Snapshot.take(str(self.config)).sha256

    def queries(self):
        return len(self.asked.read_text().splitlines())

    def start(self):
        """Start dockerd again, in a later tick of the kernel's clock."""
        before = self.process
        while self.process == before:
            self.stop()
            self.dockerd = subprocess.Popen(["sleep", "600"])
            self.process = process_identity(self.dockerd.pid)
        self.answer(f"echo MainPID={self.dockerd.pid}")

    def stop(self):
        if self.dockerd:
            self.dockerd.kill()
            self.dockerd.wait()

    def answer(self, command):
        self.program.write_text(f"#!/bin/sh\necho >>{self.asked}\n{command}\n")
        self.program.chmod(0o755)


@pytest.fixture
def node(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    made = Node(tmp_path)
    yield made
    made.stop()


def test_systemd_is_queried_only_about_another_dockerd(node):
    for _time in range(5):
        node.look()
    assert node.queries() == 1
    node.start()
    node.look()
    node.look()
    assert node.queries() == 2


def test_its_file_is_written_only_after_a_change(node):
    written = []
    for text in (None, None, '{"debug": true}', None):
        if text:
            node.config.write_text(text)
        node.look()
        written.append(os.stat(node.record).st_ino)
        os.link(node.record, node.home / f"{len(written)}.json")  # so that no other file gets the inode number of the former file
    assert [written[0] == written[1], written[1] == written[2], written[2] == written[3]] == [True, False, True]


def test_an_edit_that_waits_is_not_loaded_until_dockerd_is_started_with_it(node):
    node.look()
    node.start()
    first = node.look()
    assert first == node.sha256()
    node.config.write_text('{"debug": true}')
    assert node.look() == first != node.sha256()
    node.start()
    assert node.look() == node.sha256()


@pytest.mark.parametrize(("shift", "is_known"), [(60, True), (-60, False)])
def test_between_two_reads_times_give_the_order_unless_the_clock_is_set(node, shift, is_known):
    """The shifted clock lets dockerd start a minute after the last change of the file, or before it."""
    node.shift = shift
    node.look()
    node.config.write_text('{"debug": true}')
    node.start()
    assert node.look() == (node.sha256() if is_known else None)


def test_a_clock_that_was_set_proves_nothing(node):
    node.look()
    node.config.write_text('{"debug": true}')
    node.shift += 3600
    node.start()
    assert node.look() is None


def test_observations_from_before_a_boot_count_after_it(node):
    node.look()
    node.config.write_text('{"debug": true}')
    node.look()
    record = json.loads(node.record.read_text())
    node.record.write_text(json.dumps({**record, "process": {**record["process"], "boot": "another"}}))
    node.again()
    assert node.look() == node.sha256()


def test_a_full_disk_or_a_systemd_that_hangs_ends_nothing(node, monkeypatch):
    node.look()
    node.start()
    node.record.unlink()
    node.record.mkdir()  # so that no file can be written there
    node.it.look({})
    node.record.rmdir()
    assert node.look() == node.sha256()
    node.start()
    node.answer("exec sleep 600")
    with monkeypatch.context() as patched:
        patched.setattr(starts, "LIMIT_S", 0.2)
        node.it.look({})
    node.answer(f"echo MainPID={node.dockerd.pid}")
    assert node.look() == node.sha256()
