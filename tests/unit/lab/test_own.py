# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of tests has its own lab, separate from the lab of the user. At the end of the run, its lab is stopped, even after an error."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tests.lab import own
from tests.lab.lab import Lab

DOWN = ["-m", "tests.lab", "down", "--all"]
ENDS: dict[str, tuple[Callable[[], None], AbstractContextManager[object]]] = {
    "passed": (lambda: None, nullcontext()),
    "failed": (lambda: pytest.fail("a test"), pytest.raises(pytest.fail.Exception)),
    "Ctrl-C": (lambda: signal.raise_signal(signal.SIGINT), pytest.raises(KeyboardInterrupt)),
    "SIGTERM": (lambda: signal.raise_signal(signal.SIGTERM), pytest.raises(SystemExit)),
}


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Use Python's handler of SIGINT during a test, because background processes ignore SIGINT. Restore the former handlers afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("end", ENDS)
def test_the_lab_ends_with_the_run(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_SWARM_LAB_ROOT", str(tmp_path / "lab"))
    removed: list[tuple[list[str], Path]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_options: removed.append((command[1:], Lab.from_environment().root)))
    ends, expected = ENDS[end]
    with expected, own.own_lab("chaos"):
        assert Lab.from_environment().root == tmp_path / "lab-chaos"
        assert not removed
        ends()
    assert removed == [(DOWN, tmp_path / "lab-chaos")]
