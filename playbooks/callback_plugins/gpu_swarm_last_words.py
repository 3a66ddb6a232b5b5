# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prints how a run of this collection went, after Ansible's recap, and sets the exit status accordingly.

Ansible knows no exit status between success and failure. This callback adds 75, "try again later" (EX_TEMPFAIL of sysexits.h), for a run
after which some nodes only wait for work to end; and 2 for a run in which no task failed and something is wrong all the same.

Ansible calls its callbacks one after the other at the end of a run. A callback that ended the process there would skip those after it, such
as junit. So this one prints, and ends the process, after all of them: when Ansible cleans up.
"""

from __future__ import annotations

import functools
import os
import sys

from ansible import constants
from ansible.executor.task_queue_manager import TaskQueueManager
from ansible.plugins.callback import CallbackBase

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report import last_words

DOCUMENTATION = r"""
name: gpu_swarm_last_words
type: aggregate
short_description: Prints how a run went, and sets its exit status
description:
  - Prints the outcome of a run after Ansible's recap.
  - Ends ansible-playbook with exit status 75 if nothing failed and some nodes wait for work to end.
  - Ends it with exit status 2 if no task failed and some hosts are not as they should be all the same.
"""

STATUSES = {last_words.DONE: 0, last_words.WAITING: os.EX_TEMPFAIL, last_words.FAILED: 2}  # 2 is Ansible's own for failed hosts
# call_manager lets only the words of speakers through.
SPEAKERS = {f"fleet.gpu_swarm.{name}" for name in (*last_words.SPEAKERS, "call_manager")}
# Stdout callbacks whose output another program reads. The words stand in it as the results of their tasks.
FOR_PROGRAMS = ("json", "jsonl")


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpu_swarm_last_words"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self):
        super().__init__()
        self._words, self._reasons, self._ended = [], {}, False
        last_words.Collector.active = True
        TaskQueueManager.cleanup = _with_last_words(TaskQueueManager.cleanup, self._end)

    def v2_runner_on_ok(self, result):
        if (result._task.resolved_action or result._task.action) in SPEAKERS:
            self._words += last_words.said_in(result._result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self.v2_runner_on_ok(result)
        if not ignore_errors:
            self._reasons[result._host.get_name()] = last_words.reason(result._result)

    def v2_runner_on_unreachable(self, result):
        self._reasons[result._host.get_name()] = last_words.reason(result._result)

    def _end(self, stats):
        """Print the last words, once. Return the exit status, or None where Ansible has one of its own."""
        if self._ended:
            return None
        self._ended = True
        spoken_of = {host for words in self._words if words.verdict == last_words.FAILED for host in words.hosts}
        failed, unreachable = (self._reasons_of({*names} - spoken_of) for names in (stats.failures, stats.dark))
        more = last_words.of_failures(failed, unreachable, ended_early=not self._words)
        if constants.DEFAULT_STDOUT_CALLBACK.rpartition(".")[2] not in FOR_PROGRAMS:
            for words in [*self._words, *([more] if more else [])]:
                last_words.show(words)
        return None if stats.failures or stats.dark else STATUSES[last_words.worst(words.verdict for words in self._words)]

    def _reasons_of(self, names):
        return {name: self._reasons.get(name, "no reason given") for name in sorted(names)}


def _with_last_words(cleanup, end):
    """Wraps TaskQueueManager.cleanup, which PlaybookExecutor calls when all callbacks are done (lib/ansible/executor/playbook_executor.py).

    It also calls it after Ctrl-C or an error of Ansible's: then what is known so far is printed, and the exit status is Ansible's."""

    @functools.wraps(cleanup)
    def wrapper(manager, *args, **kwargs):
        cleanup(manager, *args, **kwargs)
        raised = sys.exc_info()[0] is not None
        status = end(manager._stats)
        if status and not raised:
            manager._loader.cleanup_all_tmp_files()  # what follows in PlaybookExecutor, and would be skipped
            raise SystemExit(status)

    return wrapper
