# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a few stages at a time, and reports progress."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from .model import OUT, Count, Result, Stage
from .stages import environment

# One more than the requested cores, because a stage with a fleet computes only about half of the time.
PLACES = 3
PROGRESS_S = 30


class Schedule:
    """Starts a stage when the stages that it needs have passed, and its lock and a place are free."""

    def __init__(self, stages: Iterable[Stage], say: Callable[[str], None]) -> None:
        self.waiting = list(stages)
        self.known = {stage.name for stage in self.waiting}
        self.say = say
        self.running: dict[Future[Result], tuple[Stage, float]] = {}
        self.results: dict[str, Result] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.stopping = threading.Event()

    def run(self) -> list[Result]:
        OUT.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor() as pool:
            try:
                while self.waiting or self.running:
                    self._start_what_can(pool)
                    self._wait()
            except BaseException:
                self.stopping.set()
                for process in list(self.processes.values()):
                    end(process)
                raise
        return list(self.results.values())

    def _start_what_can(self, pool: ThreadPoolExecutor) -> None:
        for stage in list(self.waiting):
            # If a needed stage is not part of this run, it counts as passed.
            needs = [self.results.get(name) for name in stage.needs if name in self.known]
            broken = next((result for result in needs if result and not result.ok and not result.stage.spare), None)
            if broken:
                self._skip(stage, broken)
            elif all(needs) and self._has_place(stage):
                self.waiting.remove(stage)
                self.say(f"  start  {stage.name}")
                self.running[pool.submit(self._run_stage, stage)] = (stage, time.monotonic())

    def _skip(self, stage: Stage, broken: Result) -> None:
        self.waiting.remove(stage)
        self._finish(Result(stage, Count(failed=1), 0.0, f"not run: it needs {broken.stage.name}, which failed"))

    def _has_place(self, stage: Stage) -> bool:
        active = [other for other, _since in self.running.values()]
        if stage.lock and any(other.lock == stage.lock for other in active):
            return False
        return stage.background or sum(not other.background for other in active) < PLACES

    def _wait(self) -> None:
        if not self.running:
            return
        done, _pending = wait(self.running, timeout=PROGRESS_S, return_when=FIRST_COMPLETED)
        for future in done:
            del self.running[future]
            self._finish(future.result())
        if not done:
            now = time.monotonic()
            self.say("  ...    " + ", ".join(f"{stage.name} {now - since:.0f} s" for stage, since in self.running.values()))

    def _finish(self, result: Result) -> None:
        self.results[result.stage.name] = result
        self.say(f"  {'ok    ' if result.ok else 'FAILED'} {result.stage.name} ({result.seconds:.1f} s)")

    def _run_stage(self, stage: Stage) -> Result:
        started = time.monotonic()
        reason = ""
        try:
            status, reason = self._execute(stage)
            found = judge(stage, status)
            if status and not found.failed:
                reason = "the tests go on without it"
        except Exception as problem:  # an error in the preparation or the count is a failure of this stage
            found, reason = Count(failed=1), f"{type(problem).__name__}: {problem}"
        return Result(stage, found, time.monotonic() - started, reason)

    def _execute(self, stage: Stage) -> tuple[int, str]:
        stage.junit.unlink(missing_ok=True)
        if stage.prepare:
            stage.prepare()
        with stage.log.open("wb") as log:
            process = subprocess.Popen(
                stage.command,
                cwd=stage.cwd,
                env=environment(stage),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.processes[stage.name] = process
            if self.stopping.is_set():
                end(process)
            try:
                return process.wait(stage.timeout_s), ""
            except subprocess.TimeoutExpired:
                end(process)
                return 1, f"ran longer than its limit of {stage.timeout_s} s, and was killed"
            finally:
                del self.processes[stage.name]


def judge(stage: Stage, status: int) -> Count:
    if stage.setup:
        return Count(failed=int(status != 0 and not (stage.spare and not os.environ.get("CI"))))
    found = stage.count(stage.log) if stage.count else Count(passed=int(status == 0))
    # A tool that fails before its first test, or finds none, has not passed.
    if not found.failed and (status != 0 or not found.passed):
        found += Count(failed=1)
    return found


def end(process: subprocess.Popen[bytes]) -> None:
    """End a stage and all processes that it started, first with SIGTERM."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
            process.wait(20)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
