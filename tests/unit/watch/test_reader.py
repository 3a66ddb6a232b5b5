# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process that loads NVML: queried again and again, given up where it hangs, and never two at once."""

from __future__ import annotations

import os
import time

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch import reader

GPU = {"uuid": "GPU-00000000-1111-2222-3333-444444444444", "pci": "00000000:C1:00.0", "state": "ok", "reasons": [], "mig": []}
WELL = {"error": None, "text": None, "gpus": [GPU]}


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A reader whose child does this, with the process that it is in as the reading's text."""
    readers = []

    def make(work, limit=5.0):
        monkeypatch.setattr(reader, "_reading", lambda settings, state, held: ({**work(), "text": str(os.getpid())}, True))
        readers.append(reader.Reader(str(tmp_path), {"nvml_timeout": limit, "nvml_path": None}, lambda: None))
        return readers[-1]

    yield make
    for one in readers:
        one.end()


def test_one_process_answers_again_and_again(made):
    it = made(lambda: WELL)
    first, second = it.read(), it.read()
    assert first == second == {**WELL, "text": first["text"]}
    assert first["text"] != str(os.getpid())
    it.end()
    assert it.read()["text"] != first["text"]


def test_one_that_ends_is_a_driver_that_cannot_be_read_and_the_next_read_has_another(made, tmp_path):
    flag = tmp_path / "flag"

    def read():
        if not flag.exists():
            os._exit(3)
        return WELL

    it = made(read)
    assert it.read()["error"] == "driver"
    flag.touch()
    assert it.read()["error"] is None


def test_one_that_hangs_is_given_up(made, tmp_path):
    flag = tmp_path / "flag"
    it = made(lambda: WELL if flag.exists() else time.sleep(600), limit=0.3)
    assert (it.read()["error"], it._child) == ("hang", None)
    flag.touch()
    assert it.read()["error"] is None


def test_no_second_one_is_started_while_one_is_there(made):
    first, second = made(lambda: WELL), made(lambda: WELL)
    assert first.read()["error"] is None
    assert second.read()["error"] == "hang"
    first.end()
    assert second.read()["error"] is None


def test_it_ends_with_the_service(made):
    it = made(lambda: WELL)
    child = int(it.read()["text"])
    os.close(it._pipes[0])  # as when the service is killed
    assert os.waitpid(child, 0)[0] == child
    it._child = None
    os.close(it._pipes[1])
