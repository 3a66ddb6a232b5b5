# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes a line of JSON for each task of a run: its duration, its cost on the controller, and its number of hosts."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: bench_steps
type: aggregate
short_description: Writes what each task of a run costs
description:
  - Writes the costs to the file that the environment variable C(BENCH_STEPS) names.
  - Also records the length of the file that C(BENCH_HOSTS_CPU) names.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "bench_steps"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        self._log = Path(os.environ["BENCH_STEPS"]).open("w", buffering=1)  # noqa: SIM115  # closed by the end of the run
        self._play, self._number, self._task = "", 0, "start"
        self._hosts: set[str] = set()
        self._runs = 0
        self._before = self._now()

    def _now(self):
        times = os.times()
        rss = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
        return {
            "at": time.monotonic(),
            "cpu": times.user + times.system + times.children_user + times.children_system,
            "own_cpu": times.user + times.system,
            "rss_kib": int(rss[1]) if rss else 0,
            "hosts_bytes": os.stat(os.environ["BENCH_HOSTS_CPU"]).st_size,
        }

    def _next(self, task, play=None):
        now = self._now()
        where = {"number": self._number, "play": self._play, "task": self._task, "hosts": len(self._hosts), "runs": self._runs}
        print(json.dumps({**where, "from": self._before, "to": now}), file=self._log)
        if play is not None:
            self._play, self._number = play, self._number + 1
            self._hosts = set()
        self._task, self._before, self._runs = task, now, 0

    def v2_playbook_on_play_start(self, play):  # Ansible calls this for each batch of a play
        self._next("", play.get_name())

    def v2_playbook_on_task_start(self, task, is_conditional):
        self._next(task.get_name())

    def v2_runner_on_start(self, host, task):
        self._hosts.add(host.get_name())
        self._runs += 1

    def v2_playbook_on_stats(self, stats):
        self._next("end")
