# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import sys
from multiprocessing import get_context

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout import run_identity


def test_a_run_is_named_by_its_user_machine_and_process():
    assert run_identity.this_run().startswith(f"{getpass.getuser()}@{socket.gethostname()} pid {os.getpid()} (run ")


def _report(pipe):
    pipe.send(run_identity.this_run())


def test_the_processes_of_a_run_are_one_run():
    context = get_context("fork")  # as Ansible starts it
    here, there = context.Pipe()
    worker = context.Process(target=_report, args=(there,))
    worker.start()
    received = here.recv()
    worker.join()
    assert received == run_identity.this_run()


def test_a_user_without_a_name(monkeypatch):
    def nameless():
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(run_identity.getpass, "getuser", nameless)
    assert run_identity.this_run().startswith(f"{os.getuid()}@")


@pytest.fixture
def process():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        yield started


def holder(pid, machine=None, start=None):
    return f"x@y pid {pid} (run {machine or run_identity._machine(run_identity.PROC)}.{start or run_identity._start(pid, run_identity.PROC)})"


def test_a_run_exists_until_its_process_has_ended(process):
    run = holder(process.pid)
    assert not run_identity.has_ended(run)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert run_identity.has_ended(run)  # the process has ended, but its parent has not read the exit status
    process.wait()
    assert run_identity.has_ended(run)


def test_a_process_with_the_number_of_another_is_not_that_one():
    assert run_identity.has_ended(holder(os.getpid(), start="1"))


@pytest.mark.parametrize(
    "other",
    [
        "alice@elsewhere pid 99999999 (run 0a1b2c3d.99)",
        holder(999999999, machine="0a1b2c3d"),
        holder(999999999, start=run_identity.NO_START),
        pytest.param(f"release train, pid {os.getpid()}", id="not of this collection"),
        "",
    ],
)
def test_a_run_that_cannot_be_checked_counts_as_running(other):
    assert not run_identity.has_ended(other)


def test_a_hidden_process_counts_as_running(process, tmp_path):
    """/proc may be mounted so that users see only their own processes."""
    boot = tmp_path / "sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("a boot\n")
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to("pid:[4026531836]")
    run = holder(process.pid, run_identity._machine(tmp_path), "99")
    assert not run_identity.has_ended(run, tmp_path)
    process.kill()
    process.wait()
    assert run_identity.has_ended(run, tmp_path)


def test_without_proc_a_run_is_named_and_always_counts_as_running(tmp_path):
    run = run_identity.this_run(tmp_path)
    assert run == run_identity.this_run(tmp_path)
    assert run.endswith(".-)")
    assert not run_identity.has_ended(run, tmp_path)


@pytest.mark.parametrize(
    ("lease", "left"),
    [
        (None, False),
        ({"holder": holder(os.getpid()), "expires_in": 60}, False),
        ({"holder": holder(os.getpid()), "expires_in": 0}, True),
        ({"holder": holder(os.getpid(), start="1"), "expires_in": 60}, True),
        ({"holder": "release train", "expires_in": None}, False),
    ],
)
def test_leftover_leases_are_found(lease, left):
    assert run_identity.left_lease({"swarm": {"lease": lease}}) == (lease["holder"] if left else "")


@pytest.mark.parametrize("ledger", [None, {}, {"msg": "no manager answers"}])
def test_an_unknown_swarm_has_no_leftover_lease(ledger):
    assert run_identity.left_lease(ledger) == ""
