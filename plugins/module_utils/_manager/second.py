# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps the second process of the service running. The first process never waits for the second process.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from typing import Callable, Sequence

from .._program.lifetime import say

AGAIN_S = 10.0  # the pause before the process is started again
# The exit status of the second process if the whole service must restart. A restart is needed if a directory was created after the start, because
# systemd makes only existing directories writable.
RESTART_SERVICE = 75


class Second:
    """The second process. A thread starts the process, waits for its end, and starts it again. The thread ends with the first process."""

    def __init__(self, command: Sequence[str], pause: Callable[[float], object] = time.sleep) -> None:
        self._command = command
        self._pause = pause

    def start(self) -> None:
        threading.Thread(target=self._run_forever, daemon=True).start()

    def _run_forever(self) -> None:
        while True:
            self.run_once()
            self._pause(AGAIN_S)

    def run_once(self) -> None:
        """Start the second process and wait for its end."""
        environment = {name: value for name, value in os.environ.items() if name not in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")}
        try:
            # This code runs in a service, without an AnsibleModule.
            status = subprocess.call(self._command, env=environment)  # pylint: disable=ansible-bad-function
        except OSError as problem:
            say("the second process (queues, metrics, page, jobs) cannot be started: %s. Nodes with faults are still paused." % problem)
            return
        if status == RESTART_SERVICE:
            os.kill(os.getpid(), signal.SIGTERM)
        elif status != -signal.SIGTERM and status != 0:
            say("the second process (queues, metrics, page, jobs) ended (%d) and is started again. Nodes with faults are still paused." % status)
