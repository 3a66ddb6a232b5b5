# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tries NVIDIA's toolkit when one of its files changes. After a failure, tries again at once, then every minute.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from .. import _bounded
from .._compat import checks, runtime_config
from .._config import runtime_toml
from .._dockerd.engine import SBIN
from .._files import Snapshot
from .._machine import toolkit
from .._node import trial
from .._program.clock import Clock

EVERY_S = 60  # how often files are checked and a failed trial is repeated
LIMIT_S = 30  # the time limit of each command; it is long enough, because NVML has just answered
Run = Callable[[Sequence[str]], "tuple[int, str, str]"]


def _run(argv: Sequence[str]) -> tuple[int, str, str]:
    return _bounded.run(argv, LIMIT_S)


class Toolkit:
    """The toolkit of one node. ``last_trial`` has the digest of the files and the result of a trial. The next run of the playbook reads it."""

    def __init__(self, settings: Mapping[str, Any], clock: Clock, run: Run = _run) -> None:
        self._settings = settings
        self._clock = clock
        self._run = run
        self._looked: float | None = None
        self.last_trial: dict[str, str | None] = {"inputs": None, "problem": None}

    def problem(self, uuids: Sequence[str]) -> str | None:
        """Return a sentence that says why no container can get a GPU, or None. ``uuids`` are the GPUs that the node advertises."""
        if checks.NO_CONTAINER in (self._settings.get("accept_risks") or ()) or not uuids:
            return None
        now = self._clock.monotonic()
        if self._looked is None or now - self._looked >= EVERY_S:
            before = self.last_trial["problem"]
            self._look(uuids)
            # While a package is being installed, one trial may fail. A fault needs two readings in a row, so the second reading tries again.
            self._looked = None if self.last_trial["problem"] and not before else now
        return self.last_trial["problem"]

    def _look(self, uuids: Sequence[str]) -> None:
        path = self._settings["runtime_config"]
        values = runtime_toml.values(Snapshot.take(path).data)
        version = toolkit.read_version(self._run, SBIN)
        command = trial.trial_of(values, runtime_config.mode_of(values, checks.parse_version(version), False), uuids)
        if command is None:
            self.last_trial = {"inputs": None, "problem": None}
            return
        inputs = trial.digest_inputs(path, self._settings["nvml_path"], command, trial.spec_dirs(values))
        if inputs != self.last_trial["inputs"] or self.last_trial["problem"]:
            self.last_trial = {"inputs": inputs, "problem": trial.find_problem(self._run, command)}
