# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process that writes the label. It writes at once, or waits while an old leader could stop a task because of the update of the node."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from node_lab import UUIDS, node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import engine
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program import installed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch import report

KEY = "fleet.gpu-swarm.health="
FAULT = f"fault {UUIDS[0]} reason=lost since=1764000000"
TASK = {"id": "4f66", "name": "train.1.x", "image": "cuda", "service": "train", "task": "x"}
BY_HAND = {**TASK, "name": "by-hand", "service": None, "task": None}


@pytest.fixture
def it(tmp_path, monkeypatch):
    """Return a node with a label that its watcher wrote."""
    monkeypatch.setattr(engine, "POLL_S", 0.001)
    monkeypatch.setattr(installed, "runs", lambda *_process: True)
    found = node(tmp_path, health=True, health_faults=[79], health_ignored=[], nvml_timeout=60)
    found.converge()
    monkeypatch.setattr(report, "Engine", lambda *dummy: found.engine)
    return found


def write(it, label, says="faults"):
    return report.write(it.watcher.home, {**it.params, "health_report": says}, label)


def shown(it):
    return it.engine.inspect()["labels"]


DONE = {"waits": None, "blocked": None}


@pytest.mark.parametrize("label", ["warning reason=degraded", "ok drift=0a1b2c3d", "unwatched"])
def test_other_changes_wait_for_tasks_of_the_swarm(it, label):
    it.engine.carries = [TASK, BY_HAND]
    assert "(train)" in write(it, label)["waits"]
    assert shown(it) == [KEY + "ok"]
    assert write(it, label, says="all") == DONE
    assert shown(it) == [KEY + label]


def test_a_directory_that_systemd_keeps_read_only_is_named_with_what_to_do(it, monkeypatch):
    folder = str(Path(it.params["daemon_config"]).parent)
    monkeypatch.setattr(report.os, "access", lambda path, _mode: path != folder)
    before = it.content()
    found = write(it, FAULT)
    assert found["blocked"].startswith(f"{folder} is read-only for gpu-swarm-health. Restart that service.")
    assert "daemon-reload" in found["blocked"]
    assert (it.content(), shown(it)) == (before, [KEY + "ok"])


def test_a_stopping_service_leaves_the_model(it):
    assert write(it, "ok model=Tesla-T4") == DONE
    assert write(it, "unwatched") == DONE
    assert shown(it) == [KEY + "unwatched model=Tesla-T4"]


def test_a_model_is_no_new_fault(it):
    assert write(it, FAULT) == DONE
    it.engine.carries = [TASK]
    assert write(it, FAULT + " model=Tesla-T4")["waits"]


def test_without_tasks_it_is_written(it):
    it.engine.carries = [BY_HAND]
    assert write(it, "unwatched") == DONE
    assert shown(it) == [KEY + "unwatched"]


def test_a_fault_is_written_at_once_and_its_end_waits(it):
    it.engine.carries = [TASK]
    assert write(it, FAULT) == DONE
    assert shown(it) == [KEY + FAULT]
    assert write(it, FAULT + " drift=0a1b2c3d")["waits"]
    assert write(it, "ok")["waits"]
    assert write(it, FAULT + " cards=2") == DONE
    assert write(it, FAULT.replace("=1764000000", "=1764999999")) == DONE  # the same fault again
    it.engine.carries = []
    assert write(it, "ok") == DONE
    assert shown(it) == [KEY + "ok"]


def test_a_card_that_is_no_longer_advertised_is_not_reported_as_lost(it):
    """The watcher checked the card before a run locked the node. It writes after the run, and the run has replaced the card."""
    assert "advertises" in write(it, FAULT.replace(UUIDS[0], UUIDS[3]))["blocked"]
    assert shown(it) == [KEY + "ok"]


def test_a_stopping_service_removes_the_metrics_of_the_cards(monkeypatch, tmp_path):
    folder = tmp_path / "textfile"
    folder.mkdir()
    (folder / "gpu-swarm-cards.prom").write_text("# HELP gpu_swarm_cards_read_timestamp_seconds x\n")
    monkeypatch.setattr(report._bounded, "run", lambda argv: (0, "stopping\n", ""))
    report.stopped(str(tmp_path), {"textfile": str(folder)})
    assert os.listdir(folder) == []


def test_a_stopping_service_leaves_logged_errors(it, monkeypatch):
    """The service may stop for other reasons than its cards, for example in a window or in a restart of services after an update."""
    monkeypatch.setenv("SERVICE_RESULT", "success")
    monkeypatch.setattr(report._bounded, "run", lambda *_words, **_more: (0, "running", ""))
    path = Path(it.watcher.home, "events.json")
    path.write_text("{}")
    assert report.stopped(it.watcher.home, {**it.params, "health_report": "all"}) == DONE
    assert (shown(it), path.exists()) == ([KEY + "unwatched"], True)


def test_a_daemon_that_does_not_run_blocks_and_is_not_waited_for(it):
    it.engine.stop()
    assert write(it, "unwatched") == {"waits": None, "blocked": "dockerd is not running"}


def test_with_the_lock_of_a_run_it_is_blocked(it):
    with it.state.lock(1):
        assert "another run" in report.write(it.watcher.home, {**it.params}, FAULT, lock_s=0)["blocked"]
