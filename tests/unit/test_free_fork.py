# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The callback that makes ansible-playbook sleep until a fork is free. Also checks that Ansible has the code that this callback needs."""

from __future__ import annotations

import inspect
import multiprocessing
import runpy
from multiprocessing import connection
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.plugins.strategy import StrategyBase

CALLBACK = Path(__file__).resolve().parents[2] / "playbooks" / "callback_plugins" / "gpu_swarm_free_fork.py"


@pytest.fixture
def callback(monkeypatch):
    """Return the names in the callback's file. After the test, Ansible's changed code is restored."""
    monkeypatch.setattr(StrategyBase, "_queue_task", StrategyBase._queue_task)
    return SimpleNamespace(**runpy.run_path(str(CALLBACK)))


@pytest.fixture
def processes():
    """Start two processes. Each process runs until it gets input or the test ends."""
    started = []
    for _number in range(2):
        reader, writer = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=reader.recv)
        process.start()
        started.append(SimpleNamespace(process=process, end=lambda writer=writer: writer.send("end")))
    yield started
    for one in started:
        one.process.kill()
        one.process.join()


def test_ansible_checks_its_forks_in_this_method():
    assert "self._workers" in inspect.getsource(StrategyBase._queue_task)
    assert "time.sleep(0.0001)" in inspect.getsource(StrategyBase._queue_task)


def test_a_task_is_started_when_a_fork_is_free(callback, monkeypatch, processes):
    """The task starts at once when any fork has ended, without polling."""
    waited = []

    def wait(sentinels, timeout):
        waited.append(len(sentinels))
        processes[1].end()
        return connection_wait(sentinels, timeout=None)  # without a time limit, because no polling is needed

    connection_wait = connection.wait
    monkeypatch.setattr(connection, "wait", wait)
    monkeypatch.setattr(StrategyBase, "_queue_task", lambda strategy, host, task: [host, task, *(one.is_alive() for one in strategy._workers)])
    callback.CallbackModule()
    strategy = SimpleNamespace(_workers=[one.process for one in processes])
    assert StrategyBase._queue_task(strategy, "a", task="ping") == ["a", "ping", True, False]
    assert set(waited) == {2}


@pytest.mark.parametrize("free", [None, "ended"])
def test_with_a_free_fork_there_is_no_wait(callback, monkeypatch, processes, free):
    monkeypatch.delattr(connection, "wait")
    workers = [one.process for one in processes]
    if free is None:
        workers[1] = None
    else:
        processes[1].end()
        workers[1].join()
    callback.await_free_fork(workers)
    assert workers[0].is_alive()


def test_a_fork_that_left_a_process_behind_counts_as_ended(callback, monkeypatch, processes):
    """The wait watches the end of a pipe. A process that a task left behind may keep this pipe open."""
    waits = iter([lambda: None, processes[0].process.kill, processes[0].process.join])
    monkeypatch.setattr(connection, "wait", lambda sentinels, timeout: next(waits)())
    callback.await_free_fork([one.process for one in processes])
    assert not processes[0].process.is_alive()
