# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removes finished jobs on the manager that leads: when the service starts, and then hourly.

The removal has its own thread, because saving logs may take long, and metrics must be written meanwhile.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Mapping

from .._errors import GpuSwarmError
from .._jobs import logs
from .._jobs.prune import prune
from .._program.lifetime import say
from .._swarm.manager import Manager, connect
from .rounds import CONNECTION, Nodes

EVERY_S = 3600.0
ANSWER_S = 60
LIMIT_S = 3000.0  # after this time the process ends and is started again


class RemovalOfJobs:
    """Called in each round. ``settings`` are the options of the module swarm_job_timer."""

    def __init__(
        self, settings: Mapping[str, Any], connect: Callable[..., Manager] = connect, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._clock = clock
        self._started: float | None = None
        self._thread: threading.Thread | None = None

    def __call__(self, dummy_manager: Manager, dummy_nodes: Nodes, leads: bool) -> None:
        now = self._clock()
        if self._thread and self._thread.is_alive():
            if self._started is not None and now - self._started > LIMIT_S:
                say("the removal of finished jobs takes longer than %d s and is started again" % LIMIT_S)
                os._exit(1)
        elif leads and (self._started is None or now - self._started >= EVERY_S):
            self._started = now
            self._thread = threading.Thread(target=self.remove, daemon=True)
            self._thread.start()

    def remove(self) -> None:
        """Remove finished jobs. Log the names of removed jobs, and the names of jobs that are kept because their log could not be saved."""
        settings = self._settings
        try:
            logs.sweep(settings["log_directory"])
            manager = self._connect(dict(CONNECTION, timeout=ANSWER_S, docker_host="unix://" + settings["docker_socket"]))
            result = prune(manager, {"services": None, "labels": None, "holder": None, **settings}, False)
        except GpuSwarmError as problem:
            say("finished jobs could not be removed: %s" % problem.message)
            return
        except Exception as problem:  # metrics must still be written
            say("finished jobs could not be removed: %r. Please report that." % problem)
            return
        for name in result.removed:
            say("removed %s" % name)
        for name, verdict in result.kept:
            if verdict.unsaved:
                say("%s is not removed: %s" % (name, verdict.reason))
