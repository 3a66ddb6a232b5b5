# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stage of the test run, and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
OUT = BUILD / "test"
BIN = BUILD / "venv" / "bin"


@dataclass(frozen=True)
class Count:
    passed: int = 0
    failed: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.passed + other.passed, self.failed + other.failed)


@dataclass(frozen=True)
class Stage:
    name: str
    command: list[str]
    # Called before the command; makes directories and copies.
    prepare: Callable[[], None] | None = None
    # Counts tests in the log or report of the command. Without this function, the stage is one test, and the exit status decides.
    count: Callable[[Path], Count] | None = None
    # Names of stages that must pass first.
    needs: tuple[str, ...] = ()
    # Stages with the same lock never run at the same time.
    lock: str | None = None
    # This stage is a preparation. It counts only if it fails.
    setup: bool = False
    # If this stage fails, the stages that need it run anyway. The failure is reported, and counts only in CI.
    spare: bool = False
    # The stage mostly waits, so it runs in addition to the other stages.
    background: bool = False
    cwd: Path = ROOT
    env: dict[str, str] = field(default_factory=dict)
    timeout_s: int = 1800

    @property
    def log(self) -> Path:
        return OUT / f"{self.name}.log"

    @property
    def junit(self) -> Path:
        return OUT / f"{self.name}.xml"


@dataclass(frozen=True)
class Result:
    stage: Stage
    count: Count
    seconds: float
    # The reason of the failure, if it is not in the log.
    reason: str = ""

    @property
    def ok(self) -> bool:
        return not self.count.failed
