# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab can be stopped, even if another process started it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab import daemon
from tests.lab.lab import Lab

STARTS_AND_NEVER_COLLECTS = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]]).pid, flush=True)
time.sleep(600)
"""


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_lab_stops_if_its_ended_process_is_never_reaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_SWARM_LAB_ROOT", str(tmp_path / "lab"))
    lab = Lab.from_environment()
    lab.pidfile.parent.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", STARTS_AND_NEVER_COLLECTS, str(lab.root)], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            lab.pidfile.write_text(str(pid))
            while str(lab.root).encode() not in Path(f"/proc/{pid}/cmdline").read_bytes():
                assert parent.poll() is None
            assert daemon.running(lab)
            daemon.stop(lab)
            assert (daemon.running(lab), _state(pid)) == (False, "Z")
        finally:
            parent.kill()
            lab.pidfile.unlink()
            lab.pidfile.parent.rmdir()


def test_the_lab_stops_if_it_must_reap_its_own_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_SWARM_LAB_ROOT", str(tmp_path / "lab"))
    lab = Lab.from_environment()
    lab.pidfile.parent.mkdir(parents=True)
    child = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(600)", str(lab.root)], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        lab.pidfile.write_text(str(child.pid))
        daemon.stop(lab)
        assert not Path(f"/proc/{child.pid}").exists()
    finally:
        child.stdout.close()
        lab.pidfile.unlink()
        lab.pidfile.parent.rmdir()
